"""A published root chain and a derived one, and one damaged field per rule."""

import hashlib
import json
from dataclasses import replace

import pytest

from dil.state.blocks.block import Block, ChainHead, advance, carried, parse_block, read_block
from dil.state.blocks.canonical import canonical, content_hash, is_hash_of
from dil.state.blocks.event_json import from_json, to_json
from dil.state.blocks.events import (
    Checkpoint,
    ConfigEvent,
    DataEvent,
    InputSlice,
    Seed,
    Slice,
)
from dil.state.blocks.input_validation import input_violations, require_known_interval
from dil.state.blocks.validation import violations

DAY = "2023-12-31T"

ROOT_HASHES = (
    "f1220da39c74a1ca48678b9582341d023fb11a6f6f38ccded9467b46bc742a37bb2bd",
    "f1220b5d6831254c74683b4678f2c9ccdfa30f26d04754d3253bbd90a462936877bb7",
    "f12205ee0b92182be017ee9fc1761602ee68a241e8b9bc7def00235536076f9bba6b0",
    "f12203bac312bb4c835907826dcb1c9e99e0a8982eec3d3e7d6208f41f8a65a39e22a",
    "f1220c964c5551f1e9368dfbe802cef76726fec92c130116024b1bc73d81f7dc5a9c3",
    "f122028b2517d04e419a6e05991dfd1dbc8d9be8abc31bcea20622d1076dad37b1c19",
)
DERIVED_HASHES = (
    "f12202da41397279d7a378a320a042c6c4efedf1ad3e51cd351ac4b673358e3d1bf97",
    "f1220450fada67414ed834526953b19fde728a009a95b86f044c1573a5bac53b5ef8c",
    "f1220748572e87a3fe6d2705f36889e39c0835f9fe70f640e465e985f5ca556158387",
    "f122008ceccb8a98809176931172035defef51e95a935ea82c9d03b850b2d33d86ad8",
    "f12203be25959c0ef519e6ebb68f7a22852e701f01077bc7e5fb70b97262cbdf2248a",
    "f1220d86f4123d91196c04d54661ba5a18a61a49e47058bd23cb266d4b7b3496f8d33",
    "f1220951d3073e6fd57f085769afe6b0aa35022cb7a9103d19695b92908bf060a354c",
)
ROOT_CANONICAL_0 = (
    b'{"event":{"datasetId":"ds:root","datasetKind":"Root","kind":"Seed"},"prevBlockHash":null,'
    b'"sequenceNumber":0,"systemTime":"2023-12-31T00:00:00.000000Z","v":1}'
)


def name_hash(name: str) -> str:
    return content_hash(name.encode())


def piece(logical: str, physical: str, start: int, end: int) -> Slice:
    return Slice(name_hash(logical), name_hash(physical), start, end, 100)


def chain(*steps: tuple[str, object]) -> list[Block]:
    blocks: list[Block] = []
    for sequence, (time, event) in enumerate(steps):
        previous = blocks[-1].hash if blocks else None
        blocks.append(Block(sequence, previous, f"{DAY}{time}.000000Z", event))
    return blocks


def mark(time: str) -> str:
    return f"{DAY}{time}.000Z"


ROOT = chain(
    ("00:00:00", Seed("ds:root", "Root")),
    ("00:00:00", ConfigEvent("SetDataSchema", {"schema": "id bigint, ts timestamp"})),
    ("00:00:01", DataEvent(new_data=piece("L1", "P1", 0, 9), new_watermark=mark("00:00:00"))),
    (
        "01:00:01",
        DataEvent(
            prev_offset=9, new_data=piece("L2", "P2", 10, 19), new_watermark=mark("01:00:00")
        ),
    ),
    ("03:00:01", DataEvent(prev_offset=19, new_watermark=mark("03:00:00"))),
    (
        "04:00:01",
        DataEvent(
            prev_offset=19, new_data=piece("L3", "P3", 20, 24), new_watermark=mark("04:00:00")
        ),
    ),
)
C1 = Checkpoint(name_hash("C1"), 64)
C2 = Checkpoint(name_hash("C2"), 64)


def taken(
    previous: int | None, new: int | None, prev_offset: int | None, new_offset: int | None
) -> tuple[InputSlice, ...]:
    hashes = [None if at is None else ROOT[at].hash for at in (previous, new)]
    return (InputSlice("ds:root", hashes[0], hashes[1], prev_offset, new_offset),)


DERIVED = chain(
    ("00:00:00", Seed("ds:derived", "Derivative")),
    (
        "00:00:00",
        ConfigEvent("SetTransform", {"inputs": ["ds:root"], "engine": "spark", "query": "q1"}),
    ),
    ("00:00:00", ConfigEvent("SetDataSchema", {"schema": "h timestamp, n bigint"})),
    (
        "00:00:02",
        DataEvent(
            inputs=taken(None, 2, None, 9), new_checkpoint=C1, new_watermark=mark("00:00:00")
        ),
    ),
    (
        "01:00:02",
        DataEvent(
            prev_checkpoint=C1.physical_hash,
            inputs=taken(2, 3, 9, 19),
            new_data=piece("Ld1", "Pd1", 0, 0),
            new_checkpoint=C2,
            new_watermark=mark("01:00:00"),
        ),
    ),
    (
        "03:00:02",
        DataEvent(
            prev_checkpoint=C2.physical_hash,
            prev_offset=0,
            inputs=taken(3, 4, 19, None),
            new_checkpoint=C2,
            new_watermark=mark("03:00:00"),
        ),
    ),
    (
        "04:00:02",
        DataEvent(
            prev_checkpoint=C2.physical_hash,
            prev_offset=0,
            inputs=taken(4, 5, 19, 24),
            new_data=piece("Ld2", "Pd2", 1, 2),
            new_checkpoint=C2,
            new_watermark=mark("04:00:00"),
        ),
    ),
)


class RootChain:
    """The root vector as an input."""

    def sequence_of(self, block_hash: str) -> int | None:
        return ROOT_HASHES.index(block_hash) if block_hash in ROOT_HASHES else None

    def data_at(self, block_hash: str) -> DataEvent | None:
        if block_hash not in ROOT_HASHES:
            return None
        for block in reversed(ROOT[: ROOT_HASHES.index(block_hash) + 1]):
            if isinstance(block.event, DataEvent):
                return block.event
        return None


def tip_before(blocks: list[Block], sequence: int) -> ChainHead | None:
    tip = None
    for block in blocks[:sequence]:
        tip = advance(tip, block)
    return tip


def codes(block: Block, blocks: list[Block]) -> list[str]:
    tip = tip_before(blocks, block.sequence)
    found = violations(block, tip)
    if tip is not None:
        found += input_violations(block, tip, {"ds:root": RootChain()})
    return [item.code for item in found]


def damaged(blocks: list[Block], sequence: int, **changes: object) -> Block:
    block = blocks[sequence]
    return replace(block, event=replace(block.event, **changes))


def damaged_input(sequence: int, **changes: object) -> Block:
    event = DERIVED[sequence].event
    return damaged(DERIVED, sequence, inputs=(replace(event.inputs[0], **changes),))


def test_root_chain_has_the_published_hashes() -> None:
    assert tuple(block.hash for block in ROOT) == ROOT_HASHES


def test_derived_chain_has_the_published_hashes() -> None:
    assert tuple(block.hash for block in DERIVED) == DERIVED_HASHES


def test_canonical_bytes_of_block_0_are_the_published_ones() -> None:
    assert ROOT[0].content == ROOT_CANONICAL_0


@pytest.mark.parametrize("blocks", [ROOT, DERIVED], ids=["root", "derived"])
def test_published_blocks_survive_parsing_byte_for_byte(blocks: list[Block]) -> None:
    for block in blocks:
        assert parse_block(block.content) == block
        assert parse_block(block.content).content == block.content


@pytest.mark.parametrize("blocks", [ROOT, DERIVED], ids=["root", "derived"])
def test_published_chains_break_no_rule(blocks: list[Block]) -> None:
    assert [codes(block, blocks) for block in blocks] == [[]] * len(blocks)


def test_block_5_takes_its_offset_from_block_4_without_reading_block_3() -> None:
    tip = tip_before(ROOT, 5)
    assert tip is not None
    assert carried(tip).prev_offset == 19
    assert carried(tip).new_watermark == mark("03:00:00")


def test_carrying_a_derived_dataset_repeats_every_input() -> None:
    tip = tip_before(DERIVED, 6)
    assert tip is not None
    event = carried(tip)
    assert event.inputs == (InputSlice("ds:root", ROOT_HASHES[4], None, 19, None),)
    assert event.prev_checkpoint == C2.physical_hash
    assert event.new_checkpoint == C2
    assert event.prev_offset == 0


def test_a_config_event_changes_nothing_that_is_carried() -> None:
    tip = tip_before(ROOT, 5)
    assert tip is not None
    info = Block(5, tip.hash, f"{DAY}03:30:00.000000Z", ConfigEvent("SetInfo", {"text": "x"}))
    assert carried(advance(tip, info)) == carried(tip)


def test_an_input_added_by_a_new_transform_starts_with_nulls() -> None:
    tip = tip_before(DERIVED, 7)
    assert tip is not None
    transform = ConfigEvent(
        "SetTransform", {"inputs": ["ds:other", "ds:root"], "engine": "spark", "query": "q2"}
    )
    block = Block(7, tip.hash, f"{DAY}05:00:00.000000Z", transform)
    event = carried(advance(tip, block))
    assert event.inputs == (
        InputSlice("ds:other", None, None, None, None),
        InputSlice("ds:root", ROOT_HASHES[5], None, 24, None),
    )


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (damaged(ROOT, 5, prev_offset=None), ["V10", "V11"]),
        (damaged(ROOT, 4, new_watermark=None), ["V17"]),
        (damaged(ROOT, 4, new_watermark=mark("01:00:00")), ["V23"]),
        (damaged(ROOT, 4, new_watermark=mark("00:59:59")), ["V17"]),
        (damaged(ROOT, 5, new_data=piece("L3", "P3", 21, 24)), ["V11"]),
        (damaged(ROOT, 5, new_data=piece("L3", "P3", 20, 19)), ["V12"]),
        (damaged(ROOT, 5, prev_checkpoint=C1.physical_hash), ["V15"]),
        (replace(ROOT[5], sequence=5, previous_hash=ROOT_HASHES[3]), ["V03"]),
        (replace(ROOT[5], system_time=f"{DAY}03:00:00.999999Z"), ["V05"]),
        (replace(ROOT[5], event=Seed("ds:root", "Root")), ["V02"]),
        (replace(ROOT[5], event=ConfigEvent("SetMood", {})), ["V07"]),
        (replace(ROOT[0], event=ROOT[1].event), ["V01"]),
        (replace(ROOT[0], previous_hash=ROOT_HASHES[0]), ["V01"]),
        (replace(ROOT[0], event=Seed("ds:root", "Rooted")), ["V01"]),
        (replace(ROOT[0], system_time=f"{DAY}00:00:00.000Z"), ["V05"]),
        (replace(ROOT[5], previous_hash=None), ["V03"]),
        (replace(ROOT[5], system_time=f"{DAY}04:00:01.000000+00:00"), ["V05"]),
        (replace(ROOT[5], system_time=f"{DAY}24:00:01.000000Z"), ["V05"]),
        (replace(ROOT[5], event=ConfigEvent("SetWatermark", {})), ["V07"]),
        (replace(ROOT[5], event=ConfigEvent("SetTransform", {"inputs": ["a"]})), ["V08"]),
        (damaged(ROOT, 4, new_watermark=f"{DAY}03:00:00Z"), ["V17"]),
        (damaged(ROOT, 4, new_watermark="2023-13-31T03:00:00.000Z"), ["V17"]),
        (damaged(ROOT, 5, prev_offset=18), ["V10", "V11"]),
        (damaged(ROOT, 5, new_data=piece("L3", "P3", 20, 2**63)), ["V12"]),
        (damaged(ROOT, 5, new_data=piece("L3", "P3", 20, 2**63 - 1)), []),
        (damaged(ROOT, 5, new_data=replace(piece("L3", "P3", 20, 24), end=None)), ["V12"]),
        (damaged(ROOT, 5, new_data=replace(piece("L3", "P3", 20, 24), start=None)), ["V12"]),
        (damaged(ROOT, 5, inputs=()), ["V08", "V30"]),
    ],
)
def test_each_damage_of_the_root_vector_has_its_code(block: Block, expected: list[str]) -> None:
    assert codes(block, ROOT) == expected


def test_a_gap_in_the_sequence_is_v04() -> None:
    tip = tip_before(ROOT, 5)
    found = violations(replace(ROOT[5], sequence=6), tip)
    assert [item.code for item in found] == ["V04"]


def test_data_before_any_schema_is_v14() -> None:
    tip = tip_before(ROOT, 1)
    assert tip is not None
    block = Block(1, tip.hash, f"{DAY}00:00:01.000000Z", ROOT[2].event)
    assert [item.code for item in violations(block, tip)] == ["V14"]


def test_an_extension_event_is_known_by_its_prefix() -> None:
    block = replace(ROOT[5], event=ConfigEvent("ext.acme.Note", {"text": "x"}))
    assert codes(block, ROOT) == []
    assert codes(replace(block, event=ConfigEvent("extra", {})), ROOT) == ["V07"]


def test_data_events_as_json_are_the_published_ones() -> None:
    """Null is always explicit, and what is not in the vector is not written."""
    assert json.loads(ROOT[4].content)["event"] == {
        "kind": "AddData",
        "prevCheckpoint": None,
        "prevOffset": 19,
        "newData": None,
        "newCheckpoint": None,
        "newWatermark": mark("03:00:00"),
        "newSourceState": None,
    }
    assert json.loads(ROOT[2].content)["event"]["newData"] == {
        "logicalHash": name_hash("L1"),
        "physicalHash": name_hash("P1"),
        "offsetInterval": {"start": 0, "end": 9},
        "size": 100,
    }
    assert json.loads(DERIVED[5].content)["event"] == {
        "kind": "ExecuteQuery",
        "queryInputs": [
            {
                "datasetId": "ds:root",
                "prevBlockHash": ROOT_HASHES[3],
                "newBlockHash": ROOT_HASHES[4],
                "prevOffset": 19,
                "newOffset": None,
            }
        ],
        "prevCheckpoint": name_hash("C2"),
        "prevOffset": 0,
        "newData": None,
        "newCheckpoint": {"physicalHash": name_hash("C2"), "size": 64},
        "newWatermark": mark("03:00:00"),
    }


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (damaged(DERIVED, 5, inputs=None), ["V08"]),
        (damaged(DERIVED, 4, prev_offset=0), ["V10", "V11"]),
        (damaged(DERIVED, 6, prev_offset=None), ["V10", "V11"]),
        (damaged(DERIVED, 5, prev_checkpoint=None), ["V15"]),
        (damaged(DERIVED, 5, new_watermark=None), ["V17"]),
        (damaged(DERIVED, 5, new_watermark=mark("00:59:59")), ["V17"]),
        (damaged_input(5, new_block_hash=ROOT_HASHES[2]), ["V34"]),
        (damaged_input(5, new_block_hash=ROOT_HASHES[3]), ["V34"]),
        (damaged_input(5, prev_block_hash=name_hash("gone")), ["V32", "V34"]),
        (damaged_input(5, dataset_id="ds:other"), ["V31", "V39"]),
        (damaged_input(5, new_offset=19), ["V36", "V37"]),
        (damaged_input(6, new_offset=None), ["V37"]),
        (damaged(DERIVED, 4, inputs=taken(2, 3, 8, 19)), ["V33"]),
        (damaged_input(5, prev_offset=None), ["V33", "V37"]),
        (damaged_input(5, prev_block_hash=None), ["V32"]),
        (damaged(DERIVED, 5, new_checkpoint=None), ["V16"]),
        (damaged_input(6, new_offset=23), ["V37"]),
        (damaged_input(6, new_block_hash=None), ["V35"]),
        (damaged_input(6, new_block_hash=ROOT_HASHES[4]), ["V34"]),
        (damaged_input(6, new_block_hash=name_hash("nowhere")), ["V34"]),
        (damaged_input(6, new_offset=19), ["V36", "V37"]),
        (damaged(DERIVED, 6, new_watermark=mark("05:00:00")), ["V38"]),
        (damaged(DERIVED, 6, inputs=()), ["V39", "V31"]),
        (damaged(DERIVED, 6, inputs=DERIVED[6].event.inputs * 2), ["V39", "V31"]),
        (damaged(DERIVED, 3, inputs=taken(1, 2, None, 9)), ["V32"]),
    ],
)
def test_each_damage_of_the_derived_vector_has_its_code(block: Block, expected: list[str]) -> None:
    assert codes(block, DERIVED) == expected


def test_a_query_before_any_transform_is_v30() -> None:
    tip = tip_before(DERIVED, 1)
    assert tip is not None
    block = Block(1, tip.hash, f"{DAY}00:00:02.000000Z", DERIVED[3].event)
    found = input_violations(block, tip, {"ds:root": RootChain()})
    assert [item.code for item in found] == ["V30"]


def test_an_event_that_changes_nothing_is_v23_in_a_derived_chain_too() -> None:
    event = replace(
        DERIVED[5].event, inputs=taken(3, None, 19, None), new_watermark=mark("01:00:00")
    )
    assert codes(replace(DERIVED[5], event=event), DERIVED) == ["V23"]


def test_a_repeated_watermark_is_no_claim_about_an_input_that_was_just_added() -> None:
    """V17 demands the old watermark and the new input has none: V38 must not refuse it."""
    tip = tip_before(DERIVED, 7)
    assert tip is not None
    added = ConfigEvent("SetTransform", {"inputs": ["ds:root", "ds:new"]})
    tip = advance(tip, Block(7, tip.hash, f"{DAY}05:00:00.000000Z", added))
    empty = Block(8, tip.hash, f"{DAY}05:00:00.000000Z", carried(tip))
    raised = replace(empty, event=replace(empty.event, new_watermark=mark("04:00:01")))
    chains = {"ds:root": RootChain(), "ds:new": RootChain()}
    assert input_violations(empty, tip, chains) == []
    assert [item.code for item in input_violations(raised, tip, chains)] == ["V38", "V38"]


def test_removed_inputs_vanish_and_come_back_with_nulls() -> None:
    tip = tip_before(DERIVED, 7)
    assert tip is not None
    for sequence, names in ((7, ["ds:other"]), (9, ["ds:root", "ds:other"])):
        transform = ConfigEvent("SetTransform", {"inputs": names})
        tip = advance(tip, Block(sequence, tip.hash, tip.head.system_time, transform))
        event = carried(tip)
        assert [item.dataset_id for item in event.inputs] == names
        assert {item.prev_block_hash for item in event.inputs} == {None}
        assert (event.prev_offset, event.new_checkpoint) == (2, C2)
        assert event.new_watermark == mark("04:00:00")
        tip = advance(tip, Block(sequence + 1, tip.hash, tip.head.system_time, event))


def test_blocks_that_only_advance_the_inputs_are_valid() -> None:
    block = damaged(DERIVED, 5, new_watermark=mark("01:00:00"))
    assert codes(block, DERIVED) == []


def test_an_input_whose_only_record_has_offset_0_is_not_up_to_date() -> None:
    """Null is never 0: reading a null prevOffset as 0 would call this input consumed."""
    one = DataEvent(new_data=piece("L", "P", 0, 0), new_watermark=mark("00:00:00"))

    class OneRecord:
        def sequence_of(self, block_hash: str) -> int | None:
            return {"first": 2}.get(block_hash)

        def data_at(self, block_hash: str) -> DataEvent | None:
            return one

    tip = tip_before(DERIVED, 3)
    assert tip is not None
    lazy = replace(
        DERIVED[3],
        event=replace(DERIVED[3].event, inputs=(InputSlice("ds:root", None, "first", None, None),)),
    )
    found = input_violations(lazy, tip, {"ds:root": OneRecord()})
    assert [item.code for item in found] == ["V37"]


def test_a_reset_input_is_an_error_and_never_a_silent_restart() -> None:
    gone = InputSlice("ds:root", name_hash("gone"), None, 9, None)
    with pytest.raises(Exception, match=r"^V40: InvalidInputInterval") as caught:
        require_known_interval(gone, RootChain())
    assert caught.value.code == "DIL-STATE"


def test_the_newer_name_of_execute_query_is_read() -> None:
    fields = {**to_json(DERIVED[3].event), "kind": "ExecuteTransform"}
    assert from_json(fields) == DERIVED[3].event


@pytest.mark.parametrize("closed", ["yes", 1, []])
def test_a_slice_that_is_neither_closed_nor_open_is_not_read(closed: object) -> None:
    fields = to_json(DERIVED[3].event)
    fields["queryInputs"][0]["closed"] = closed
    with pytest.raises(TypeError, match="closed is "):
        from_json(fields)


def test_a_hash_made_with_sha3_is_readable() -> None:
    content = b"abc"
    sha3 = "f16203a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"
    assert is_hash_of(sha3, content)
    assert not is_hash_of(sha3, b"abd")


def test_a_chain_whose_hashes_are_sha3_is_continued() -> None:
    """Open Data Fabric hashes with sha3-256; only our own next block must be of our kind."""
    sha3 = "f1620" + hashlib.sha3_256(ROOT[0].content).hexdigest()
    tip = advance(None, ROOT[0], sha3)
    block = Block(1, sha3, f"{DAY}00:00:00.000000Z", ROOT[1].event)
    assert is_hash_of(sha3, ROOT[0].content)
    assert violations(block, tip) == []
    assert block.hash.startswith("f1220")


@pytest.mark.parametrize("at", ["block", "event", "newData"])
def test_members_that_we_do_not_know_are_passed_over(at: str) -> None:
    fields = json.loads(ROOT[5].content)
    place = {"block": fields, "event": fields["event"], "newData": fields["event"]["newData"]}[at]
    place["ext.future"] = {"x": [1]}
    assert parse_block(canonical(fields)) == ROOT[5]


@pytest.mark.parametrize("version", [0, 2, "1", True, None])
def test_a_block_of_another_format_is_not_read(version: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_block({**ROOT[5].as_json(), "v": version})


def test_rows_in_a_slice_never_take_null_for_0() -> None:
    slices = [taken(2, 3, *offsets)[0] for offsets in ((None, 0), (0, 1), (0, None), (None, None))]
    assert [item.rows for item in slices] == [1, 1, 0, 0]


def test_fractions_have_no_canonical_form() -> None:
    with pytest.raises(TypeError):
        canonical({"rows": [1.5]})


def test_reading_a_block_ignores_the_hash_that_is_shown_with_it() -> None:
    shown = {**ROOT[3].as_json(), "hash": ROOT[3].hash}
    assert read_block(shown) == ROOT[3]
