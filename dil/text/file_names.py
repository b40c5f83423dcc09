"""Names of files that a source or a job chose: below one folder, whatever they are."""

from __future__ import annotations

import hashlib
import re

MOST_BYTES = 255
MOST_PATH_BYTES = 4095
# Folders in which this project keeps what is no published data.
RESERVED = frozenset({"_dil", "_staging", "_quarantine", "_failed", "_audit"})
# Halves of surrogate pairs, which have no bytes, and control characters: scripts and terminals do
# something else at them.
_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# What begins so is no published data, for us and for Spark, Hive and shells.
_HIDDEN = ("_", ".")
_ENDINGS = re.compile(r"(?:\.[A-Za-z0-9]{1,10}){1,2}$")


def relative_name(text: str) -> str:
    """Return a name as a path below some folder: no slash in front, none twice, no ``.`` parts.

    >>> relative_name("//home/./user//f.gpg")
    'home/user/f.gpg'

    Raises:
        ValueError: it names no file, or one that must not be there; the text says why.
    """
    if _UNUSABLE.search(text):
        raise ValueError("holds control characters, or some that no file name can have")
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
    """Return a path whose last part has at most 255 bytes; one that is cut ends in its own hash.

    The ending stays, up to two of them, so that a reader still knows what is inside.
    """
    folder, slash, last = name.rpartition("/")
    if len(last.encode()) <= MOST_BYTES:
        return name
    match = _ENDINGS.search(last)
    ending = match.group() if match else ""
    tail = f"-{hashlib.sha256(last.encode()).hexdigest()[:12]}{ending}"
    stem = last[: len(last) - len(ending)].encode()[: MOST_BYTES - len(tail)]
    return f"{folder}{slash}{stem.decode('utf-8', 'ignore')}{tail}"
