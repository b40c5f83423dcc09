"""The demo's records, in the order in which they become visible at the source.

The flights are real (see data/README.md). When each becomes visible is this demo's rule: a flight
that was flown appears when it has landed; flights that were cancelled or diverted, and all flights
of one carrier, are filed one to three days after their scheduled time. So records come out of
order, and some come late.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DATA = Path(__file__).with_name("data")
DAY_MS = 86_400_000
MINUTE_MS = 60_000
TAXI_MINUTES = 25
MAX_DAYS_LATE = 3
LATE_CARRIER = "US"


@dataclass(frozen=True, slots=True)
class Record:
    """One flight; ``event`` and ``arrival`` are epoch ms UTC, ``line`` is its JSON text."""

    key: str
    origin: str
    event: int
    arrival: int
    line: bytes


def read_lines(name: str) -> list[bytes]:
    """Return the JSON lines of one data file."""
    return gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()


def load_flights() -> list[Record]:
    """Return all flights by arrival at the source, not by event time."""
    records = [_record(number, line) for number, line in enumerate(read_lines("flights"))]
    return sorted(records, key=lambda record: record.arrival)


def visible(records: list[Record], *, low: int, high: int, now: int) -> list[Record]:
    """Return the records with event time in ``[low, high)`` that have arrived by ``now``."""
    return [one for one in records if low <= one.event < high and one.arrival <= now]


def epoch_ms(text: str) -> int:
    """Return an ISO 8601 time with offset as epoch ms; ValueError when it is not one."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no offset; write Z or +hh:mm")
    return round(moment.astimezone(UTC).timestamp() * 1000)


def _record(number: int, line: bytes) -> Record:
    row = json.loads(line)
    event = epoch_ms(row["scheduled"])
    if row["air_time"] is None or row["carrier"] == LATE_CARRIER:
        arrival = event + (1 + number % MAX_DAYS_LATE) * DAY_MS
    else:
        arrival = event + (row["dep_delay"] + row["air_time"] + TAXI_MINUTES) * MINUTE_MS
    return Record(row["id"], row["origin"], event, arrival, line)
