"""Measures how late new rows come with each commit, and recommends a grace period.

The lateness of a row is ``max(0, H - t)`` ms: t is its event time, H is the largest event time that
was published before the commit that published the row. Only rows that were never published before
count; otherwise each row that is read again within the grace period would count. A run with a grace
period of L ms still finds a row whose lateness is L.

Pure: no files, no clock, no Spark. All numbers are exact integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConfigError
from dil.model.grace import GraceSpec, ProbeRest
from dil.model.interval import DAY_MS
from dil.model.json import JsonObject

# The kind of the checkpoint that keeps a job's meter.
LATENESS = "lateness"
# The rows and commits that a recommendation needs, and the number of remembered commits.
LEAST_ROWS, LEAST_COMMITS = 10_000, 7
KEPT_COMMITS = 28
MOST_MS = 2**36

_FORMAT = 1
_PARTS = 4  # buckets of each power of two
_FRACTION_BITS = 52
_BIAS = 1023
_FIX = "Use the release that wrote the state, or a newer one."


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts rows by lateness: ``rows_by_edge`` has a count for each bucket's upper edge.

    The edge in ms names a bucket (low, edge] and belongs to it; 0 is a bucket of its own. Each
    power of two has four buckets; rows later than 2^36 ms are in the last one.
    """

    rows_by_edge: Mapping[int, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Return the number of measured rows."""
        return sum(self.rows_by_edge.values())

    def ascending(self) -> list[tuple[int, int]]:
        """Return (edge in ms, rows) of the buckets that have rows, by ascending lateness."""
        return sorted(self.rows_by_edge.items())

    def later_than(self, ms: int) -> int:
        """Return the number of rows that may be later than ``ms``.

        All rows of the bucket that contains ``ms`` count, unless ``ms`` is its edge.
        """
        return sum(rows for edge, rows in self.rows_by_edge.items() if edge > ms)

    def within(self, ms: int) -> Histogram:
        """Return the histogram without the rows that ``later_than`` counts."""
        return Histogram({edge: rows for edge, rows in self.rows_by_edge.items() if edge <= ms})

    def quantile_edge(self, spec: GraceSpec) -> int:
        """Return the upper edge in ms of the bucket in which the share ``quantile`` is reached.

        Raises:
            ValueError: the histogram has no rows.
        """
        wanted = self.rows * spec.quantile.numerator
        reached = 0
        for edge, rows in self.ascending():
            reached += rows
            if reached * spec.quantile.denominator >= wanted:
                return edge
        raise ValueError("no rows were measured")


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Return one histogram with the rows of several histograms."""
    total: Counter[int] = Counter()
    for each in histograms:
        total.update(each.rows_by_edge)
    return Histogram(dict(sorted(total.items())))


def histogram_of(times: pa.Int64Array | pa.ChunkedArray, largest_before: int) -> Histogram:
    """Return the histogram of the lateness of rows.

    Args:
        times: The event times of the rows, int64 epoch ms UTC, in any order; nulls do not count.
        largest_before: The largest event time H that was published before, epoch ms UTC.
    """
    known = pc.drop_null(times)
    # Times are within 2^62 of 1970, so every difference fits 64 bits.
    late = pc.filter(known, pc.less(known, pa.scalar(largest_before, pa.int64())))
    found = Counter({0: len(known) - len(late)})
    lateness = pc.min_element_wise(pc.subtract(largest_before, late), MOST_MS)
    chunks = lateness.chunks if isinstance(lateness, pa.ChunkedArray) else [lateness]
    for chunk in chunks:
        for each in _codes(chunk).value_counts().to_pylist():
            found[_edge(each["values"])] += each["counts"]
    return Histogram({edge: rows for edge, rows in sorted(found.items()) if rows})


def _codes(lateness: pa.Int64Array) -> pa.Int64Array:
    """Return a number for the bucket of each row: 4 k + part, negative for a lateness of 1 ms.

    The bits of a float are its exponent k and its fraction; the first two bits of the fraction are
    the quarter of the power of two. Whole numbers up to 2^36 are exact floats.
    """
    bits = pc.subtract(lateness, 1).cast(pa.float64()).view(pa.int64())
    codes: pa.Int64Array = pc.subtract(pc.shift_right(bits, _FRACTION_BITS - 2), _BIAS * _PARTS)
    return codes


def _edge(code: int) -> int:
    """Return the largest lateness of a bucket, in ms."""
    if code < 0:
        return 1
    power, part = divmod(code, _PARTS)
    return -(-((1 << power) * (_PARTS + part + 1)) // _PARTS)


@dataclass(frozen=True, slots=True)
class CommitLateness:
    """The measures of one commit's new rows.

    ``grace_ms`` is the grace period of the commit's run. ``largest_before`` is H, and
    ``largest_after`` is the largest event time that is published after the commit, both epoch ms
    UTC. A run that is a probe reads as far back as the job ever does.
    """

    histogram: Histogram
    grace_ms: int
    is_probe: bool
    largest_before: int
    largest_after: int

    @property
    def weighed(self) -> Histogram:
        """Return the histogram of the rows that count for a recommendation.

        A run reads rows that are later than its grace period only by chance, such as in a first
        reading, and misses most of these rows. So they count only if the run is a probe, which
        looks for them.
        """
        return self.histogram if self.is_probe else self.histogram.within(self.grace_ms)


@dataclass(frozen=True, slots=True)
class GraceCost:
    """The rows that a grace period would have missed and read again, in all remembered commits.

    ``reread_rows`` assumes that rows are spread evenly over event time.
    """

    days: int
    missed: int
    reread_rows: int


@dataclass(frozen=True, slots=True)
class LatenessMeter:
    """The measures of the last commits with new rows, the oldest first.

    ``runs_since_probe`` counts the scheduled runs that committed since the last probe, and
    ``largest`` is the largest event time that is published, None before the first one. ``rest`` is
    the unread rest of a probe, None if no probe is unfinished.
    """

    commits: tuple[CommitLateness, ...] = ()
    runs_since_probe: int = 0
    largest: int | None = None
    rest: ProbeRest | None = None

    def after(
        self,
        commit: CommitLateness | None,
        *,
        is_probe: bool = False,
        rest: ProbeRest | None = None,
    ) -> LatenessMeter:
        """Return the meter after a scheduled run.

        Args:
            commit: The measures of the run's commit, None if it measured nothing.
            is_probe: Whether the run was a probe, or finished one.
            rest: The unread rest of a probe.
        """
        runs = 0 if is_probe else self.runs_since_probe + 1
        if commit is None or not commit.histogram.rows:
            return replace(self, runs_since_probe=runs, rest=rest)
        return LatenessMeter((*self.commits, commit)[-KEPT_COMMITS:], runs, self.largest, rest)

    def with_largest(self, largest: int | None) -> LatenessMeter:
        """Return the meter after rows up to an event time were published; None means no rows."""
        if largest is None or (self.largest is not None and largest <= self.largest):
            return self
        return replace(self, largest=largest)

    @property
    def histogram(self) -> Histogram:
        """Return the histogram of all measured rows."""
        return merge(each.histogram for each in self.commits)

    @property
    def weighed(self) -> Histogram:
        """Return the histogram of all rows that count for a recommendation."""
        return merge(each.weighed for each in self.commits)

    def recommended_ms(self, spec: GraceSpec) -> int | None:
        """Return the recommended grace period in ms; None while too little is measured.

        It is also None if no run read back, because then late rows are unknown.
        """
        weighed = self.weighed
        is_small = weighed.rows < LEAST_ROWS or len(self.commits) < LEAST_COMMITS
        if is_small or not self.has_read_back:
            return None
        return spec.rounded(weighed.quantile_edge(spec))

    @property
    def has_read_back(self) -> bool:
        """Return whether any run could find rows that came late."""
        return any(each.is_probe or each.grace_ms for each in self.commits)

    def costs(self, most_ms: int) -> list[GraceCost]:
        """Return the costs of each grace period of whole days up to ``most_ms``."""
        histogram = self.histogram
        per_day = 0
        if self.commits:
            span = self.commits[-1].largest_after - self.commits[0].largest_before
            per_day = histogram.rows * DAY_MS // span if span > 0 else 0
        return [
            GraceCost(
                days,
                histogram.later_than(days * DAY_MS),
                days * len(self.commits) * per_day,
            )
            for days in range(-(-most_ms // DAY_MS) + 1)
        ]

    def members(self) -> JsonObject:
        """Return the meter as the members of a JSON object; equal meters have equal members."""
        commits = [
            _Commit(
                each.histogram.ascending(),
                each.grace_ms,
                each.is_probe,
                each.largest_before,
                each.largest_after,
            )
            for each in self.commits
        ]
        document = _Document(
            _FORMAT,
            self.runs_since_probe,
            commits,
            self.largest,
            # Written even if it is None, because members that are left out stay in the checkpoint.
            None if self.rest is None else _Rest(self.rest.low, self.rest.through),
        )
        return cast("JsonObject", msgspec.to_builtins(document))

    @classmethod
    def of(cls, members: JsonObject) -> LatenessMeter:
        """Return the meter with these members.

        Raises:
            ConfigError: the members describe no meter, or another release wrote them.
        """
        try:
            written = msgspec.convert(members, _Format).format
            if written != _FORMAT:
                what = f"has the format {written}, and this release reads {_FORMAT}"
                raise ConfigError.single(LATENESS, what, _FIX)
            found = msgspec.convert(members, _Document)
        except msgspec.ValidationError as error:
            raise ConfigError.single(LATENESS, f"is no lateness meter: {error}", _FIX) from error
        commits = (
            CommitLateness(
                Histogram(dict(each.rows)),
                each.grace_ms,
                each.probe,
                each.largest_before,
                each.largest_after,
            )
            for each in found.commits
        )
        rest = None if found.rest is None else ProbeRest(found.rest.low, found.rest.through)
        return cls(tuple(commits), found.runs_since_probe, found.largest, rest)


class _Commit(msgspec.Struct, frozen=True):
    rows: list[tuple[int, int]]
    grace_ms: int
    probe: bool
    largest_before: int
    largest_after: int


class _Rest(msgspec.Struct, frozen=True):
    low: int
    through: str


class _Document(msgspec.Struct, frozen=True):
    format: int
    runs_since_probe: int
    commits: list[_Commit]
    largest: int | None = None
    rest: _Rest | None = None


class _Format(msgspec.Struct, frozen=True):
    format: int
