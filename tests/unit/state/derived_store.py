"""A store with root datasets and datasets derived from them, built block by block."""

import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dil.state.blocks.block import advance, carried, next_block
from dil.state.blocks.canonical import watermark_text
from dil.state.blocks.events import ConfigEvent, DataEvent, InputSlice, Seed, Slice, SliceFile
from dil.state.blocks.validation import require, violations
from dil.state.chain.chain_rows import append, read_tip
from dil.state.chain.slices import keep_offsets
from dil.state.chain.writer import ChainWriter
from dil.state.databases.database import Row, SqlValue, Transaction
from dil.state.databases.sqlite_database import SqliteDatabase
from dil.state.derived.inputs import open_input
from dil.state.derived.planning import (
    QueryPlan,
    SliceLimits,
    plan_query,
    transform_in_force,
)

NOW = 1_704_067_200_000  # 2024-01-01T00:00:00Z
HOUR = 3_600_000
NO_LIMITS = SliceLimits()


def mark(hours: int) -> str:
    return watermark_text(NOW + hours * HOUR)


def transform(*inputs: str) -> ConfigEvent:
    return ConfigEvent("SetTransform", {"inputs": list(inputs), "engine": "spark", "query": "q"})


def schema(text: str = "s") -> ConfigEvent:
    return ConfigEvent("SetDataSchema", {"schema": text})


def slice_of(start: int, rows: int, removes: tuple[SliceFile, ...] = ()) -> Slice:
    part = SliceFile(f"file:///{start}", rows, start, start + rows - 1, "f1220aa", 9)
    return Slice(None, "f1220aa", start, start + rows - 1, 9, (part,), removes)


def plan_in_store(
    tx: Transaction,
    dataset: str,
    limits: SliceLimits = NO_LIMITS,
    inputs: Sequence[str] = (),
) -> QueryPlan | None:
    """Plan over inputs of the same store, by default those of the transform in force."""
    names = inputs or transform_in_force(tx, dataset)["inputs"]
    chains = {name: open_input(tx, name) for name in names}
    return plan_query(tx, dataset, limits, inputs=names, chains=chains)


class Store:
    """Datasets in one SQLite file, closed with the last reference; each method is a transaction."""

    def __init__(self, folder: Path) -> None:
        self.database = SqliteDatabase(folder / "state.db")
        weakref.finalize(self, self.database.close)

    def config(self, dataset: str, *events: Seed | ConfigEvent, time: int = NOW) -> None:
        with self.database.write() as tx:
            writer = ChainWriter(tx, dataset, time)
            for event in events:
                writer.draft(event)
            writer.write()

    def root(self, dataset: str) -> None:
        self.config(dataset, Seed(dataset, "Root"), schema())

    def derived(self, dataset: str, *inputs: str) -> None:
        self.config(dataset, Seed(dataset, "Derivative"), transform(*inputs), schema())

    def add(
        self, dataset: str, rows: int, hours: int | None = None, removes: tuple[SliceFile, ...] = ()
    ) -> None:
        """Append AddData with rows, a watermark, or both."""
        changes: dict[str, object] = {}
        if rows:
            with self.database.read() as tx:
                last = carried(read_tip(tx, dataset)).prev_offset
            changes["new_data"] = slice_of(0 if last is None else last + 1, rows, removes)
        if hours is not None:
            changes["new_watermark"] = mark(hours)
        self.append(dataset, **changes)

    def append(self, dataset: str, **changes: object) -> None:
        """Append AddData with some fields of the event replaced."""
        with self.database.write() as tx:
            tip = read_tip(tx, dataset)
            block = next_block(tip, replace(carried(tip), **changes), NOW)
            require(violations(block, tip), block.sequence)
            append(tx, dataset, tip, (block,), advance(tip, block))
            if block.event.new_data is not None:
                keep_offsets(tx, dataset, block.event.new_data)

    def plan(
        self, dataset: str, limits: SliceLimits = NO_LIMITS, inputs: Sequence[str] = ()
    ) -> QueryPlan | None:
        with self.database.read() as tx:
            return plan_in_store(tx, dataset, limits, inputs)

    def query(self, dataset: str, plan: QueryPlan, **changes: object) -> DataEvent | None:
        """Append what was planned, with some fields of the event replaced."""
        with self.database.write() as tx:
            return append_query(tx, dataset, replace(plan.event, **changes))

    def advance(self, dataset: str, limits: SliceLimits = NO_LIMITS) -> tuple[InputSlice, ...]:
        """Plan and append one transaction without output; return the slices it took."""
        plan = self.plan(dataset, limits)
        assert plan is not None
        event = self.query(dataset, plan)
        assert event is not None
        return event.inputs

    def hash_of(self, dataset: str, sequence: int) -> str:
        with self.database.read() as tx:
            statement = "SELECT block_hash FROM mc_block WHERE dataset_id = ? AND seq = ?"
            row = tx.row(statement, dataset, sequence)
        return row[0]

    def slice(
        self, dataset: str, blocks: tuple[int | None, int | None], *offsets: int | None
    ) -> InputSlice:
        """Return the slice of an input between two sequences."""
        hashes = [None if at is None else self.hash_of(dataset, at) for at in blocks]
        return InputSlice(dataset, *hashes, *offsets)


def append_query(tx: Transaction, dataset: str, event: DataEvent) -> DataEvent | None:
    """Append the block of a query as a run does; None when it changes nothing."""
    names = {item.dataset_id for item in event.inputs or ()}
    chains = {name: chain for name in names if (chain := open_input(tx, name)) is not None}
    writer = ChainWriter(tx, dataset, NOW, horizon=NOW, chains=chains)
    if not writer.draft_if_changed(event, replaced={}):
        return None
    writer.write()
    return event


class CountingTransaction(Transaction):
    """Counts statements, and by dataset the block bodies that were read."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.statements = 0
        self.rows_read = 0
        self.bodies: Counter[SqlValue] = Counter()

    def change(self, statement: str, *values: SqlValue) -> int:
        self.statements += 1
        return self.tx.change(statement, *values)

    def rows(self, statement: str, *values: SqlValue) -> list[Row]:
        self.statements += 1
        found = self.tx.rows(statement, *values)
        self.rows_read += len(found)
        if "payload" in statement.partition("FROM")[0]:
            self.bodies[values[0]] += len(found)
        return found


@contextmanager
def counting(database: SqliteDatabase, *, writing: bool = False) -> Iterator[CountingTransaction]:
    with database.write() if writing else database.read() as tx:
        yield CountingTransaction(tx)


@contextmanager
def counted_bodies() -> Iterator[Counter[SqlValue]]:
    """Count, by dataset, the block bodies that snapshots of a SQLite store read meanwhile."""
    bodies: Counter[SqlValue] = Counter()
    snapshot = SqliteDatabase.snapshot

    def counting(self):
        found = CountingTransaction(snapshot(self))
        found.close = found.tx.close
        found.bodies = bodies
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteDatabase, "snapshot", counting)
        yield bodies


def statements_of(*modules: Mapping[str, object]) -> Sequence[str]:
    """Return the statements that are constants of some modules."""
    return [
        text
        for names in modules
        for name, text in names.items()
        if name.isupper() and isinstance(text, str) and text.startswith("SELECT")
    ]
