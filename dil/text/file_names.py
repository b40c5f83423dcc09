"""Checks names of files that a source or a job chose: they must be below one folder."""

from __future__ import annotations

import hashlib
import re

MOST_BYTES = 255
MOST_PATH_BYTES = 4095
# Folders of this project that hold no published data.
RESERVED = frozenset({"_dil", "_staging", "_quarantine", "_failed", "_audit"})
# Halves of surrogate pairs, which have no bytes, and control characters, which scripts and
# terminals may act on.
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# DIL, Spark, Hive and shells do not take files with these first characters for published data.
_HIDDEN = ("_", ".")
_ENDINGS = re.compile(r"(?:\.[A-Za-z0-9]{1,10}){1,2}$")


def relative_name(text: str) -> str:
    """Return a name as a relative path: without a leading slash, double slashes and ``.`` parts.

    >>> relative_name("//home/./user//f.gpg")
    'home/user/f.gpg'

    Raises:
        ValueError: the text names no file, or the name is not allowed; the message gives the
            reason.
    """
    if _UNUSABLE.search(text):
        raise ValueError("holds control characters, or characters that no file name can have")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text.strip() or text.endswith(("/", "/.")) or not parts:
        raise ValueError("names no file")
    if ".." in parts:
        raise ValueError("leads out of its folder")
    kept = [part for part in parts if part.casefold() in RESERVED]
    if kept:
        raise ValueError(f'leads to "{kept[0]}", which is kept for other things')
    hidden = [part for part in parts if part.startswith(_HIDDEN)]
    if hidden:
        raise ValueError(f'has "{hidden[0]}" in it: readers skip what begins with "_" or "."')
    if any(len(part.encode()) > MOST_BYTES for part in parts[:-1]):
        raise ValueError(f"has a folder with more than {MOST_BYTES} bytes in its name")
    return "/".join(parts)


def fitted(name: str) -> str:
    """Return a path whose last part is cut to 255 bytes, with a hash of the whole name in it.

    Up to two file endings are kept, so that a reader still knows the format.
    """
    folder, slash, last = name.rpartition("/")
    if len(last.encode()) <= MOST_BYTES:
        return name
    match = _ENDINGS.search(last)
    ending = match.group() if match else ""
    tail = f"-{hashlib.sha256(last.encode()).hexdigest()[:12]}{ending}"
    stem = last[: len(last) - len(ending)].encode()[: MOST_BYTES - len(tail)]
    return f"{folder}{slash}{stem.decode('utf-8', 'ignore')}{tail}"
