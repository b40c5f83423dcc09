"""A source of pages that answers by cursor or offset, refuses what a test says, and remembers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from dil.spi.connector import (
    ByteSession,
    Connector,
    RequestValues,
    Response,
    RowSession,
    SessionContext,
)


@dataclass
class Pages:
    """Pages of rows. ``faults`` are raised at requests by number, from 1, each once.

    ``leads`` names the page that a page's cursor leads to if that is not the next one.
    ``asked`` are the page numbers that were asked for, from 0.
    """

    rows: list[list[dict[str, object]]]
    faults: dict[int, BaseException] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    leads: dict[int, int] = field(default_factory=dict)

    def ask(self, number: int) -> BaseException | None:
        """Count a request; return what goes wrong with it."""
        self.asked.append(number)
        return self.faults.pop(len(self.asked), None)


SOURCES: dict[str, Pages] = {}


class CursorSession(ByteSession):
    """Answers with the page that the cursor or the address names."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def fetch(self, values: RequestValues) -> Response:
        cursor = values.next_uri or values.parameters.get("cursor")
        number = 0 if cursor is None else int(str(cursor).rpartition("-")[2])
        fault = self._pages.ask(number)
        if fault is not None:
            raise fault
        after = self._pages.leads.get(number, number + 1)
        following = f"c-{after}" if after < len(self._pages.rows) else None
        body = json.dumps({"data": self._pages.rows[number], "next": following}).encode()
        uri = "https://shop.test/rows"
        return Response(io.BytesIO(body), content_type="application/json", uri=uri)


class OffsetSession(RowSession):
    """Answers with the page at an offset, in two batches; a fault comes between them."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        every = [row for page in self._pages.rows for row in page]
        start, size = _number(values.parameters, "o"), _number(values.parameters, "n")
        fault = self._pages.ask(start // size)
        half = size // 2
        yield pa.RecordBatch.from_pylist(every[start : start + half])
        if fault is not None:
            raise fault
        yield pa.RecordBatch.from_pylist(every[start + half : start + size])


class CursorConnector(Connector):
    """Opens a session on the pages that ``ms.source.uri`` names."""

    def open(self, context: SessionContext) -> ByteSession | RowSession:
        return CursorSession(SOURCES[context.job.source.uri])


class WindowlessConnector(CursorConnector):
    """The same, and says that it does not look at the window."""

    reads_window = False


class WindowlessChildConnector(WindowlessConnector):
    """A subclass, which says nothing of the window."""


class OffsetConnector(Connector):
    """The same for a row protocol."""

    def open(self, context: SessionContext) -> ByteSession | RowSession:
        return OffsetSession(SOURCES[context.job.source.uri])


def _number(parameters: Mapping[str, object], name: str) -> int:
    return int(str(parameters[name]))
