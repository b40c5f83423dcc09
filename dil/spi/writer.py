"""The writer contract: record batches of one schema into one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, ClassVar, TypeVar

from dil.errors import Problem
from dil.model.job import WritingSpec
from dil.model.properties import Properties
from dil.model.section import Section
from dil.spi.connector import PluginProperty

if TYPE_CHECKING:
    import pyarrow as pa

S = TypeVar("S", bound=Section)


class FileWriter(ABC):
    """A file format; one instance writes one file to an open binary stream.

    The caller opens and closes the stream, which cannot seek. ``schema`` is in the typed form
    of ``dil.model.arrow``; every batch has exactly this schema. A file ends when more than
    ``spec.target_bytes`` were written to the stream.

    If the format cannot hold a value exactly, the writer raises ValueError; it never changes a
    value. If a task is killed, or its attempt fails, the file is deleted: no reader sees a part of
    it.

    A class that a job names in ``ms.writer.class`` runs in tasks. ``sections`` and ``properties``
    are as in ``Connector``; ``section`` returns the values of a section. ``extension`` is the
    ending of file names, without a dot. ``read``, if it is set, yields the rows of a file again, so
    that columns may change while a work unit is read. ``read`` is a static method that takes the
    same arguments as the class.
    """

    extension: ClassVar[str]
    sections: ClassVar[tuple[type[Section], ...]] = ()
    properties: ClassVar[tuple[PluginProperty, ...]] = ()
    read: ClassVar[
        Callable[[BinaryIO, pa.Schema, WritingSpec], Iterator[pa.RecordBatch]] | None
    ] = None

    def __init__(self, sink: BinaryIO, schema: pa.Schema, spec: WritingSpec) -> None:
        self.sink = sink
        self.schema = schema
        self.spec = spec

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return the problems of the properties; runs on the driver, before any I/O."""
        del properties
        return ()

    def section(self, kind: type[S]) -> S:
        """Return the job's section of this class."""
        own = self.spec.own
        return kind() if own is None else own.properties.section(kind)

    @property
    def held_bytes(self) -> int:
        """Return the approximate number of bytes held back in memory."""
        return 0

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append one batch; it may stay in memory until a row group or block is full."""

    @abstractmethod
    def close(self) -> None:
        """Write the rows held back and the format's end; the stream stays open."""
