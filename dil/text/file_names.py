"""Names of files and folders below a dataset: by a source, by a job, and by the values of columns.

Folders ``column=value`` are named as in Hive; Spark, DuckDB and pyarrow read the values back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from urllib.parse import unquote

from dil.errors import ConversionError

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
# The folder of rows whose column is null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE_IN_HIVE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


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


def hive_folder(columns: Sequence[str], texts: Sequence[str | None]) -> str:
    """Return the folder of rows with these values, below the folder of all rows.

    An empty text is written like null: Hive and Delta have no other form for it.

    >>> hive_folder(["day", "shop"], ["2020-01-01", "a/b"])
    'day=2020-01-01/shop=a%2Fb'

    Raises:
        ConversionError: a value is too long for a folder's name.
    """
    parts = []
    for column, text in zip(columns, texts, strict=True):
        part = f"{_quoted(column)}={_quoted(text) if text else HIVE_NULL}"
        if len(part.encode()) > MOST_BYTES:
            raise ConversionError(
                f'column "{column}" holds a value that is too long for the name of a folder',
                f"ms.table.partition.fields needs short values: {column}=value has at most"
                f" {MOST_BYTES} bytes. Leave the column out of it.",
            )
        parts.append(part)
    return "/".join(parts)


def hive_values(folder: str) -> dict[str, str | None]:
    """Return the columns that a folder names, with their values as texts.

    >>> hive_values("lake/day=__HIVE_DEFAULT_PARTITION__/the%3Ashop=a%2Fb")
    {'day': None, 'the:shop': 'a/b'}
    """
    named = (part.partition("=") for part in folder.split("/") if "=" in part)
    return {
        unquote(column): None if text == HIVE_NULL else unquote(text) for column, _, text in named
    }


def _quoted(text: str) -> str:
    return _UNSAFE_IN_HIVE.sub(lambda found: f"%{ord(found[0]):02X}", text)
