"""Limits length and width of a source's data: a part that is read whole must fit in memory.

All limits of readers are here. The limit of the process is ``ExtractionSpec.memory_bytes``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dil.errors import SourceContractError
from dil.model.job import ExtractionSpec

if TYPE_CHECKING:
    import pyarrow as pa

_MIB = 1024 * 1024
# These parts are read as a whole; with little memory ``longest`` lowers the limits.
JSON_VALUE_BYTES = 256 * _MIB
XML_ROW_BYTES = 256 * _MIB
XML_TAG_BYTES = 32 * _MIB
AVRO_BLOCK_BYTES = 256 * _MIB
CSV_RECORD_BYTES = 64 * _MIB
ORC_TAIL_BYTES = 64 * _MIB
# These parts are read as a whole, too; their limits do not depend on memory.
JSONPATH_FOUND_BYTES = 256 * _MIB
JSONPATH_SEARCHED_BYTES = 64 * _MIB  # Decoding takes several times the memory of the text.
AGGREGATED_BODY_BYTES = 128 * _MIB  # The whole body is in memory while its rows are written.
INPUT_LINE_BYTES = 64 * _MIB
ZIP_LIST_BYTES = 16 * _MIB  # It takes ten times as much memory when it is read.
TAR_HEADER_BYTES = 1 * _MIB
XZ_MEMORY_BYTES = 128 * _MIB  # The memory that xz data may need; xz -9 needs 65 MiB.
# Text or blocks that become one batch.
BATCH_BYTES = 32 * _MIB
MOST_COLUMNS = 20_000

# A decoded value takes several times the memory of its text, and more while it becomes Arrow.
_SHARE = 16
_BATCH_ROWS = 65_536
_BATCH_CELLS = 16 * 1024 * 1024


def longest(spec: ExtractionSpec, usual: int) -> int:
    """Return the most bytes of a part that is read as a whole, given the job's memory."""
    return share_of(spec.memory_bytes, usual)


def share_of(memory: int | None, usual: int) -> int:
    """Return the most bytes of a part that is read as a whole, given ``memory`` in bytes."""
    return min(usual, memory // _SHARE) if memory else usual


def memory_words(memory: int | None, whose: str) -> str:
    """Return the words that follow "needs more than" in errors about too little memory.

    >>> memory_words(1_000_000, "a worker"), memory_words(0, "a worker")
    ('the 1,000,000 bytes of memory that a worker may take', 'there is')
    """
    return f"the {memory:,} bytes of memory that {whose} may take" if memory else "there is"


def too_long(what: str) -> SourceContractError:
    """Return the error for a part that must be read as a whole but is too long."""
    return SourceContractError(
        what,
        "The source's answer may be damaged, or made to exhaust memory. If it is sound, raise"
        " ms.task.memory.max.bytes: a part that is read as a whole may have a sixteenth of it, and"
        " never more than its format allows (docs/running.md, Memory).",
    )


@dataclass(slots=True)
class Width:
    """Counts the columns found in rows, including members of records; ``most`` 0 is no limit."""

    most: int = MOST_COLUMNS
    count: int = 0

    def add(self, count: int) -> None:
        """Count further columns.

        Raises:
            SourceContractError: there are more columns than the limit.
        """
        self.count += count
        if self.most and self.count > self.most:
            raise SourceContractError(
                f"the rows have {self.count:,} columns or more, counting members of records, and"
                f" ms.extract.columns.max is {self.most:,}",
                "Often names are really values, such as dates or ids: name the columns that you"
                " need in ms.output.schema, or ask the source for another form. If the rows"
                " really have so many columns, raise ms.extract.columns.max; each column costs"
                " time and memory.",
            )


def rows_at_once(columns: int) -> int:
    """Return the most rows of one batch with a number of columns.

    >>> rows_at_once(100), rows_at_once(20_000)
    (65536, 838)
    """
    return max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, columns)))


def width_of(types: Iterable[pa.DataType]) -> int:
    """Return the number of columns, including members of records."""
    return sum(1 + width_of(_inside(kind)) for kind in types)


def _inside(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(number).type for number in range(kind.num_fields)]
