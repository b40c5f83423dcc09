"""The writer contract: record batches of one schema into one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO, ClassVar

from dil.model.job import WritingSpec

if TYPE_CHECKING:
    import pyarrow as pa


class FileWriter(ABC):
    """A file format. One instance writes one file to an open binary stream.

    The stream is opened and closed by the caller. ``schema`` is in the typed form of
    ``dil.model.arrow``; every batch has exactly this schema.
    """

    extension: ClassVar[str]

    def __init__(self, sink: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> None:
        self.sink = sink
        self.schema = schema
        self.spec = spec

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch; may be buffered up to a row group or block."""

    @abstractmethod
    def close(self) -> None:
        """Write what is buffered and the format's end; the stream stays open."""
