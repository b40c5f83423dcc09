"""The converter contract: record batch in, record batches out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dil.errors import Problem
from dil.model.job import Job
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.spi.connector import PluginProperty
from dil.spi.extractor import Page

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ConverterContext:
    """What a converter may know; one per attempt. ``run_now`` is epoch ms UTC."""

    job: Job
    run_now: int


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What surrounds the rows of one page: its response, and the variables of its request."""

    page: Page
    variables: Mapping[str, JsonValue] = field(repr=False)


class Converter(ABC):
    """A step between extractor and writer. One instance serves one attempt."""

    properties: ClassVar[tuple[PluginProperty, ...]] = ()

    def __init__(self, context: ConverterContext) -> None:
        self.context = context

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return what is wrong with the properties; runs on the driver, before any I/O."""
        del properties
        return ()

    @abstractmethod
    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batches that take this batch's place; none drops it."""

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield what was held back, after the last row of the work unit (DIL's EOF)."""
        return iter(())

    @property
    def dropped(self) -> int:
        """Return how many rows were dropped as failures so far."""
        return 0
