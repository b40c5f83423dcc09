"""Reads documents of all versions: JSON whose member ``format`` is the number of its format."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from dil.errors import StateError
from dil.storage import Filesystem

T = TypeVar("T")


class _Format(msgspec.Struct):
    format: int


def decoded(data: bytes, kind: type[T], path: str, known: int) -> T:
    """Return the content of a document of a known format.

    Args:
        data: The whole file.
        kind: The type of a document of a known format.
        path: The path of the file, for messages.
        known: The highest format that this version reads.

    Raises:
        StateError: a newer version wrote the document, or it is damaged.
    """
    try:
        refuse_newer(data, path, known)
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise StateError(
            f"{path} is damaged: {error}", "Nothing was changed. Restore the file from a copy."
        ) from error


def read_known(filesystem: Filesystem, path: str, kind: type[T], known: int) -> T | None:
    """Return the content of a document; None if it is missing, damaged or of an older format.

    Raises:
        StateError: a newer version wrote the document.
    """
    data = filesystem.content(path)
    if data is None:
        return None
    try:
        is_known = refuse_newer(data, path, known) == known
        found = msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError:
        return None
    return found if is_known else None


def refuse_newer(data: bytes, path: str, known: int) -> int:
    """Return the number of a document's format, if this version knows it.

    Raises:
        StateError: a newer version wrote the document.
        msgspec.MsgspecError: the document has no format.
    """
    found = msgspec.json.decode(data, type=_Format).format
    if found > known:
        raise StateError(
            f"{path} has format {found}, this dil reads formats up to {known}",
            "A newer version wrote the file. Update dil-spark on this machine; nothing was"
            " changed.",
        )
    return found
