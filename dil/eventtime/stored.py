"""The state of an event-time watermark as bytes: Arrow IPC, with one row for each event stream.

Streams are sorted by name, so that equal states are equal bytes with the same hash in a chain.

Nearly all bytes of a state are the delays of the last rows, in the order that the window needs.
Most delays are 0, so ``is_behind`` has a bit for each row, and ``byte_0`` to ``byte_3`` hold the
four bytes of the other delays, the lowest first: similar bytes lie together, and compress well. If
all delays are whole seconds, they are counted in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConfigError
from dil.eventtime.streams import EventStream
from dil.model.event_time import Strategy

_FORMAT = 2
_MARK = b"dil.event_watermark"
_BYTES = ("byte_0", "byte_1", "byte_2", "byte_3")
_FIELDS = [
    pa.field("partition", pa.string(), nullable=False),
    pa.field("rows", pa.int64(), nullable=False),
    pa.field("largest", pa.int64(), nullable=False),
    pa.field("watermark", pa.int64(), nullable=False),
    pa.field("last_seen", pa.int64(), nullable=False),
]
_SCHEMA = pa.schema(
    [
        *_FIELDS,
        pa.field("is_behind", pa.list_(pa.bool_()), nullable=False),
        *(pa.field(name, pa.list_(pa.uint8()), nullable=False) for name in _BYTES),
    ]
)
_READABLE = {
    b"1": pa.schema([*_FIELDS, pa.field("delays", pa.list_(pa.int32()), nullable=False)]),
    str(_FORMAT).encode(): _SCHEMA,
}
_SECOND_MS = 1000
_NO_DELAYS = pa.array([], pa.int32())
_FIX = "Pass the bytes that state() returned; without them, the last watermark as floor."


@dataclass(frozen=True, slots=True)
class StoredWatermark:
    """The state of a watermark that survives a restart; times in epoch ms UTC.

    ``watermark`` is the watermark after the last batch, ``previous`` is the watermark before it.
    ``stream_column`` is the column that named the partition of a row; None if a state does not say.
    """

    strategy: Strategy
    watermark: int | None
    previous: int | None
    streams: Mapping[str, EventStream]
    stream_column: str | None = None


def encoded(stored: StoredWatermark) -> bytes:
    """Return the bytes of a state."""
    named = sorted(stored.streams.items())
    kept = [each for _, each in named]
    unit, delays = _packed([each.delays for each in kept])
    columns = [
        pa.array([name for name, _ in named], pa.string()),
        pa.array([each.rows for each in kept], pa.int64()),
        pa.array([each.largest for each in kept], pa.int64()),
        pa.array([each.watermark for each in kept], pa.int64()),
        pa.array([each.last_seen for each in kept], pa.int64()),
        *delays,
    ]
    facts = {
        _MARK: str(_FORMAT).encode(),
        b"strategy": stored.strategy.encode(),
        b"watermark": _text(stored.watermark),
        b"previous": _text(stored.previous),
        b"stream_column": (stored.stream_column or "").encode(),
        b"unit": _text(unit),
    }
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, _SCHEMA.with_metadata(facts), options=options) as writer:
        writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return cast("bytes", sink.getvalue().to_pybytes())


def decoded(state: bytes) -> StoredWatermark:
    """Return the state that bytes hold.

    Raises:
        ConfigError: the bytes hold no state, or a newer release wrote them.
    """
    try:
        with pa.ipc.open_stream(state) as reader:
            table = reader.read_all()
        table.validate(full=True)  # a list that ends behind its values would end the process
        return _stored(table.combine_chunks())
    except (pa.ArrowException, KeyError, OSError, TypeError, ValueError) as error:
        raise ConfigError.single("state", f"is no event watermark: {error}", _FIX) from error


def _stored(table: pa.Table) -> StoredWatermark:
    facts = table.schema.metadata or {}
    written = facts.get(_MARK)
    if written is not None and written not in _READABLE:
        what = f"has the format {written.decode()}, and this release reads up to {_FORMAT}"
        raise ConfigError.single("state", what, "Use the release that wrote it, or a newer one.")
    known = None if written is None else _READABLE[written]
    if known is None or (table.column_names, table.schema.types) != (known.names, known.types):
        raise ConfigError.single("state", "is no event watermark", _FIX)
    is_old = "delays" in table.column_names
    delays = _column(table, "delays") if is_old else _unpacked(table, int(facts[b"unit"]))
    streams = {
        str(row["partition"]): EventStream(
            row["rows"],
            row["largest"],
            row["watermark"],
            row["last_seen"],
            delays[index].values,
        )
        for index, row in enumerate(table.select([each.name for each in _FIELDS]).to_pylist())
    }
    return StoredWatermark(
        Strategy(facts[b"strategy"].decode()),
        _number(facts[b"watermark"]),
        _number(facts[b"previous"]),
        streams,
        None if is_old else facts[b"stream_column"].decode(),
    )


def _packed(delays: Sequence[pa.Int32Array]) -> tuple[int, list[pa.ListArray]]:
    """Return the unit of delays in ms, and the columns that hold them, a list for each stream."""
    every = pa.concat_arrays([_NO_DELAYS, *delays])
    is_behind = pc.greater(every, pa.scalar(0, pa.int32()))
    behind = every.filter(is_behind)
    seconds = pc.divide(behind, pa.scalar(_SECOND_MS, pa.int32()))
    unit = 1
    if pc.multiply(seconds, pa.scalar(_SECOND_MS, pa.int32())).equals(behind):
        unit, behind = _SECOND_MS, seconds
    rows = list(accumulate((len(each) for each in delays), initial=0))
    counts = (is_behind[start:end].true_count for start, end in pairwise(rows))
    numbers = behind.cast(pa.uint32())
    kept = pa.array(accumulate(counts, initial=0), pa.int32())
    columns = [pa.ListArray.from_arrays(pa.array(rows, pa.int32()), is_behind)]
    for at in range(len(_BYTES)):
        shifted = pc.shift_right(numbers, pa.scalar(8 * at, pa.uint32()))
        byte = pc.bit_wise_and(shifted, pa.scalar(255, pa.uint32())).cast(pa.uint8())
        columns.append(pa.ListArray.from_arrays(kept, byte))
    return unit, columns


def _unpacked(table: pa.Table, unit: int) -> pa.ListArray:
    """Return the delays of each stream in ms."""
    is_behind = _column(table, "is_behind")
    numbers = pa.nulls(len(_column(table, _BYTES[0]).values), pa.int32()).fill_null(0)
    for at, name in enumerate(_BYTES):
        byte = _column(table, name).values.cast(pa.int32())
        numbers = pc.add(numbers, pc.shift_left(byte, pa.scalar(8 * at, pa.int32())))
    numbers = pc.multiply(numbers, pa.scalar(unit, pa.int32()))
    zeros = pa.nulls(len(is_behind.values), pa.int32()).fill_null(0)
    every = pc.replace_with_mask(zeros, is_behind.values, numbers)
    return pa.ListArray.from_arrays(is_behind.offsets, every)


def _column(table: pa.Table, name: str) -> pa.ListArray:
    """Return a column as one array, even if it has no rows."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _text(number: int | None) -> bytes:
    return b"" if number is None else str(number).encode()


def _number(text: bytes) -> int | None:
    return int(text) if text else None
