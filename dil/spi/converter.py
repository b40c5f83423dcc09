"""The converter contract: one record batch in, record batches out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dil.errors import Problem
from dil.model.job import Job
from dil.model.json import JsonObject, JsonValue
from dil.model.properties import Properties
from dil.model.section import Section
from dil.spi.connector import PluginProperty
from dil.spi.extractor import Page
from dil.spi.rejects import NoRejects, Rejects

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ConverterContext:
    """The context of a converter; one per attempt. ``run_now`` is epoch ms UTC.

    ``validation_rows`` reads the rows of the secondary input of category ``validation``, entry
    after entry; it may be called once, and is None if the job has no such entry. ``rejects`` keeps
    the rows that a step puts aside. ``known_schema`` is the dataset's schema, as in ``RunContext``.
    """

    job: Job
    run_now: int
    validation_rows: Callable[[], Iterable[JsonObject]] | None = field(default=None, repr=False)
    rejects: Rejects = field(default_factory=NoRejects, repr=False)
    known_schema: str = ""


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The facts about the rows of one page: its response, and the variables of its request.

    ``number`` counts the pages of the work unit from 1; 0 if the number is unknown.
    """

    page: Page
    variables: Mapping[str, JsonValue] = field(repr=False)
    number: int = 0


class Converter(ABC):
    """A step between extractor and writer; one instance serves one attempt."""

    sections: ClassVar[tuple[type[Section], ...]] = ()
    properties: ClassVar[tuple[PluginProperty, ...]] = ()

    def __init__(self, context: ConverterContext) -> None:
        self.context = context

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return the problems of the properties; runs on the driver, before any I/O."""
        del properties
        return ()

    @abstractmethod
    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batches that replace this batch; to drop its rows, yield no batch."""

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the converter held back; called after the work unit's last row."""
        return iter(())

    @property
    def dropped(self) -> int:
        """Return the number of rows dropped as failures so far."""
        return 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences for the run's report; called after the last row."""
        return ()
