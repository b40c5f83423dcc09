"""Rules about parts, checkpoints, watermarks and source state, on a chain with our own fields."""

from dataclasses import replace

import pytest

from dil.errors import StateError
from dil.state.blocks.block import Block, ChainHead, advance, carried, next_block
from dil.state.blocks.canonical import instant_of, watermark_text
from dil.state.blocks.events import (
    Checkpoint,
    ConfigEvent,
    DataEvent,
    Seed,
    Slice,
    SliceFile,
    SourceState,
)
from dil.state.blocks.source_state import KIND, NO_ROWS, UnitRow, UnitSummary, replace_in_digest
from dil.state.blocks.validation import MAX_FUTURE, require, violations

NOW = 1_704_153_600_000
ROW = UnitRow("[a]", 0, 10, 10, "COMMITTED", 1)
CHECKPOINT = Checkpoint("f1220c", 64)


def part(start: int, rows: int, name: str = "p") -> SliceFile:
    return SliceFile(f"file:///{name}", rows, start, start + rows - 1, "f1220aa", 9)


def slice_of(*parts: SliceFile, removes: tuple[SliceFile, ...] = ()) -> Slice:
    rows = sum(each.rows for each in parts)
    start = parts[0].start if rows else None
    end = None if start is None else start + rows - 1
    return Slice(None, "f1220aa", start, end, 9, parts, removes)


def summary(version: int, digest: str) -> UnitSummary:
    return UnitSummary(version, digest, 10, 10, {"COMMITTED": 1})


ONE_ROW = replace_in_digest(NO_ROWS, None, ROW.hash)


def tip() -> ChainHead:
    events = (
        Seed("orders", "Root"),
        ConfigEvent("SetDataSchema", {"schema": "s"}),
        DataEvent(
            new_data=slice_of(part(0, 10)),
            new_checkpoint=CHECKPOINT,
            new_watermark=watermark_text(NOW),
            new_source_state=summary(1, ONE_ROW).as_state("dil/orders", [ROW]),
        ),
    )
    found = None
    for event in events:
        found = advance(found, next_block(found, event, NOW))
    assert found is not None
    return found


TIP = tip()
AGAIN = replace(ROW, attempts=2)
AGAIN_DIGEST = replace_in_digest(ONE_ROW, ROW.hash, AGAIN.hash)
NEXT = DataEvent(
    prev_checkpoint="f1220c",
    prev_offset=9,
    new_data=slice_of(part(10, 3), part(13, 0, "empty"), part(13, 2, "q")),
    new_checkpoint=CHECKPOINT,
    new_watermark=watermark_text(NOW + 1),
    new_source_state=summary(2, AGAIN_DIGEST).as_state("dil/orders", [AGAIN]),
)


def codes(event: DataEvent, at: ChainHead = TIP) -> list[str]:
    block = next_block(at, event, NOW)
    found = violations(block, at, horizon=NOW, replaced={"[a]": ROW.hash})
    return [each.code for each in found]


def state(version: int, digest: str, *rows: UnitRow) -> DataEvent:
    return replace(
        NEXT, new_source_state=summary(version, digest).as_state("dil/orders", list(rows))
    )


def data(new_data: Slice) -> DataEvent:
    return replace(NEXT, new_data=new_data)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (NEXT, []),
        (data(slice_of(part(10, 1), removes=(part(0, 10),))), []),
        (data(slice_of(removes=(part(0, 10),))), []),
        (data(slice_of()), ["V12"]),
        (data(replace(slice_of(part(10, 3)), end=13)), ["V13"]),
        (data(slice_of(part(10, 3), part(14, 2))), ["V13"]),
        (data(replace(slice_of(part(10, 3)), start=None, end=None)), ["V13"]),
        (data(slice_of(replace(part(10, 3), end=None))), ["V13"]),
        (replace(NEXT, prev_checkpoint=None), ["V15"]),
        (replace(NEXT, new_checkpoint=None), ["V16"]),
        (replace(NEXT, new_watermark=watermark_text(NOW - 1)), ["V17"]),
        (replace(NEXT, new_watermark=watermark_text(NOW + MAX_FUTURE)), []),
        (replace(NEXT, new_watermark=watermark_text(NOW + MAX_FUTURE + 1)), ["V18"]),
        (replace(NEXT, new_source_state=None), ["V19"]),
        (state(1, AGAIN_DIGEST, AGAIN), ["V21"]),
        (state(3, AGAIN_DIGEST, AGAIN), ["V21"]),
        (state(2, ONE_ROW, AGAIN), ["V22"]),
        (state(1, ONE_ROW), []),
        (replace(state(1, ONE_ROW), new_data=None, new_watermark=watermark_text(NOW)), ["V23"]),
    ],
)
def test_each_rule_has_its_code(event: DataEvent, expected: list[str]) -> None:
    assert codes(event) == expected


@pytest.mark.parametrize(
    ("field", "change", "code"),
    [
        ("checkpoint", {"new_checkpoint": None}, "V16"),
        ("sourceState", {"new_source_state": None}, "V19"),
        ("watermark", {"new_watermark": watermark_text(NOW - 5)}, "V17"),
    ],
)
def test_reset_state_allows_what_it_names_until_the_next_data_event(
    field: str, change: dict[str, object], code: str
) -> None:
    event = replace(NEXT, **change)
    reset = ConfigEvent("ResetState", {"fields": [field], "reason": "test"})
    at = advance(TIP, next_block(TIP, reset, NOW))
    assert codes(event) == [code]
    assert codes(event, at) == []
    after = advance(at, next_block(at, NEXT, NOW))
    assert after.reset == frozenset()


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"stateVersion": "2", "digest": AGAIN_DIGEST},
        {**summary(2, AGAIN_DIGEST).as_state("s", [AGAIN]).value, "delta": None},
        {**summary(2, AGAIN_DIGEST).as_state("s", [AGAIN]).value, "delta": [{"low": 1}]},
    ],
)
def test_a_source_state_that_cannot_be_read_is_v21_and_no_crash(value: dict[str, object]) -> None:
    event = replace(NEXT, new_source_state=SourceState("dil/orders", KIND, value))
    assert codes(event) == ["V21"]


def test_a_source_state_of_another_kind_is_compared_as_it_is() -> None:
    event = replace(NEXT, new_source_state=SourceState("kafka", "offsets", {"0": 5}))
    at = advance(TIP, next_block(TIP, event, NOW))
    idle = replace(carried(at), prev_offset=at.last_offset)
    assert codes(event) == []
    assert codes(idle, at) == ["V23"]
    changed = SourceState("kafka", "offsets", {"0": 6})
    assert codes(replace(idle, new_source_state=changed), at) == []


def test_config_events_between_data_events_change_no_rule() -> None:
    at = TIP
    for kind in ("SetInfo", "SetLicense", "SetVocab", "SetAttachments", "ext.acme.Note"):
        block = next_block(at, ConfigEvent(kind, {}), NOW)
        assert violations(block, at) == []
        at = advance(at, block)
    assert codes(NEXT, at) == []
    assert codes(replace(NEXT, prev_offset=None), at) == ["V10", "V11"]


def test_a_far_watermark_is_measured_by_the_system_time_too() -> None:
    block = next_block(TIP, replace(NEXT, new_watermark=watermark_text(NOW + 2 * MAX_FUTURE)), NOW)
    later = replace(block, system_time="2024-02-01T00:00:00.000000Z")
    assert [each.code for each in violations(block, TIP, horizon=0)] == ["V18"]
    assert violations(later, TIP, horizon=0) == []


def test_the_error_begins_with_the_first_code() -> None:
    broken = violations(next_block(TIP, replace(NEXT, prev_offset=None), NOW), TIP)
    with pytest.raises(StateError) as caught:
        require(broken, 3)
    assert caught.value.message.startswith("V10: ")
    assert "V11: " in caught.value.message


def test_the_next_block_never_runs_backwards_in_time() -> None:
    block = next_block(TIP, NEXT, NOW - 1000)
    assert block.system_time == TIP.head.system_time
    assert instant_of(block.system_time) == NOW


def test_the_first_block_is_seed_at_sequence_0() -> None:
    block = next_block(None, Seed("orders", "Root"), NOW)
    assert violations(block, None) == []
    late = Block(1, None, block.system_time, block.event)
    assert [each.code for each in violations(late, None)] == ["V01"]
