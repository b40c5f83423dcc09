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
    """Return MISSING for every path; this is the ``lookup`` of a page without values to find."""
    del path
    return MISSING


@dataclass(slots=True)
class Page:
    """One decoded response.

    ``batches`` yields record batches in the raw schema of ``dil.model.arrow``; it is consumed once,
    and ``rows`` is complete only afterwards. ``lookup`` returns the value at a dot path from the
    root of the response (rule F12), MISSING if there is none. ``notes`` are fixed sentences for the
    run's report about oddities that are no failure; the report counts equal notes. ``has_content``
    is False if the answer had no part that could hold rows. ``rows`` counts all rows of the answer,
    ``dropped`` the rows that the extractor left out, as the job allows. ``is_whole`` is true if the
    result is the answer itself, as a file, and not the rows in the answer. ``left_out`` are the
    paths of columns that the rows had and ``ms.output.schema`` lacks.
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

    An extractor that infers a schema keeps the schema over pages and may widen it; ``schema``
    returns the newest one (raw form), None before the first page. ``sees_every_member`` is true if
    rows keep all their members when ``ms.output.schema`` is not set, so that a schema contract can
    check the members.
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

    @property
    @abstractmethod
    def schema(self) -> pa.Schema | None:
        """Return the raw schema of the rows seen so far."""

    @abstractmethod
    def extract(self, response: Response) -> Page:
        """Return the page of one response; the body of the response is read to its end or closed.

        Raises:
            SourceContractError: the body does not fit the configuration.
        """
