"""Derived datasets: which rows a query takes, its windows, its rule for repeats, its commit.

Times and lengths are milliseconds; times and windows count from 1970-01-01T00:00:00Z.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.model.json import JsonObject

# The options of a run that rebuilds a derived dataset from its inputs, and the whole command.
REBUILD_OPTIONS = "-D ms.query.mode=full -D ms.publish.mode=replace"
REBUILD_COMMAND = (
    f"dil run JOB.conf {REBUILD_OPTIONS} (of a stream with -D ms.stream.mode=none, too)"
)

# The properties of the rule for repeats.
DEDUPE_KEYS, DEDUPE_COLUMN = "ms.dedupe.keys", "ms.dedupe.column"
DEDUPE_WITHIN = "ms.dedupe.within"

WINDOW_START, WINDOW_END = "window_start", "window_end"
# The column of the view with a row's event time, as a timestamp.
EVENT_TIME_COLUMN = "__dil_event_time"
# The lengths in the text of ``WindowSpec.query``, which the chain keeps of earlier windows.
_LENGTHS = re.compile(
    rf" GROUP BY window\({EVENT_TIME_COLUMN}, '([0-9]+) milliseconds', '([0-9]+) milliseconds'\)"
)


@dataclass(frozen=True, slots=True)
class InputSlice:
    """The blocks and rows of one input that a query took; both intervals are half-open ``(]``.

    ``closed`` says whether the query read only rows of closed timelabels; None if that is unknown,
    because an earlier release wrote the block.
    """

    dataset_id: str
    prev_block_hash: str | None
    new_block_hash: str | None
    prev_offset: int | None
    new_offset: int | None
    closed: bool | None = None

    @property
    def last_block(self) -> str | None:
        """Return the hash of the last block that was taken so far."""
        return self.new_block_hash or self.prev_block_hash

    @property
    def last_offset(self) -> int | None:
        """Return the last offset that was taken so far; None if no row was taken."""
        return self.prev_offset if self.new_offset is None else self.new_offset

    @property
    def reached(self) -> int:
        """Return the last offset that was taken before this slice, -1 before the first row."""
        return -1 if self.prev_offset is None else self.prev_offset

    @property
    def rows(self) -> int:
        """Return the number of records in the slice; 0 if it has no new offset."""
        return 0 if self.new_offset is None else self.new_offset - self.reached


@dataclass(frozen=True, slots=True)
class Judged:
    """The settings by which rows of a query were judged late; they suffice to judge the rows again.

    ``watermark`` is epoch ms UTC, None while no row is late; ``action`` is ms.late.action.
    """

    watermark: int | None
    column: str
    action: str


@dataclass(frozen=True, slots=True)
class QueryStep:
    """The query of a commit: it makes the commit's data event an ExecuteQuery.

    ``transform`` is the body of the SetTransform that has to be in force, as compact JSON;
    ``inputs`` are the slices, in the order of that body. ``watermark`` is the dataset's watermark
    after the commit, in the form of a block. ``logical_hash`` covers the new rows in the order of
    their offsets, None if the job does not set it. ``judged`` is None if rows are not judged by
    their event time. ``last_event_ms`` is the greatest event time (epoch ms UTC) of the query's
    rows, including repeats; None if the job does not need it, or no row has an event time.
    """

    transform: str
    inputs: tuple[InputSlice, ...]
    watermark: str | None = None
    logical_hash: str | None = None
    judged: Judged | None = None
    last_event_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Closing:
    """The windows that a run emits; they end after ``after_ms`` and at ``until_ms`` or before.

    ``after_ms`` is None if no window was emitted yet.
    """

    after_ms: int | None
    until_ms: int


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Windows of a size, one every ``slide_ms``; ``keys`` group the rows of each window.

    ``aggs`` are names of columns, each with an aggregate in Spark SQL.
    """

    column: str
    size_ms: int
    slide_ms: int
    keys: tuple[str, ...]
    aggs: tuple[tuple[str, str], ...]

    def query(self, view: str) -> str:
        """Return the query over a view that has ``EVENT_TIME_COLUMN``."""
        lengths = f"'{self.size_ms} milliseconds', '{self.slide_ms} milliseconds'"
        window = f"window({EVENT_TIME_COLUMN}, {lengths})"
        keys = [quoted(name) for name in self.keys]
        columns = [f"window.start AS {WINDOW_START}", f"window.end AS {WINDOW_END}", *keys]
        columns += [f"{text} AS {quoted(name)}" for name, text in self.aggs]
        groups = ", ".join([window, *keys])
        parts = ["SELECT", ", ".join(columns), "FROM", quoted(view), "GROUP BY", groups]
        return " ".join(parts)  # the job's author wrote the aggregates, as SQL

    def closes_any(self, closing: Closing) -> bool:
        """Return whether a run that closes this stretch of time emits a window."""
        if closing.after_ms is None:
            return True
        return _last_end(self.size_ms, self.slide_ms, closing.until_ms) > closing.after_ms


def emitted_until(query: str, reached_ms: int) -> int:
    """Return the instant up to which a query has emitted its windows, at the watermark it reached.

    This is the last end of a window at the watermark or before: rows that came later were in no
    window that ends there or earlier. ``query`` is the text of ``WindowSpec.query``; for any other
    query the instant is the watermark itself. All times are epoch ms UTC.
    """
    lengths = _LENGTHS.search(query)
    if lengths is None:
        return reached_ms
    return _last_end(int(lengths[1]), int(lengths[2]), reached_ms)


def _last_end(size_ms: int, slide_ms: int, until_ms: int) -> int:
    """Return the last end of a window at an instant or before, in epoch ms UTC."""
    return until_ms - (until_ms - size_ms) % slide_ms


def quoted(name: str) -> str:
    """Return a name as a quoted identifier of Spark SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


@dataclass(frozen=True, slots=True)
class DedupeSpec:
    """Rows with the same ``keys`` whose times in ``column`` are ``within_ms`` apart at most.

    Only the first of such rows is published, in the order of the inputs' offsets.
    """

    keys: tuple[str, ...]
    column: str
    within_ms: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that decide about repeats, each once; the times may be a key, too."""
        return tuple(dict.fromkeys((*self.keys, self.column)))

    @classmethod
    def of(cls, body: JsonObject) -> DedupeSpec:
        """Return the spec from the members that ``as_json`` returned.

        Raises:
            KeyError: a member is missing.
            TypeError: a member is of another type.
        """
        keys, within = body["keys"], body["withinMs"]
        if not isinstance(keys, list) or not isinstance(within, int):
            raise TypeError("keys is no list, or withinMs is no length of time")
        return cls(tuple(map(str, keys)), str(body["column"]), within)

    def as_json(self) -> JsonObject:
        """Return the members that the chain keeps, so that the query can be repeated."""
        return {"keys": list(self.keys), "column": self.column, "withinMs": self.within_ms}


def dedupe_column(transform: JsonObject | None) -> str | None:
    """Return the column of times in a SetTransform's body; None if it has no rule for repeats."""
    dedupe = None if transform is None else transform.get("dedupe")
    return DedupeSpec.of(dedupe).column if isinstance(dedupe, dict) else None


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The least and the greatest time of some rows, both included, in epoch ms UTC."""

    first_ms: int
    last_ms: int

    @classmethod
    def of_micros(cls, least: int, most: int) -> TimeSpan:
        """Return the shortest span in ms around two times in epoch microseconds UTC."""
        return cls(least // 1000, -(-most // 1000))

    def widened(self, by_ms: int) -> TimeSpan:
        """Return the span that is ``by_ms`` longer at both ends."""
        return TimeSpan(self.first_ms - by_ms, self.last_ms + by_ms)
