"""The event-time watermark of a dataset: it judges a batch of rows, then moves by these rows.

A watermark w says that rows with times below w are believed to have arrived. It never falls. The
watermark after one batch judges the next batch; a batch is never judged by its own rows. So a batch
that is repeated after a crash has the same late rows.

Pure: no files, no clock, no Spark. The rules are those of docs/event-time.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConfigError
from dil.eventtime.judging import late_rows, refused_rows
from dil.eventtime.stored import StoredWatermark, decoded, encoded
from dil.eventtime.streams import EventStream, all_after
from dil.eventtime.tally import ONLY, Tallies, coded, later_of, tallies_of
from dil.model.event_time import EventTimeSpec, Strategy
from dil.text.zones import EPOCH, MILLISECOND

Times: TypeAlias = Sequence[int | None] | pa.Int64Array | pa.ChunkedArray
StreamNames: TypeAlias = Sequence[str] | pa.StringArray | pa.DictionaryArray | pa.ChunkedArray

_LONG_BOUNDS = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedBatch:
    """The late and the refused rows of a batch, by their row numbers in the batch.

    ``effective`` is the watermark that judged the batch, ``watermark`` is the watermark after the
    batch. Both are in epoch ms UTC, or None if there is no watermark. A batch that no watermark
    judged has no late rows. ``late_mask`` holds one boolean per row, and no nulls.
    """

    late_mask: pa.BooleanArray
    effective: int | None
    watermark: int | None
    quarantined: list[int]

    @property
    def late(self) -> list[bool]:
        """Return for each row whether it is late."""
        flags = [False] * len(self.late_mask)
        for row in pc.indices_nonzero(self.late_mask).to_pylist():
            flags[row] = True
        return flags


class EventWatermark:
    """Follows the event times of a dataset batch by batch; made by `dil.api.event_watermark`."""

    def __init__(
        self, spec: EventTimeSpec, *, state: bytes | None = None, floor: int | None = None
    ) -> None:
        """Begin a new watermark, or continue the watermark of ``state``.

        Args:
            spec: The strategy and its numbers.
            state: The bytes that ``state()`` of an earlier watermark returned. From the state of
                another strategy, only the watermark is taken.
            floor: The least watermark, in epoch ms UTC, for use when the state is lost.

        Raises:
            ConfigError: ``state`` is no state, or a newer release wrote it.
        """
        self._spec = spec
        self._streams: Mapping[str, EventStream] = {}
        self._watermark = self._previous = None
        if state is not None:
            stored = decoded(state)
            self._watermark = self._previous = stored.watermark
            if stored.strategy is spec.strategy:
                self._previous = stored.previous
                self._streams = {
                    name: stored.streams[name].cut_to(spec.adaptive.window)
                    for name in self._live_streams(stored)
                }
        self._watermark = later_of(self._watermark, floor)
        self._previous = later_of(self._previous, floor)

    def _live_streams(self, stored: StoredWatermark) -> list[str]:
        """Return the names of streams that may get rows again; others would block the watermark.

        Streams of another ``ms.event.partition.column``, and streams that have no delay now, get no
        more rows.
        """
        column, delays = self._spec.stream_column, self._spec.delays_ms
        names = [name for name in stored.streams if not delays or name in delays]
        before = stored.stream_column
        if before is None:  # format 1 does not say
            return [name for name in names if (name != ONLY) == bool(column)]
        if column == before:
            return names
        return [name for name in names if name != ONLY] if not before else []

    @property
    def watermark(self) -> int | None:
        """Return the watermark after the last batch, in epoch ms UTC.

        The strategy ``none`` has no watermark: the result is None.
        """
        return None if self._spec.strategy is Strategy.NONE else self._watermark

    @property
    def partitions(self) -> Mapping[str, EventStream]:
        """Return the state of each stream that had rows, by the name of its partition."""
        return self._streams

    def state(self) -> bytes:
        """Return the whole state as bytes; equal states give equal bytes."""
        spec = self._spec
        stored = StoredWatermark(
            spec.strategy, self._watermark, self._previous, self._streams, spec.stream_column
        )
        return encoded(stored)

    def commit(
        self, times: Times, partitions: StreamNames | None = None, *, now: datetime
    ) -> JudgedBatch:
        """Judge the rows of a batch, then move the watermark by the rows that are not refused.

        Args:
            times: The event time of each row, epoch ms UTC, in the order of their arrival.
            partitions: The name of each row's stream. If ``ms.event.partition.column`` is set, only
                a batch without rows may lack names; otherwise rows without names are of one stream.
            now: The aware time of the commit.

        Raises:
            ConfigError: ``now`` has no zone, ``times`` and ``partitions`` have different lengths, a
                stream has no name or no delay, or there are too many streams. Nothing has changed
                then.
        """
        if now.utcoffset() is None:
            raise ConfigError.single("now", "has no time zone", "Pass an aware datetime, as UTC.")
        now_ms = (now - EPOCH) // MILLISECOND
        rows = _time_array(times)
        names = self._names(partitions, len(rows))
        if rows.null_count and self._spec.nulls == "ingest_time":
            rows = rows.fill_null(now_ms)
        refused = refused_rows(rows, now_ms, self._spec)
        late = late_rows(rows, self.effective, self._spec)
        late = late if refused is None else pc.and_not(late, refused)
        taken = rows.is_valid() if refused is None else pc.and_not(rows.is_valid(), refused)
        updated: Mapping[str, EventStream] = {}
        if self._spec.strategy.keeps_streams:
            if taken.true_count < len(rows):
                rows = rows.filter(taken)
                names = None if names is None else names.filter(taken)
            updated = self._moved(tallies_of(rows, names, self._spec), now_ms)
        effective = self.effective
        self._move(updated, now_ms)
        quarantined = [] if refused is None else pc.indices_nonzero(refused).to_pylist()
        return JudgedBatch(late, effective, self.watermark, quarantined)

    def take(self, tallies: Tallies, now_ms: int) -> None:
        """Move the watermark by the rows of one batch; they were judged when they were read.

        ``commit`` with the rows themselves moves the watermark in the same way.

        Args:
            tallies: The tallies of the batch's rows that are not refused, by stream.
            now_ms: The time of the commit, epoch ms UTC.

        Raises:
            ConfigError: a stream has no delay, or there are too many streams. Nothing has changed
                then.
        """
        self._move(self._moved(tallies, now_ms), now_ms)

    def _move(self, streams: Mapping[str, EventStream], now: int) -> None:
        self._streams = streams
        self._previous = self._watermark
        self._watermark = later_of(self._watermark, self._combined(now))

    @property
    def effective(self) -> int | None:
        """Return the watermark that judges the next batch, in epoch ms UTC."""
        if self._spec.strategy is Strategy.NONE:
            return None
        return self._previous if self._spec.lags else self._watermark

    def _names(self, given: StreamNames | None, rows: int) -> pa.DictionaryArray | None:
        """Return the stream of each row, None if all rows are of one stream."""
        column = self._spec.stream_column
        if given is None:
            if column and rows:
                raise ConfigError.single(
                    "partitions", f"are missing, and {column} names them", "Pass them."
                )
            return None
        is_array = isinstance(given, pa.Array | pa.ChunkedArray)
        try:
            names = coded(_one_array(given) if is_array else pa.array(given, pa.string()))
        except (
            pa.ArrowInvalid,
            pa.ArrowTypeError,
            pa.ArrowNotImplementedError,
            TypeError,
        ) as error:
            raise ConfigError.single(
                "partitions", f"are no texts: {error}", "Pass one text per row."
            ) from error
        if len(names) != rows:
            what = f"are {len(names)} for {rows} rows"
            raise ConfigError.single("partitions", what, "Pass one per row.")
        if names.null_count:
            raise ConfigError.single(
                "partitions", "hold a null", "Give each row the name of its partition."
            )
        return names

    def _moved(self, tallies: Tallies, now: int) -> Mapping[str, EventStream]:
        """Return the streams after the rows of tallies.

        Raises:
            ConfigError: a stream has no delay, or there are too many streams.
        """
        if not self._spec.strategy.keeps_streams:
            return {}
        delays = self._spec.delays_ms
        unknown = next((name for name in tallies if delays and name not in delays), None)
        if unknown is not None:
            known = ", ".join(sorted(delays))
            fix = f"Give it a delay; the partitions with one are: {known}."
            raise ConfigError.single(
                "ms.event.delay", f'has no delay of the partition "{unknown}"', fix
            )
        count = len(self._streams.keys() | tallies.keys())
        if count > self._spec.most_streams:
            raise ConfigError.single(
                "ms.event.partitions.max",
                f"is {self._spec.most_streams}, and with this batch there are {count} partitions",
                "Raise the limit, or choose an ms.event.partition.column with fewer different"
                " values.",
            )
        return all_after(self._streams, tallies, now, self._spec)

    def _combined(self, now: int) -> int | None:
        """Return the watermark that all streams allow, in epoch ms UTC; None if they allow none."""
        spec, found = self._spec, self._streams
        match spec.strategy:
            case Strategy.NONE | Strategy.MANUAL:
                return None
            case Strategy.SYSTEM_TIME:
                return now - (spec.delay_ms or 0)
            case Strategy.FIXED_DELAY if spec.takes_max:
                return max((each.watermark for each in found.values()), default=None)
            case Strategy.FIXED_DELAY:
                waited_for = list(found.values())
            case _:
                waited_for = [
                    each for each in found.values() if not each.is_idle(now, spec.idle_ms)
                ]
        if spec.strategy in {Strategy.FIXED_DELAY, Strategy.BOUNDED} and spec.delays_ms.keys() - (
            found.keys()
        ):
            return None  # a known stream has no rows yet
        if not waited_for and spec.strategy is Strategy.SOURCE_180MS:
            return min((each.largest for each in found.values()), default=None)
        needs_warm = spec.strategy is Strategy.ADAPTIVE and not spec.holds_in_warmup
        if needs_warm and len(waited_for) != 1:  # a single stream needs only one row
            waited_for = [each for each in waited_for if spec.adaptive.is_warm(each.rows)]
        return min((each.watermark for each in waited_for), default=None)


def _time_array(times: Times) -> pa.Int64Array:
    """Return times as one array."""
    if isinstance(times, pa.Array | pa.ChunkedArray):
        if times.type != pa.int64():
            fix = "Pass int64, epoch milliseconds UTC."
            raise ConfigError.single("times", f"are of the Arrow type {times.type}", fix)
        return _one_array(times)
    try:
        return pa.array(times, pa.int64())
    except OverflowError:
        low, high = _LONG_BOUNDS  # no event time is out there, so the nearest bound serves as well
        return pa.array([t if t is None else min(max(t, low), high) for t in times], pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        fix = "Pass whole numbers, epoch milliseconds UTC, or None."
        raise ConfigError.single("times", f"are no times: {error}", fix) from error


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
