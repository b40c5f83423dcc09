"""How long and how wide what a source sends may be: what is read whole has to fit into memory.

All budgets of readers are here. That of the process is ``ExtractionSpec.memory_bytes``.
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
# Read whole; ``longest`` makes less of these in little memory.
JSON_VALUE_BYTES = 256 * _MIB
XML_ROW_BYTES = 256 * _MIB
XML_TAG_BYTES = 32 * _MIB
AVRO_BLOCK_BYTES = 256 * _MIB
CSV_RECORD_BYTES = 64 * _MIB
ORC_TAIL_BYTES = 64 * _MIB
# Read whole as well, in whatever memory there is.
JSONPATH_FOUND_BYTES = 256 * _MIB
JSONPATH_SEARCHED_BYTES = 64 * _MIB  # decoding takes several times the memory of the text
AGGREGATED_BODY_BYTES = 128 * _MIB  # the whole body is there while its rows are written
INPUT_LINE_BYTES = 64 * _MIB
ZIP_LIST_BYTES = 16 * _MIB  # takes ten times as much once it is read
TAR_HEADER_BYTES = 1 * _MIB
XZ_MEMORY_BYTES = 128 * _MIB  # what xz data may ask for; xz -9 asks for 65 MiB
# Text or blocks that become one batch.
BATCH_BYTES = 32 * _MIB
MOST_COLUMNS = 20_000

# Decoded, a value takes several times the memory of its text, and more while it becomes Arrow.
_SHARE = 16
_BATCH_ROWS = 65_536
_BATCH_CELLS = 16 * 1024 * 1024


def longest(spec: ExtractionSpec, usual: int) -> int:
    """Return how many bytes something may have that is read whole: less in little memory."""
    return share_of(spec.memory_bytes, usual)


def share_of(memory: int | None, usual: int) -> int:
    """Return how many bytes something may have that is read whole in so much memory."""
    return min(usual, memory // _SHARE) if memory else usual


def memory_words(memory: int | None, whose: str) -> str:
    """Return the words after "needs more than", for too little memory.

    >>> memory_words(1_000_000, "a worker"), memory_words(0, "a worker")
    ('the 1,000,000 bytes of memory that a worker may take', 'there is')
    """
    return f"the {memory:,} bytes of memory that {whose} may take" if memory else "there is"


def too_long(what: str) -> SourceContractError:
    """Return the error of something that is read whole and is too long for that."""
    return SourceContractError(
        what,
        "The source's answer may be damaged, or made to exhaust memory. Where it is sound: what is"
        " read whole may have a sixteenth of ms.task.memory.max.bytes, and never more than its"
        " format allows (docs/running.md, Memory).",
    )


@dataclass(slots=True)
class Width:
    """The columns of rows, members of records counted, as they are found; 0 is no limit."""

    most: int = MOST_COLUMNS
    count: int = 0

    def add(self, count: int) -> None:
        """Count further columns.

        Raises:
            SourceContractError: there are more than there may be.
        """
        self.count += count
        if self.most and self.count > self.most:
            raise SourceContractError(
                f"the rows have {self.count:,} columns or more, members of records counted, and"
                f" ms.extract.columns.max is {self.most:,}",
                "Names that are values, such as dates or ids, make so many: name the columns that"
                " you need in ms.output.schema, or ask the source for another form. Raise"
                " ms.extract.columns.max where the rows are meant so; each column costs time and"
                " memory.",
            )


def rows_at_once(columns: int) -> int:
    """Return the most rows in one batch, for a number of columns.

    >>> rows_at_once(100), rows_at_once(20_000)
    (65536, 838)
    """
    return max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, columns)))


def width_of(types: Iterable[pa.DataType]) -> int:
    """Return how many columns there are, members of records counted."""
    return sum(1 + width_of(_inside(kind)) for kind in types)


def _inside(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(number).type for number in range(kind.num_fields)]
