"""A connector of one's own: rows of a CSV file, cut by time and by unit.

The job file names the class by its dotted path, ``source.class=my_connector.CsvFileConnector``; the
job file's folder is on the import path. The connector turns one request into one response; paging,
schema, retries, writing and publishing are the framework's.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from dil.errors import Problem, SourceError
from dil.model.properties import Properties
from dil.model.section import Section, Text, prop
from dil.spi.connector import (
    ByteSession,
    Connector,
    RequestValues,
    Response,
    SessionContext,
)

URI = "ms.source.uri"


@dataclass(frozen=True, slots=True)
class CsvFile(Section):
    """The properties that this connector brings along."""

    time_column: Text = prop(
        "ms.x.csv.time.column",
        "Column with ISO 8601 times that carry an offset.",
        default="time",
    )


class CsvFileConnector(Connector):
    """Reads one CSV file with a header line; ``ms.source.uri`` is its path beside the job file.

    On a cluster every worker has to see the file under the same path.
    """

    sections: ClassVar[tuple[type[Section], ...]] = (CsvFile,)

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return what is wrong with the properties; runs before anything is read."""
        if properties.text(URI).endswith(".csv"):
            return ()
        what = f'is "{properties.text(URI)}"'
        return (Problem(properties.origin(URI), URI, what, "Name a file that ends in .csv."),)

    def open(self, context: SessionContext) -> ByteSession:
        """Return a session for one attempt of one work unit."""
        path = Path(context.job.path).resolve().parent / context.job.source.uri
        file = context.job.properties.section(CsvFile)
        return CsvFileSession(path, file.time_column, context)


class CsvFileSession(ByteSession):
    """Answers every request with the work unit's rows as one JSON array."""

    def __init__(self, path: Path, time_column: str, context: SessionContext) -> None:
        self._path = path
        self._time_column = time_column
        self._work_unit = context.work_unit

    def fetch(self, values: RequestValues) -> Response:
        """Return the rows whose time lies in ``[low, high)`` and whose unit columns match."""
        del values  # this source has no request parameters
        try:
            body = json.dumps(list(self._rows())).encode()
        except OSError as error:
            raise SourceError(
                f"cannot read {self._path}: {error.strerror}",
                "Check ms.source.uri, and that the workers may read the file.",
            ) from error
        return Response(io.BytesIO(body), content_type="application/json", location=str(self._path))

    def _rows(self) -> Iterator[dict[str, str]]:
        with self._path.open(encoding="utf-8", newline="") as file:
            yield from filter(self._is_wanted, csv.DictReader(file))

    def _is_wanted(self, row: dict[str, str]) -> bool:
        moment = round(datetime.fromisoformat(row[self._time_column]).timestamp() * 1000)
        in_time = self._work_unit.low <= moment < self._work_unit.high
        return in_time and all(row[name] == text for name, text in self._work_unit.unit.items())
