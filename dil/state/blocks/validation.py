"""The rules for a new block that only need the block and the chain's head.

docs/semantics/chain.md lists the codes V01 to V24, which are API; V24 is about closed
timelabels. V06 (stored hash), V22 for the whole index and V24 for the closed labels are in
``verification``; rules V30 to V40 for derived datasets are in ``input_validation``. Each check
takes constant time, however long the chain is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dil.errors import StateError
from dil.state.blocks.block import Block, ChainHead, listed
from dil.state.blocks.canonical import instant_of, is_system_time, is_watermark, watermark_text
from dil.state.blocks.events import (
    CLOSE_BOOKS,
    CONFIG_KINDS,
    EXTENSION_PREFIX,
    REOPEN_BOOKS,
    ConfigEvent,
    DataEvent,
    Seed,
    Slice,
    SourceState,
)
from dil.state.blocks.source_state import KIND, UnitSummary, rolled_digest

MAX_FUTURE = 86_400_000  # milliseconds; watermark.max.future
MAX_OFFSET = 2**63 - 1
RESETTABLE = frozenset({"checkpoint", "sourceState", "watermark"})
_DATASET_KINDS = {
    "AddData": "Root",
    "SetPollingSource": "Root",
    "AddPushSource": "Root",
    "ExecuteQuery": "Derivative",
    "SetTransform": "Derivative",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a block breaks."""

    code: str
    what: str

    def __str__(self) -> str:
        return f"{self.code}: {self.what}"


def require(violations: Sequence[Violation], sequence: int) -> None:
    """Raise if any rule is broken.

    Raises:
        StateError: the message begins with the first code and lists all broken rules.
    """
    if violations:
        broken = "; ".join(map(str, violations))
        raise StateError(
            f"{broken} (block {sequence}, not written)",
            "Nothing was recorded. Run `dil state verify` and keep a copy of the state store.",
        )


def violations(
    block: Block,
    tip: ChainHead | None,
    *,
    horizon: int | None = None,
    replaced: Mapping[str, str] | None = None,
) -> list[Violation]:
    """Return every rule that ``block`` breaks as the next block after ``tip``.

    Args:
        block: The new block.
        tip: The chain's head, None for an empty chain.
        horizon: No watermark may be later than both this instant, epoch ms, and the system time
            (V18). None skips V18: when a chain is checked later, the horizon is unknown.
        replaced: Former row hashes of the delta's rows, by signature; None skips V22.
    """
    found = list(_chain_rules(block, tip))
    if tip is None or not isinstance(block.event, DataEvent):
        return found
    event = block.event
    found += _offset_rules(event, tip)
    found += _schema_rules(event, tip)
    found += _checkpoint_rules(event, tip)
    found += _watermark_rules(event, tip)
    if horizon is not None and is_system_time(block.system_time):
        found += _future_rule(event, max(horizon, instant_of(block.system_time)))
    try:
        found += _source_state_rules(event, tip, replaced)
        if _changes_nothing(event, tip):
            found.append(Violation("V23", "the event changes nothing"))
    except (KeyError, TypeError, ValueError) as error:
        found.append(Violation("V21", f"newSourceState cannot be read: {error!r}"))
    return found


def _chain_rules(block: Block, tip: ChainHead | None) -> Iterator[Violation]:
    event = block.event
    if not is_system_time(block.system_time):
        yield Violation("V05", f"{block.system_time} is no UTC instant with six fraction digits")
    if tip is None:
        yield from _first_rules(block)
        return
    if isinstance(event, Seed):
        yield Violation("V02", "Seed is behind another block")
    if block.previous_hash != tip.hash:
        yield Violation("V03", f"follows {block.previous_hash}, the head is {tip.hash}")
    if block.sequence != tip.head.sequence + 1:
        yield Violation("V04", f"sequence {block.sequence} follows {tip.head.sequence}")
    if block.system_time < tip.head.system_time:
        yield Violation("V05", f"{block.system_time} is before {tip.head.system_time}")
    wanted = _DATASET_KINDS.get(event.kind, tip.dataset_kind)
    if tip.dataset_kind != wanted:
        yield Violation("V08", f"{event.kind} in a {tip.dataset_kind} dataset")
    if isinstance(event, ConfigEvent):
        yield from _config_rules(event)


def _first_rules(block: Block) -> Iterator[Violation]:
    event = block.event
    if block.sequence != 0 or block.previous_hash is not None or not isinstance(event, Seed):
        yield Violation("V01", "the first block is not Seed at sequence 0")
    elif event.dataset_kind not in _DATASET_KINDS.values():
        yield Violation("V01", f"dataset kind {event.dataset_kind} is unknown")


def _config_rules(event: ConfigEvent) -> Iterator[Violation]:
    if event.kind not in CONFIG_KINDS and not event.kind.startswith(EXTENSION_PREFIX):
        yield Violation("V07", f"event {event.kind} is unknown")
    elif event.kind == "SetTransform":
        inputs = listed(event, "inputs")
        if not inputs or len(set(map(str, inputs))) != len(inputs):
            yield Violation("V39", f"inputs {inputs} are empty or named twice")
        elif not all(isinstance(name, str) and name for name in inputs):
            yield Violation("V39", f"inputs {inputs} hold one without a name")
    elif event.kind == "SetDataSchema" and not isinstance(event.body.get("schema"), str):
        yield Violation("V14", "SetDataSchema names no schema")
    elif event.kind in (CLOSE_BOOKS, REOPEN_BOOKS):
        if not isinstance(event.body.get("timelabel"), str):
            yield Violation("V24", f"{event.kind} names no timelabel")
    elif event.kind == "ResetState":
        fields = frozenset(map(str, listed(event, "fields")))
        if not fields or not fields <= RESETTABLE:
            yield Violation("V07", f"ResetState of {sorted(fields)}, not of {sorted(RESETTABLE)}")


def _offset_rules(event: DataEvent, tip: ChainHead) -> Iterator[Violation]:
    if event.prev_offset != tip.last_offset:
        yield Violation("V10", f"prevOffset is {event.prev_offset}, not {tip.last_offset}")
    new_data = event.new_data
    if new_data is None:
        return
    first = 0 if event.prev_offset is None else event.prev_offset + 1
    yield from _interval_rules(new_data, first)
    yield from _part_rules(new_data, first)


def _schema_rules(event: DataEvent, tip: ChainHead) -> Iterator[Violation]:
    new_data = event.new_data
    if new_data is None or (new_data.start is None and not new_data.parts):
        return  # an event that only removes files brings no rows
    if tip.schema is None:
        yield Violation("V14", "data before any SetDataSchema")


def _interval_rules(new_data: Slice, first: int) -> Iterator[Violation]:
    if new_data.start is None or new_data.end is None:
        if new_data.start is not None or new_data.end is not None:
            yield Violation("V12", f"the slice is {new_data.start} to {new_data.end}")
        elif not new_data.removes and not new_data.parts:
            yield Violation("V12", "newData names neither rows nor files")
        return
    if new_data.start != first:
        yield Violation("V11", f"the slice starts at {new_data.start}, not at {first}")
    if new_data.end < new_data.start:
        yield Violation("V12", f"the slice ends at {new_data.end} before {new_data.start}")
    if new_data.end > MAX_OFFSET:
        yield Violation("V12", f"the slice ends at {new_data.end}, beyond 2^63-1")


def _part_rules(new_data: Slice, first: int) -> Iterator[Violation]:
    if new_data.parts is None:
        return
    rows = sum(part.rows for part in new_data.parts)
    if rows != new_data.rows:
        yield Violation("V13", f"parts hold {rows} rows, the interval {new_data.rows}")
    expected = first if new_data.start is None else new_data.start
    for part in new_data.parts:
        ends = (expected, expected + part.rows - 1)
        if part.rows < 0 or (part.start, part.end) != ends:
            yield Violation("V13", f"part {part.path} does not start at {expected}")
            return
        expected += part.rows


def _checkpoint_rules(event: DataEvent, tip: ChainHead) -> Iterator[Violation]:
    wanted = tip.data.checkpoint_hash if tip.data else None
    if event.prev_checkpoint != wanted:
        yield Violation("V15", f"prevCheckpoint is {event.prev_checkpoint}, not {wanted}")
    dropped = wanted is not None and event.new_checkpoint is None
    if dropped and "checkpoint" not in tip.reset:
        yield Violation("V16", "newCheckpoint is dropped without ResetState")


def _watermark_rules(event: DataEvent, tip: ChainHead) -> Iterator[Violation]:
    if event.new_watermark is not None and not is_watermark(event.new_watermark):
        yield Violation(
            "V17",
            f"newWatermark {event.new_watermark} is no UTC instant with three fraction digits",
        )
        return
    before = tip.data.new_watermark if tip.data else None
    if before is None or "watermark" in tip.reset:
        return
    if event.new_watermark is None or event.new_watermark < before:
        yield Violation("V17", f"newWatermark {event.new_watermark} is below {before}")


def _future_rule(event: DataEvent, latest: int) -> Iterator[Violation]:
    limit = latest + MAX_FUTURE
    mark = event.new_watermark
    if mark is not None and is_watermark(mark) and instant_of(mark) > limit:
        yield Violation("V18", f"newWatermark {mark} is beyond {watermark_text(limit)}")


def _source_state_rules(
    event: DataEvent, tip: ChainHead, replaced: Mapping[str, str] | None
) -> Iterator[Violation]:
    before = tip.data.new_source_state if tip.data else None
    after = event.new_source_state
    if after is None:
        if before is not None and "sourceState" not in tip.reset:
            yield Violation("V19", "newSourceState is dropped without ResetState")
        return
    if after.kind != KIND or (before is not None and before.kind != KIND):
        return
    old = UnitSummary.of(before)
    new = UnitSummary.of(after)
    delta = UnitSummary.delta_of(after)
    same = new.version == old.version and new.digest == old.digest and not delta
    if not same and new.version != old.version + 1 and "sourceState" not in tip.reset:
        yield Violation("V21", f"stateVersion {new.version} follows {old.version}")
    if replaced is None:
        return
    digest = rolled_digest(old.digest, delta, replaced)
    if digest != new.digest:
        yield Violation("V22", f"digest is {new.digest}, the delta gives {digest}")


def _changes_nothing(event: DataEvent, tip: ChainHead) -> bool:
    last = tip.data or DataEvent()
    return (
        event.new_data is None
        and event.late is None
        and event.new_watermark == last.new_watermark
        and event.new_checkpoint == last.new_checkpoint
        and _same_state(event.new_source_state, last.new_source_state)
        and all(item.new_block_hash is None for item in event.inputs or ())
    )


def _same_state(one: SourceState | None, other: SourceState | None) -> bool:
    if one is None or other is None or one.kind != KIND or other.kind != KIND:
        return one == other
    return UnitSummary.of(one) == UnitSummary.of(other)
