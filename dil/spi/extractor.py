"""The extractor contract: one response in, one page of Arrow rows out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dil.errors import Problem
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue
from dil.model.path import MISSING, Missing
from dil.model.properties import Properties
from dil.model.section import Section
from dil.spi.connector import PluginProperty, Response

if TYPE_CHECKING:
    import pyarrow as pa


def nothing_found(path: str) -> JsonValue | Missing:
    """Return MISSING for each path; use this as ``Page.lookup`` if the response has no root."""
    del path
    return MISSING


@dataclass(slots=True)
class Page:
    """One decoded response.

    Attributes:
        batches: The rows, in record batches of the raw schema of ``dil.model.arrow``. They can be
            read once.
        lookup: Returns the value at a dot path from the root of the response (rule F12), MISSING if
            the response has no such value.
        rows: The number of all rows of the response; complete after the last batch was read.
        notes: Fixed sentences for the run's report, about oddities that are no failure. The report
            counts equal notes.
        has_content: False if the response had no part that could hold rows.
        dropped: The number of rows that the extractor left out because the job allows it.
        is_whole: True if the page stands for the response as one file, and not for rows.
        left_out: The paths of columns that the rows have and ``ms.output.schema`` lacks.
    """

    batches: Iterator[pa.RecordBatch]
    lookup: Callable[[str], JsonValue | Missing]
    rows: int = 0
    notes: tuple[str, ...] = ()
    has_content: bool = True
    dropped: int = 0
    is_whole: bool = False
    left_out: tuple[str, ...] = ()

    def close(self) -> None:
        """Close the body of the rows, even if not all rows were read."""
        close = getattr(self.batches, "close", None)
        if close is not None:
            close()


class Extractor(ABC):
    """A format; one instance serves one attempt of one work unit, page after page.

    An extractor that infers a schema keeps the schema from page to page and may widen it. Set
    ``sees_every_member`` to True if the extractor keeps all members of a row when
    ``ms.output.schema`` is not set: only then can a schema contract check the members.
    """

    sections: ClassVar[tuple[type[Section], ...]] = ()
    properties: ClassVar[tuple[PluginProperty, ...]] = ()
    content_types: ClassVar[tuple[str, ...]] = ()
    sees_every_member: ClassVar[bool] = False

    def __init__(self, spec: ExtractionSpec) -> None:
        self.spec = spec

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return the problems of the properties; runs on the driver, before any I/O."""
        del properties
        return ()

    @abstractmethod
    def extract(self, response: Response) -> Page:
        """Return the page of one response.

        When all batches of the page were read, or the page was closed, the body of the response
        has to be at its end or closed.

        Raises:
            SourceContractError: the body does not fit the configuration.
        """
