"""Checks blocks of a container file before records are made: few bytes can hold many records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from dil.errors import SourceContractError
from dil.extraction.avro.container import PlainBlocks
from dil.extraction.avro.empty_items import MOST_EMPTY, EmptyItems
from dil.extraction.avro.types import AvroType


class CheckedBlocks:
    """The blocks of a file as fastavro reads them, none longer than ``longest`` bytes.

    Raises:
        SourceContractError: a block is too long, its codec is not known, or it has far more rows or
        array items than bytes.
        Exception: any error of fastavro about bytes that it does not understand.
    """

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        from fastavro import block_reader

        self._blocks = block_reader(cast("Any", PlainBlocks(stream, longest)))

    @property
    def schema(self) -> AvroType:
        """Return the schema of the file in fastavro's parsed form."""
        return self._blocks.writer_schema

    def __iter__(self) -> Iterator[Any]:
        """Yield each block: its records, their number (``num_records``) and bytes (``bytes_``)."""
        empty_items = EmptyItems(self.schema)
        has_empty_items = empty_items.may_be
        for block in self._blocks:
            found = cast("Any", block)  # the type stubs lack its attributes
            with found.bytes_.getbuffer() as data:
                _check_rows(found.num_records, data.nbytes)
                if has_empty_items:
                    empty_items.check(data, found.num_records)
            yield found


def _check_rows(rows: int, size: int) -> None:
    """Raise if a small block holds too many rows that take no bytes."""
    if rows > max(size, MOST_EMPTY):
        raise SourceContractError(
            f"a block of {size:,} bytes declares {rows:,} rows",
            "Write the file again at the source: it is damaged, or was made to exhaust memory.",
        )
