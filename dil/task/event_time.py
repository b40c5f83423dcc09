"""Judges and tallies the rows of one attempt by their event time.

Only jobs with an event column import this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from dil.conversion.row_paths import SearchError, find_column
from dil.errors import ConversionError
from dil.eventtime.judging import FARTHEST, late_rows, refused_rows
from dil.eventtime.tally import StreamTally, coded, encode_tallies, merge, tallies_of
from dil.model.event_tally import EventContext, EventTally
from dil.model.event_time import EventTimeSpec
from dil.model.interval import DAY_MS
from dil.model.messages import suggestion
from dil.model.path import Step, is_jsonpath
from dil.model.work_unit import Reason, WorkUnit
from dil.observe.progress import counted, human_seconds
from dil.spi.rejects import RejectedRow, Rejects
from dil.task.new_rows import NewRows
from dil.text.paths import compile_path
from dil.text.zones import iso
from dil.types.schema_text import parse_schema
from dil.writing.late_rows import LateRows
from dil.writing.system_columns import with_own

LATE, LATENESS = "_late", "_lateness_ms"
_COLUMN, _PARTITIONS = "ms.event.column", "ms.event.partition.column"
_NAMES = 20
# Pages are small, and each tally costs more with more streams: several pages share one.
_ROWS_AT_ONCE = 262_144
_NOTHING = pa.scalar(0, pa.int64())
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class NoColumnError(ConversionError):
    """Rows lack a column that a property names."""


class EventRows:
    """Judges the rows of one attempt, and tallies them.

    Rows of a work unit that was published before are not judged: a row that came in time does not
    become late because it is read again.
    """

    def __init__(
        self,
        spec: EventTimeSpec,
        context: EventContext,
        unit: WorkUnit,
        now_ms: int,
        rejects: Rejects,
        known_schema: str = "",
        late: LateRows | None = None,
    ) -> None:
        """Keep the settings by which rows are judged; ``now_ms`` is the run's now, epoch ms UTC.

        ``known_schema`` is the dataset's schema; rows may lack columns of it. ``late`` takes late
        rows under ms.late.action=side_table.
        """
        self._spec = spec
        self._effective = context.effective
        self._is_judged = not is_read_again(spec, context, unit)
        self._now = now_ms
        self._rejects = rejects
        self._known = known_schema
        self._is_found = False
        self._beside = late
        self._new: NewRows | None = None
        self._streams: dict[str, StreamTally] = {}
        self._waiting: list[tuple[pa.Int64Array, pa.DictionaryArray | None]] = []
        self._waiting_rows = 0
        self._rows = self._nulls = self._refused = self._unjudged = 0
        self._late = self._most_late = self._dropped = self._put_beside = 0

    def measure_by(self, new: NewRows) -> None:
        """Let ``new`` measure the lateness of new rows; call this before the first batch."""
        self._new = new

    @property
    def put_aside(self) -> int:
        """Return how many rows were refused, or left out because they were late."""
        return self._refused + self._dropped

    def judged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches as they are to be written.

        Raises:
            ConversionError: the event column is missing or holds no times, or rows are late and
                ms.late.action is fail.
        """
        try:
            for batch in batches:
                kept = self._judge(batch)
                if kept.num_rows:
                    yield kept
            self._tally_waiting()
            if self._new is not None:
                self._new.finish()
        finally:
            if self._new is not None:
                self._new.close()
        if self._spec.late_action == "fail" and self._late:
            raise ConversionError(
                f"{counted(self._late, 'row')} came late, up to "
                f"{human_seconds(self._most_late / 1000)} behind the watermark "
                f"{iso(self._effective)}; ms.late.action is fail",
                "The watermark never goes back, so another run would fail, too. Set"
                " ms.late.action=flag, which publishes and marks such rows, or drop, which leaves"
                " them out.",
            )

    def tally(self) -> EventTally:
        """Return the tally of the rows so far.

        Raises:
            ConversionError: rows belong to too many partitions, or to a partition without a delay.
        """
        self._tally_waiting()
        return EventTally(
            effective=self._effective,
            rows=self._rows,
            nulls=self._nulls,
            refused=self._refused,
            unjudged=self._unjudged,
            late=self._late,
            most_late_ms=self._most_late,
            dropped=self._dropped,
            beside=self._put_beside,
            streams=encode_tallies(self._streams),
            is_judged=self._is_judged,
            lateness=UNSET if self._new is None else self._new.measured(),
        )

    def _judge(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        times = self._times(batch)
        if times.null_count and self._spec.nulls == "ingest_time":
            times = times.fill_null(self._now)
        refused = refused_rows(times, self._now, self._spec)
        if refused is not None:
            self._put_aside(batch, times, refused)
            kept = pc.invert(refused)
            batch, times = batch.filter(kept), times.filter(kept)
        if self._new is not None:
            self._new.take(batch, times)
        if not self._is_judged:
            self._unjudged += len(times)
            return self._flagged(batch, None, times)
        self._nulls += times.null_count
        self._rows += len(times) - times.null_count
        self._take(batch, times)
        late = late_rows(times, self._effective, self._spec)
        count = late.true_count
        if count:
            self._late += count
            earliest: int = pc.min(times).as_py()
            self._most_late = max(self._most_late, (self._effective or 0) - earliest)
        if count and self._beside is not None and self._effective is not None:
            self._put_beside += count
            self._beside.write(batch.filter(late), times.filter(late), self._effective)
            return batch.filter(pc.invert(late))
        if count and self._spec.late_action == "drop":
            self._dropped += count
            return batch.filter(pc.invert(late))
        return self._flagged(batch, late, times)

    def _times(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return the event times of rows; all null in a batch that lacks a sparse column."""
        column = self._spec.column
        try:
            times = event_times(batch, column)
        except NoColumnError:
            first = compile_path(column).steps[:1]
            known = {field.name for field in parse_schema(self._known)} if self._known else set()
            if not self._is_found and known.isdisjoint((column, *first)):
                raise
            return pa.nulls(batch.num_rows, pa.int64())
        self._is_found = True
        return times

    def _take(self, batch: pa.RecordBatch, times: pa.Int64Array) -> None:
        """Tally times; rows without a partition move no watermark."""
        spec = self._spec
        if not spec.strategy.keeps_streams:
            return
        names: pa.DictionaryArray | None = None
        if spec.stream_column:
            column = _column(batch, _PARTITIONS, spec.stream_column)
            try:
                names = coded(column)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ConversionError(
                    f'{_PARTITIONS} is "{spec.stream_column}", which holds {column.type}, not'
                    " names of partitions",
                    "Name a column of texts or of whole numbers.",
                ) from error
        if times.null_count or (names is not None and names.null_count):
            taken = times.is_valid()
            if names is not None:
                taken = pc.and_(taken, names.is_valid())
                names = names.filter(taken)
            times = times.filter(taken)
        self._waiting.append((pc.add(times, _NOTHING), names))  # a copy frees the page
        self._waiting_rows += len(times)
        if self._waiting_rows >= _ROWS_AT_ONCE:
            self._tally_waiting()

    def _tally_waiting(self) -> None:
        """Tally the waiting rows of all batches.

        Raises:
            ConversionError: the watermark could not take these event times; this is found before
                anything is published.
        """
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        if not waiting:
            return
        times = pa.concat_arrays([each for each, _ in waiting])
        named = [names for _, names in waiting if names is not None]
        spec = self._spec
        found = tallies_of(times, pa.concat_arrays(named) if named else None, spec)
        merge(self._streams, found, spec.adaptive.window)
        delays = spec.delays_ms
        unknown = next((name for name in self._streams if delays and name not in delays), None)
        if unknown is not None:
            raise ConversionError(
                f"ms.event.delay has no delay of the partition {json.dumps(unknown)}",
                f"Give it a delay; the partitions with one are: {', '.join(sorted(delays))}.",
            )
        if len(self._streams) > spec.most_streams:
            raise ConversionError(
                f"ms.event.partitions.max is {spec.most_streams}, but the rows are of more "
                "partitions",
                f"Name a coarser column in {_PARTITIONS}, or raise ms.event.partitions.max.",
            )

    def _put_aside(
        self, batch: pa.RecordBatch, times: pa.Int64Array, refused: pa.BooleanArray
    ) -> None:
        spec = self._spec
        far = f"event time is more than {human_seconds(spec.max_future_ms / 1000)} ahead of the run"
        why = {
            None: "has no event time, and ms.event.null is reject",
            True: f"{far}: ms.event.max.future",
            False: "event time is out of the range that a watermark can follow",
        }
        limit = min(self._now + spec.max_future_ms, FARTHEST)
        rows = pc.indices_nonzero(refused)
        ahead = pc.greater(times.take(rows), pa.scalar(limit, pa.int64())).to_pylist()
        self._rejects.add(
            batch,
            [
                RejectedRow(row, spec.column, why[is_ahead])
                for row, is_ahead in zip(rows.to_pylist(), ahead, strict=True)
            ],
        )
        self._refused += len(rows)

    def _flagged(
        self, batch: pa.RecordBatch, late: pa.BooleanArray | None, times: pa.Int64Array
    ) -> pa.RecordBatch:
        """Return the batch with the two columns of lateness, if the job asks for them.

        If the rows are not judged, ``late`` is None and both columns are null.
        """
        if self._spec.late_action != "flag":
            return batch
        if late is None:
            late = pa.nulls(batch.num_rows, pa.bool_())
            behind = pa.nulls(batch.num_rows, pa.int64())
        elif self._effective is None:
            behind = pc.if_else(times.is_valid(), pa.scalar(0, pa.int64()), None)
        else:
            behind = pc.subtract(pa.scalar(self._effective, pa.int64()), times)
            behind = pc.max_element_wise(behind, pa.scalar(0, pa.int64()), skip_nulls=False)
        return with_own(batch, {LATE: late, LATENESS: behind}, "ms.late.action=flag adds")


@dataclass(frozen=True, slots=True)
class TimesOfRows:
    """Finds the event times of rows that are staged."""

    path: str

    @property
    def column(self) -> str:
        """Return the name of the event column."""
        return str(compile_path(self.path).steps[0]) if is_jsonpath(self.path) else self.path

    def __call__(self, batch: pa.RecordBatch) -> pa.Int64Array:
        """Return event times in epoch ms UTC, null for rows that have none."""
        return event_times(batch, self.path)


def is_read_again(spec: EventTimeSpec, context: EventContext, unit: WorkUnit) -> bool:
    """Return whether rows of a work unit may have been published before.

    If requests begin at the low watermark, all rows after the last reading are new.
    """
    if unit.reason is Reason.BACKFILL or unit.signature in context.known:
        return True
    if unit.last_high is None:
        return False
    return not spec.reads_on or unit.low < unit.last_high


def event_times(batch: pa.RecordBatch, column: str) -> pa.Int64Array:
    """Return the event times of rows, epoch ms UTC, rounded down.

    Raises:
        ConversionError: the column is missing, or holds no times.
    """
    found = _column(batch, _COLUMN, column)
    times = _as_ms(found)
    if times is not None:
        return times
    fix = "Name a column of timestamps, of dates, or of epoch milliseconds."
    if pa.types.is_string(found.type) or pa.types.is_large_string(found.type):
        name = column if not is_jsonpath(column) else "the column"
        fix = (
            f'Declare {name} as timestamp in ms.output.schema; "iso" in'
            " converter.avro.timestamp.format reads any text of ISO 8601."
        )
        if is_jsonpath(column):
            fix += (
                " Inside a column of JSON texts only whole numbers, epoch milliseconds, are read."
            )
    raise ConversionError(f'{_COLUMN} is "{column}", which holds {found.type}, not times', fix)


def _column(batch: pa.RecordBatch, key: str, text: str) -> pa.Array:
    """Return the values that a property names: a column, a nested field or a path in JSON."""
    try:
        found = _inside_texts(batch, text) if is_jsonpath(text) else None
        found = find_column(batch, text) if found is None else found
    except SearchError as error:
        raise ConversionError(f'{key} is "{text}": {error}', "Name one place in a row.") from error
    if found is not None:
        return found
    names = batch.schema.names
    shown = ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
    raise NoColumnError(
        f'{key} is "{text}", but the rows have no such column; their columns are: {shown}',
        suggestion(text, names) or f"Name one of their columns in {key}.",
    )


def _inside_texts(batch: pa.RecordBatch, text: str) -> pa.Array | None:
    """Return the whole numbers at a path inside a column of JSON texts; None for other columns."""
    path = compile_path(text)
    if not path.is_place or len(path.steps) < 2 or path.steps[0] not in batch.schema.names:  # noqa: PLR2004
        return None
    column = batch.column(path.steps[0])
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return None
    decode = msgspec.json.Decoder().decode
    found = []
    for each in column.to_pylist():
        try:
            value = None if each is None else _follow(decode(each), path.steps[1:])
        except msgspec.DecodeError:
            value = each
        found.append(value)
    if all(value is None or type(value) is int for value in found):
        return pa.array(found, pa.int64())
    return pa.array([None if value is None else str(value) for value in found], pa.string())


def _follow(value: object, steps: Iterable[Step]) -> object:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _as_ms(times: pa.Array) -> pa.Int64Array | None:
    """Return times in epoch ms UTC, rounded down; None for a column that holds no times."""
    kind = times.type
    if pa.types.is_dictionary(kind):
        return _as_ms(times.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return _scaled(times.cast(pa.int64()), _PER_SECOND[kind.unit])
    if pa.types.is_date32(kind):
        return pc.multiply(times.cast(pa.int32()).cast(pa.int64()), pa.scalar(DAY_MS, pa.int64()))
    if pa.types.is_date64(kind) or pa.types.is_null(kind) or pa.types.is_integer(kind):
        # Numbers beyond 64 bits are beyond every time, too, and are refused like such times.
        return times.cast(pa.int64(), safe=kind != pa.uint64())
    return None


def _scaled(values: pa.Int64Array, per_second: int) -> pa.Int64Array:
    """Convert instants, counted in parts of a second, to ms."""
    if per_second == 1:
        most = pa.scalar(FARTHEST // 1000 + 1, pa.int64())
        least = pa.scalar(-(FARTHEST // 1000) - 1, pa.int64())
        cut = pc.min_element_wise(values, most, skip_nulls=False)
        cut = pc.max_element_wise(cut, least, skip_nulls=False)
        return pc.multiply(cut, pa.scalar(1000, pa.int64()))
    if per_second == 1000:  # noqa: PLR2004 - ms already
        return values
    size = pa.scalar(per_second // 1000, pa.int64())
    whole = pc.divide(values, size)
    lowest = pc.min(values).as_py()
    if lowest is None or lowest >= 0:
        return whole
    # Division rounds towards zero, which is up for times before 1970.
    is_above = pc.greater(pc.multiply(whole, size), values)
    return pc.subtract(whole, is_above.cast(pa.int64()))
