"""Laws of the metadata chain: what is valid stays valid, damage is found, nothing is lost."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.dataset import Commit, FileRows, Move, PublishedFile, RunWork, WorkUnitOutcome
from dil.state.blocks.block import Block, ChainHead, advance, carried, next_block, parse_block
from dil.state.blocks.canonical import canonical, content_hash, watermark_text
from dil.state.blocks.events import (
    Checkpoint,
    ConfigEvent,
    DataEvent,
    Event,
    InputSlice,
    Seed,
    Slice,
)
from dil.state.blocks.source_state import (
    NO_ROWS,
    UnitRow,
    UnitSummary,
    replace_in_digest,
    rolled_digest,
    row_hash,
)
from dil.state.blocks.validation import violations
from dil.state.blocks.verification import verify_chain
from dil.state.chain.as_of import units_as_of
from dil.state.databases.database import Transaction
from dil.state.databases.sqlite_database import SqliteDatabase
from dil.state.derived.dataset_chain import DatasetChain
from dil.state.derived.planning import SliceLimits
from dil.state.store.sql_store import SqlStateStore
from tests.unit.state.derived_store import NOW, Store, schema, transform

HOUR = 3_600_000
FIELDS = ("checkpoint", "sourceState", "watermark")

configs = st.sampled_from(
    [
        ConfigEvent("SetInfo", {"text": "x"}),
        ConfigEvent("SetLicense", {}),
        ConfigEvent("SetPollingSource", {"configDigest": "d"}),
        ConfigEvent("ext.acme.Note", {"n": [1, None]}),
        schema("a"),
        schema("b"),
    ]
)
resets = st.sets(st.sampled_from(FIELDS), min_size=1).map(
    lambda fields: ConfigEvent("ResetState", {"fields": sorted(fields)})
)


@dataclass(frozen=True)
class Change:
    """What one data event changes; None and False leave a field as it was carried."""

    rows: int | None
    hours: int | None
    checkpoint: str | None
    unit: UnitRow | None
    drops: bool


unit_rows = st.builds(
    UnitRow,
    signature=st.sampled_from("abc"),
    low=st.integers(-5, 5),
    expected_high=st.integers(6, 9),
    high=st.none() | st.integers(6, 9),
    status=st.sampled_from(["COMMITTED", "FAILED"]),
    attempts=st.integers(0, 3),
    cursor=st.none() | st.just({"page": 7}),
)
changes = st.builds(
    Change,
    rows=st.none() | st.integers(1, 50),
    hours=st.none() | st.integers(0, 9),
    checkpoint=st.none() | st.sampled_from(["c1", "c2"]),
    unit=st.none() | unit_rows,
    drops=st.booleans(),
)
steps = st.lists(configs | resets | changes, max_size=25)


class Chain:
    """A chain that grows by random events; all its blocks and work units are kept at hand."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.tip: ChainHead | None = None
        self.rows: dict[str, UnitRow] = {}
        for event in (Seed("orders", "Root"), schema("s")):
            assert self.append(event) == []

    def append(self, event: Event, replaced: Mapping[str, str] | None = None) -> list[str]:
        block = next_block(self.tip, event, NOW + len(self.blocks))
        found = violations(block, self.tip, horizon=NOW, replaced=replaced)
        if not found:
            self.blocks.append(block)
            self.tip = advance(self.tip, block)
        return [each.code for each in found]

    def change(self, change: Change) -> None:
        """Append a data event; one that would change nothing is refused and skipped."""
        tip = self.tip
        assert tip is not None
        event = carried(tip)
        if change.drops:
            event = dropped(event, tip.reset)
        if change.rows is not None:
            start = 0 if event.prev_offset is None else event.prev_offset + 1
            new_data = Slice(None, "f1220aa", start, start + change.rows - 1, 9)
            event = replace(event, new_data=new_data)
        if change.hours is not None:
            later = watermark_text(NOW - 99 * HOUR + change.hours * HOUR)
            event = replace(event, new_watermark=max(later, event.new_watermark or later))
        if change.checkpoint is not None:
            event = replace(event, new_checkpoint=Checkpoint(change.checkpoint, 64))
        replaced: dict[str, str] = {}
        rows = {} if event.new_source_state is None else dict(self.rows)
        if event.new_source_state is not None:
            state = UnitSummary.of(event.new_source_state).as_state("dil/orders", [])
            event = replace(event, new_source_state=state)
        gives_up = change.drops and "sourceState" in tip.reset
        if change.unit is not None and not gives_up:
            event = with_unit(event, change.unit, rows, replaced)
        codes = self.append(event, replaced)
        assert codes in ([], ["V23"])
        if not codes:
            self.rows = rows


def with_unit(
    event: DataEvent, row: UnitRow, rows: dict[str, UnitRow], replaced: dict[str, str]
) -> DataEvent:
    """Put a row into the index, and say which hash it replaced."""
    before = UnitSummary.of(event.new_source_state)
    old = rows.get(row.signature)
    if old is not None:
        replaced[row.signature] = old.hash
    rows[row.signature] = row
    digest = replace_in_digest(before.digest, old.hash if old else None, row.hash)
    summary = UnitSummary(before.version + 1, digest)
    return replace(event, new_source_state=summary.as_state("dil/orders", [row]))


def dropped(event: DataEvent, fields: frozenset[str]) -> DataEvent:
    if "checkpoint" in fields:
        event = replace(event, new_checkpoint=None)
    if "watermark" in fields:
        event = replace(event, new_watermark=None)
    return replace(event, new_source_state=None) if "sourceState" in fields else event


def grown(made: list[ConfigEvent | Change]) -> Chain:
    chain = Chain()
    for step in made:
        if isinstance(step, Change):
            chain.change(step)
        else:
            assert chain.append(step) == []
    return chain


@given(steps)
@settings(max_examples=150, deadline=None)
def test_what_is_carried_equals_a_walk_over_the_whole_chain(
    made: list[ConfigEvent | Change],
) -> None:
    chain = grown(made)
    events = [block.event for block in chain.blocks if isinstance(block.event, DataEvent)]
    last = events[-1] if events else DataEvent()
    ends = [event.new_data.end for event in events if event.new_data is not None]
    assert chain.tip is not None
    found = carried(chain.tip)
    assert found.prev_offset == (ends[-1] if ends else None)
    assert found.prev_checkpoint == last.checkpoint_hash
    assert found.new_checkpoint == last.new_checkpoint
    assert found.new_watermark == last.new_watermark
    assert found.new_source_state == last.new_source_state
    assert found.new_data is None


@given(steps)
@settings(max_examples=100, deadline=None)
def test_valid_blocks_survive_their_bytes_and_stay_valid(made: list[ConfigEvent | Change]) -> None:
    tip = None
    for block in grown(made).blocks:
        again = parse_block(block.content)
        assert again.content == block.content
        assert violations(again, tip) == []
        tip = advance(tip, again)


@given(steps)
@settings(max_examples=100, deadline=None)
def test_the_digest_that_was_rolled_is_that_of_the_rows(made: list[ConfigEvent | Change]) -> None:
    chain = grown(made)
    assert chain.tip is not None
    state = chain.tip.data.new_source_state if chain.tip.data else None
    if state is None:
        return
    fresh = NO_ROWS
    for row in chain.rows.values():
        fresh = replace_in_digest(fresh, None, row_hash(row.as_json()))
    assert UnitSummary.of(state).digest == fresh
    deltas = [row.as_json() for row in chain.rows.values()]
    assert rolled_digest(NO_ROWS, deltas, {}) == fresh


# Damage


@contextmanager
def written_chain() -> Iterator[tuple[SqlStateStore, SqliteDatabase]]:
    with tempfile.TemporaryDirectory() as folder:
        database = SqliteDatabase(Path(folder) / "state.db")
        store = SqlStateStore(database, "orders", clock=lambda: NOW)
        lease = store.acquire_lease("r0", lease_s=60)
        for number in range(4):
            low = number * HOUR
            high = low + HOUR if number != 1 else None
            outcomes = (
                WorkUnitOutcome(f"[{number}]", "u", low, low + HOUR, high, 1, timelabel="t"),
            )
            file = PublishedFile(f"file:///{number}", f"[{number}]", 5, 50, "ab" * 32, "r")
            moves = (Move("file:///staged", file),) if number != 1 else ()
            schema_text = "s" if number < 3 else "s2"
            run = f"r{number}"
            store.commit(
                lease,
                Commit(run, "c", "dil/orders", moves, (), schema_text, NOW, NOW, RunWork(outcomes)),
            )
        yield store, database
        store.close()


def leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path


def put(fields: object, path: tuple[str | int, ...], value: object) -> object:
    """Return a copy of JSON with one leaf replaced."""
    copy = json.loads(json.dumps(fields))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


others = st.sampled_from([None, 0, 1, -7, 2**63, "", "x", "f1220ab", True, [], {}])


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_any_one_field_changed_in_a_stored_block_is_found(data: st.DataObject) -> None:
    read = "SELECT payload FROM mc_block WHERE seq = ?"
    write = "UPDATE mc_block SET payload = ?, block_hash = ? WHERE seq = ?"
    with written_chain() as (store, database):
        assert verify_chain(store).problems == ()
        blocks = verify_chain(store).blocks
        for _ in range(15):
            sequence = data.draw(st.integers(0, blocks - 1))
            with database.read() as tx:
                (payload,) = tx.row(read, sequence)
            fields = json.loads(payload)
            path = data.draw(st.sampled_from(list(leaves(fields))))
            content = canonical(put(fields, path, data.draw(others)))
            if content == payload:
                continue
            # With the old hash the bytes contradict it; with a new one the next block does.
            is_rehashed = sequence < blocks - 1 and data.draw(st.booleans())
            old = content_hash(payload)
            with database.write() as tx:
                stored = content_hash(content) if is_rehashed else old
                tx.change(write, content, stored, sequence)
            problems = verify_chain(store).problems
            assert problems, (sequence, path, content)
            assert is_rehashed or problems[0].startswith("V06")
            with database.write() as tx:
                tx.change(write, payload, old, sequence)
        assert verify_chain(store).problems == ()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None)
def test_units_rebuilt_from_the_chain_are_those_of_the_index(runs: list[tuple[str, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = SqliteDatabase(Path(folder) / "state.db")
        store = SqlStateStore(database, "orders", clock=lambda: NOW)
        lease = store.acquire_lease("r0", lease_s=60)
        for number, (name, ok) in enumerate(runs):
            outcome = WorkUnitOutcome(f"[{name}]", name, 0, HOUR, HOUR if ok else None, 1)
            store.commit(
                lease, Commit(f"r{number}", "c", "dil", (), (), "", NOW, NOW, RunWork((outcome,)))
            )
            with database.read() as tx:
                assert rebuilt(tx) == dict(tx.rows("SELECT signature, row_hash FROM work_unit"))
        store.close()


def rebuilt(tx: Transaction) -> dict[str, str]:
    return {name: row.hash for name, row in units_as_of(tx, "orders", 10**6).items()}


# Derived datasets

input_steps = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(1, 9)),
        st.tuples(st.just("mark"), st.just(0)),
        st.tuples(st.just("schema"), st.integers(0, 9)),
        st.tuples(st.just("info"), st.just(0)),
        st.tuples(st.just("run"), st.integers(1, 12)),
        st.tuples(st.just("transform"), st.just(0)),
    ),
    max_size=14,
)


@given(input_steps, st.integers(1, 4), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_slices_tile_their_input_whatever_comes_between(
    made: list[tuple[str, int]], blocks: int, rows: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.root("in")
        store.derived("out", "in")
        taken: list[InputSlice] = []
        total = 0
        for number, (word, count) in enumerate(made):
            total += count if word == "rows" else 0
            if word == "run":
                taken += run(store, SliceLimits(blocks, count))
            else:
                act(store, word, count, number)
        while found := run(store, SliceLimits(blocks, rows)):
            taken += found
        for one, next_one in pairwise(taken):
            assert (next_one.prev_block_hash, next_one.prev_offset) == (
                one.last_block, one.last_offset
            )  # fmt: skip
        assert sum(item.rows for item in taken) == total
        parts = [part for item in taken for part in parts_of(store, item)]
        assert sum(part.count for part in parts) == total
        assert [part.offset for part in parts] == sorted(part.offset for part in parts)
        for dataset in ("in", "out"):
            verified = verify_chain(SqlStateStore(store.database, dataset, clock=lambda: NOW))
            assert verified.is_sound
        store.database.close()


def parts_of(store: Store, item: InputSlice) -> Sequence[FileRows]:
    """Return the files' rows that readers find between the ends of a slice."""
    with store.database.read() as tx:
        chain = DatasetChain.of(tx, item.dataset_id)
        first, last = (
            0 if end is None else chain.chain.sequence_of(end)
            for end in (item.prev_block_hash, item.last_block)
        )
        assert first is not None
        assert last is not None
        return chain.parts_between(chain.at(first), chain.at(last))


def run(store: Store, limits: SliceLimits) -> list[InputSlice]:
    plan = store.plan("out", limits)
    if plan is None:
        return []
    event = store.query("out", plan)
    assert event is not None
    return list(event.inputs or ())


def act(store: Store, word: str, count: int, number: int) -> None:
    if word == "rows":
        store.add("in", count)
    elif word == "mark":
        store.add("in", 0, number - 20)
    elif word == "schema":
        store.config("in", schema(f"s{count}"))
    elif word == "transform":
        store.config("out", transform("in"))
    else:
        store.config("in", ConfigEvent("SetInfo", {"n": number}))
