"""Tallies: the summary of a stream's rows that the watermark needs, made in pieces.

The tallies of two consecutive pieces merge into the tally of both pieces. So each task tallies the
work units that it reads, and the driver merges them in the order of the plan. A merged tally moves
the watermark exactly as the rows themselves would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import StateError
from dil.model.event_time import EventTimeSpec, Strategy

NO_TIMES = pa.array([], pa.int64())
_NOTHING = pa.scalar(0, pa.int64())
# The name of the only stream of a job without ms.event.partition.column.
ONLY = ""
_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("largest", pa.int64(), nullable=False),
        pa.field("before", pa.int64()),
        pa.field("behind", pa.list_(pa.int64()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class StreamTally:
    """The number of rows of a stream, at least one, and their largest time in epoch ms UTC.

    The adaptive strategy needs the last rows one by one: ``last`` are their times, in the order of
    arrival, and ``before`` is the largest time of the rows before them, None if there are none.
    Other strategies keep neither ``last`` nor ``before``.
    """

    rows: int
    largest: int
    before: int | None = None
    last: pa.Int64Array = field(default_factory=lambda: NO_TIMES)

    def then(self, later: StreamTally, window: int) -> StreamTally:
        """Return the tally of these rows and of later rows."""
        largest = max(self.largest, later.largest)
        rows = self.rows + later.rows
        if len(later.last) >= window or later.before is not None:
            return StreamTally(rows, largest, later_of(self.largest, later.before), later.last)
        cut = max(0, len(self.last) + len(later.last) - window)
        before = later_of(self.before, pc.max(self.last[:cut]).as_py() if cut else None)
        return StreamTally(rows, largest, before, pa.concat_arrays([self.last[cut:], later.last]))

    def alone(self) -> StreamTally:
        """Return the tally with a copy of its times, so that the rows can leave memory."""
        if self.last.get_total_buffer_size() <= self.last.nbytes:
            return self
        return replace(self, last=pc.add(self.last, _NOTHING))


Tallies: TypeAlias = Mapping[str, StreamTally]


def tally_of(times: pa.Int64Array, spec: EventTimeSpec) -> StreamTally:
    """Return the tally of the rows of one stream, at least one, in the order of arrival."""
    if spec.strategy is not Strategy.ADAPTIVE:
        return StreamTally(len(times), cast("int", pc.max(times).as_py()))
    cut = max(0, len(times) - spec.adaptive.window)
    last = times[cut:] if cut else times
    before = pc.max(times[:cut]).as_py() if cut else None
    largest = later_of(pc.max(last).as_py(), before)
    return StreamTally(len(times), cast("int", largest), before, last)


def tallies_of(
    times: pa.Int64Array, names: pa.DictionaryArray | None, spec: EventTimeSpec
) -> dict[str, StreamTally]:
    """Return the tally of each stream that has rows.

    ``names`` are as ``coded`` makes them, without nulls; None says that all rows are of one stream.
    """
    if not len(times):
        return {}
    if names is None:
        return {ONLY: tally_of(times, spec)}
    known, codes, by_name = names.dictionary.to_pylist(), names.indices, times
    if len(known) > 1:
        order = pc.array_sort_indices(codes)  # a stable sort keeps the order of arrival
        by_name, codes = times.take(order), codes.take(order)
    runs = pc.run_end_encode(codes)
    found, start = {}, 0
    for code, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        found[known[code]] = tally_of(by_name[start:end], spec)
        start = end
    return found


def coded(names: pa.Array) -> pa.DictionaryArray:
    """Return the names of streams as a dictionary array of texts, each text once.

    Raises:
        ArrowNotImplementedError, ArrowInvalid: the names cannot be converted to texts.
    """
    encoded = names.dictionary_encode()
    if not isinstance(names, pa.DictionaryArray) and names.type == pa.string():
        return encoded
    # A given dictionary may have a value twice, and casting its few values is cheaper than rows.
    known = encoded.dictionary.cast(pa.string()).dictionary_encode()
    codes = known.indices.take(encoded.indices)
    return pa.DictionaryArray.from_arrays(codes, known.dictionary)


def merge(found: dict[str, StreamTally], later: Tallies, window: int) -> None:
    """Merge the tallies of later rows into ``found``."""
    for name, tally in later.items():
        before = found.get(name)
        found[name] = (tally if before is None else before.then(tally, window)).alone()


def encode_tallies(tallies: Tallies) -> bytes:
    """Return tallies as bytes of Arrow's IPC format, one row each; empty if there are none."""
    if not tallies:
        return b""
    each = list(tallies.values())
    offsets = [0]
    for tally in each:
        offsets.append(offsets[-1] + len(tally.last))
    # Stored as delays behind the largest time: small numbers, which compress well.
    behind = [pc.subtract(pa.scalar(tally.largest, pa.int64()), tally.last) for tally in each]
    columns = [
        pa.array(list(tallies), pa.string()),
        pa.array([tally.rows for tally in each], pa.int64()),
        pa.array([tally.largest for tally in each], pa.int64()),
        pa.array([tally.before for tally in each], pa.int64()),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.concat_arrays(behind)),
    ]
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, _SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return cast("bytes", sink.getvalue().to_pybytes())


def decode_tallies(data: bytes) -> dict[str, StreamTally]:
    """Return the tallies that bytes hold.

    Raises:
        StateError: the bytes hold no tallies.
    """
    if not data:
        return {}
    try:
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
        table.validate(full=True)  # a list that ends behind its values would end the process
        return _tallies(table)
    except (pa.ArrowException, KeyError, OSError, TypeError, ValueError) as error:
        fix = "Delete the staging folder of the run that staged it, and run again."
        raise StateError(f"the event times of staged work cannot be read: {error}", fix) from error


def _tallies(table: pa.Table) -> dict[str, StreamTally]:
    if (table.column_names, table.schema.types) != (_SCHEMA.names, _SCHEMA.types):
        raise ValueError("the columns are others")
    if any(table.column(each.name).null_count for each in _SCHEMA if not each.nullable):
        raise ValueError("a value is missing")
    behind = table.column("behind").combine_chunks()
    rows = table.drop_columns(["behind"]).to_pylist()
    return {
        row["partition"]: StreamTally(
            row["rows"],
            row["largest"],
            row["before"],
            pc.subtract(pa.scalar(row["largest"], pa.int64()), behind[index].values),
        )
        for index, row in enumerate(rows)
    }


def later_of(first: int | None, second: int | None) -> int | None:
    """Return the later of two instants; None is earlier than all others."""
    return max((each for each in (first, second) if each is not None), default=None)
