"""Finds a file in front of another file; without this check the rows of one would be lost.

Offsets in a columnar file count from its beginning, and its reader starts at its end. So a file in
front shows as bytes that the metadata at the end does not describe.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dil.errors import SourceContractError

_CHUNK = 1024 * 1024


def places(mark: bytes, file: pa.NativeFile, end: int) -> Iterator[int]:
    """Yield the offset of each whole mark in the first ``end`` bytes of a file."""
    at = 0
    while at + len(mark) <= end:
        text = file.read_at(min(_CHUNK, end - at), at)
        found = text.find(mark)
        while found >= 0:
            yield at + found
            found = text.find(mark, found + 1)
        at += max(1, len(text) - len(mark) + 1)


def another_in_front(name: str) -> SourceContractError:
    """Return the error for a body that is two files."""
    return SourceContractError(
        f"another {name} file is in front of the {name} file",
        "Such files cannot be concatenated: send each as a file of its own.",
    )
