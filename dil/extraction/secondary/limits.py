"""Limits how much of a secondary input is read, because its file may have any size."""

from __future__ import annotations

from dataclasses import dataclass

from dil.extraction.secondary.columns import UnfitError
from dil.extraction.sizes import share_of

MAX_BYTES = "ms.secondary.input.max.bytes"
# A row costs time and memory besides its bytes, and a file can hold any number of empty rows.
_ROW_BYTES = 256


@dataclass(frozen=True, slots=True)
class InputLimits:
    """The limits of reading inputs, in bytes; 0 or None is no limit.

    ``memory_bytes`` is the memory of the process. ``most_bytes`` is the most that may be read of an
    input that is kept as a whole, such as activation: each row counts its unpacked bytes plus 256.
    """

    memory_bytes: int | None = None
    most_bytes: int = 0


class Allowance:
    """Counts how much of the limits is left while one input is read, file after file."""

    def __init__(self, limits: InputLimits, *, is_kept: bool) -> None:
        self.memory_bytes = limits.memory_bytes
        self._most = limits.most_bytes if is_kept else 0
        self._taken = 0

    def longest(self, usual: int) -> int:
        """Return the most bytes of a part that is read as a whole."""
        return share_of(self.memory_bytes, usual)

    def take(self, rows: int, size: int) -> None:
        """Count rows of ``size`` bytes before the rows are made.

        Raises:
            UnfitError: the input is longer than it may be.
        """
        self.expect(rows, size)
        self._taken += rows * _ROW_BYTES + size

    def expect(self, rows: int, size: int) -> None:
        """Raise if a file's own numbers announce too many rows, before any row is read.

        Raises:
            UnfitError: the input would be longer than it may be.
        """
        if self._most and self._taken + rows * _ROW_BYTES + size > self._most:
            raise UnfitError(
                f"makes the input longer than {self._most:,} bytes ({_ROW_BYTES} bytes are added"
                " for each row)",
                "The file may be damaged, or made to exhaust memory. If it is sound, name fewer"
                " fields and a path with fewer rows (rows that filters leave out count, too), or"
                f" raise {MAX_BYTES}; 0 means no limit.",
            )
