"""A source of a few rows, for tests of later steps."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass

from dil.model.section import Int, Section, prop
from dil.spi.connector import ByteSession, Connector, RequestValues, Response, SessionContext

NAME = f"{__name__}:FewRows"


@dataclass(frozen=True, slots=True)
class FewRowsSection(Section):
    """The rows of the source."""

    first: Int = prop("ms.x.few.rows.first", "The id of the first row.", default=0)
    rows: Int = prop("ms.x.few.rows.count", "How many rows there are.", default=10)


class FewRows(Connector):
    """Answers with the rows ``{"id": n, "name": "row n"}``."""

    sections = (FewRowsSection,)

    def open(self, context: SessionContext) -> ByteSession:
        """Return a session that makes the rows itself."""
        return _Session(context.job.properties.section(FewRowsSection))


class _Session(ByteSession):
    def __init__(self, section: FewRowsSection) -> None:
        self._section = section

    def fetch(self, values: RequestValues) -> Response:
        del values
        first = self._section.first
        ids = range(first, first + self._section.rows)
        body = json.dumps([{"id": number, "name": f"row {number}"} for number in ids]).encode()
        return Response(io.BytesIO(body), content_type="application/json", location="few rows")
