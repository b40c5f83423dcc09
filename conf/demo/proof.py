"""The demo's proof: what was published against what the source holds, row by row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
from feed import Record, epoch_ms

SCHEDULED = "scheduled"


@dataclass(frozen=True, slots=True)
class Proof:
    """Counts of rows; all but ``expected`` and ``published`` are 0 when the run is right.

    ``missing`` are at the source and not in the files, ``doubled`` are surplus copies, ``foreign``
    are in the files and not at the source, ``changed`` differ in a column that the source has.
    """

    expected: int
    published: int
    missing: int
    doubled: int
    foreign: int
    changed: int

    @property
    def holds(self) -> bool:
        """Return whether every row landed exactly once, unchanged."""
        return not (self.missing or self.doubled or self.foreign or self.changed)


def data_files(directory: Path) -> list[Path]:
    """Return the published Parquet files: nothing below a name that begins with ``_`` or ``.``."""
    return sorted(
        path
        for path in directory.rglob("*.parquet")
        if not any(part[0] in "_." for part in path.relative_to(directory).parts)
    )


def read_rows(files: Iterable[Path]) -> list[dict[str, object]]:
    """Return all rows of the files, each file read on its own."""
    return [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]


def compare(expected: Iterable[Record], rows: Iterable[Mapping[str, object]]) -> Proof:
    """Compare the source's records with published rows by id, then column by column."""
    wanted = {record.key: json.loads(record.line) for record in expected}
    found = list(rows)
    copies = Counter(str(row["id"]) for row in found)
    return Proof(
        expected=len(wanted),
        published=len(found),
        missing=len(wanted.keys() - copies.keys()),
        doubled=sum(count - 1 for count in copies.values()),
        foreign=len(copies.keys() - wanted.keys()),
        changed=sum(_differs(row, wanted.get(str(row["id"]))) for row in found),
    )


def _differs(row: Mapping[str, object], source: Mapping[str, object] | None) -> bool:
    if source is None:
        return False
    return any(_plain(name, row.get(name)) != _plain(name, source[name]) for name in source)


def _plain(name: str, value: object) -> object:
    """Return a value for comparison; the timestamp is text at the source, an instant in files."""
    if name != SCHEDULED:
        return value
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return epoch_ms(text)
