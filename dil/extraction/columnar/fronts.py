"""Another file in front of a file: its rows would be lost, or taken for those of the file.

Places in a columnar file count from its begin, and its reader starts from its end. A file in
front therefore makes the part that the file does not account for longer by its own length.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dil.errors import SourceContractError

_CHUNK = 1024 * 1024


def places(mark: bytes, file: pa.NativeFile, end: int) -> Iterator[int]:
    """Yield each place of a whole mark in the first ``end`` bytes of a file."""
    at = 0
    while at + len(mark) <= end:
        text = file.read_at(min(_CHUNK, end - at), at)
        found = text.find(mark)
        while found >= 0:
            yield at + found
            found = text.find(mark, found + 1)
        at += max(1, len(text) - len(mark) + 1)


def another_in_front(name: str) -> SourceContractError:
    """Return the error of two files in one."""
    return SourceContractError(
        f"another {name} file is in front of the {name} file",
        "Such files cannot be put one behind the other: have each sent as one file.",
    )
