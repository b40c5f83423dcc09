"""What ``dil state verify`` says of blocks and closed labels that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import StateError
from dil.model.closed_labels import CLOSED_LABELS
from dil.spi.state_store import StateStore
from dil.state.blocks.block import advance, carried, next_block
from dil.state.blocks.events import ConfigEvent, Event, Seed, SideFile, SideFiles, SourceState
from dil.state.blocks.source_state import KIND
from dil.state.blocks.verification import verify_chain
from dil.state.chain.chain_rows import append, read_tip
from dil.state.chain.recorded_files import late_parts, live_parts
from dil.state.runs.details import change_checkpoint
from dil.state.store.sql_store import SqlStateStore
from dil.text.windows import label_text
from tests.unit.state.derived_store import NOW, Store

DAY = 86_400_000
LABEL = label_text(NOW)
CLOSE, REOPEN = (
    ConfigEvent(kind, {"timelabel": LABEL, "windowEnd": NOW + DAY})
    for kind in ("CloseBooks", "ReopenBooks")
)


class Orders:
    """The chain of a job with rows in block 2; ``write`` checks no rule, as another tool might."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        self.store.root("orders")
        self.store.add("orders", 10)

    def write(self, *events: Event) -> None:
        with self.store.database.write() as tx:
            for event in events:
                tip = read_tip(tx, "orders")
                block = next_block(tip, event, NOW)
                append(tx, "orders", tip, (block,), advance(tip, block))

    def close_in_index(self) -> None:
        with self.store.database.write() as tx:
            change_checkpoint(tx, "orders", CLOSED_LABELS, {"closed": [[NOW, NOW + DAY]]})

    def state_store(self) -> SqlStateStore:
        return SqlStateStore(self.store.database, "orders", clock=lambda: NOW)

    def problems(self, **options: object) -> tuple[str, ...]:
        return verify_chain(self.state_store(), **options).problems


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    found = Orders(tmp_path)
    yield found
    found.store.database.close()


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        (
            (CLOSE, CLOSE),
            f"V24: CloseBooks of timelabel {LABEL}, which is closed already (block 4)",
        ),
        (
            (CLOSE, REOPEN, REOPEN, CLOSE),
            f"V24: ReopenBooks of timelabel {LABEL}, which is open already (block 5)",
        ),
        (
            (CLOSE, ConfigEvent("CloseBooks", {"timelabel": LABEL})),
            "V24: CloseBooks cannot be read: KeyError('windowEnd') (block 4)",
        ),
        ((CLOSE, Seed("orders", "Root")), "V02: "),
    ],
)
def test_events_that_do_not_follow_each_other_are_named(
    orders: Orders, events: tuple[Event, ...], problem: str
) -> None:
    orders.close_in_index()
    orders.write(*events)
    (found,) = orders.problems()
    assert found.startswith(problem)


def test_closed_labels_that_differ_from_the_blocks_are_named(orders: Orders) -> None:
    orders.write(CLOSE)
    assert orders.problems() == ("V24: the closed timelabels differ between index and chain",)
    orders.close_in_index()
    assert orders.problems() == ()


def test_a_state_that_cannot_be_read_is_named(orders: Orders) -> None:
    with orders.store.database.read() as tx:
        event = carried(read_tip(tx, "orders"))
    state = {"stateVersion": 1, "digest": "0" * 64, "delta": [{"low": 1}]}
    orders.write(replace(event, new_source_state=SourceState("dil/orders", KIND, state)))
    assert "V21: the state in block 3 cannot be read: KeyError('sig')" in orders.problems()


def test_late_files_that_a_block_removed_are_not_expected(orders: Orders) -> None:
    files = [SideFile(f"file:///late/{name}", 1, "f1220aa", 9) for name in "ab"]
    orders.store.append("orders", late=SideFiles(tuple(files)))
    sizes = {"file:///0": 9, "file:///late/b": 9}
    gone = "V20: file:///late/a is gone, 9 were published"
    assert orders.problems(size_of=sizes.get) == (gone,)
    orders.store.append("orders", late=SideFiles(removes=("file:///late/a",)))
    assert orders.problems(size_of=sizes.get) == ()


@pytest.mark.parametrize("read", [live_parts, late_parts])
def test_the_files_of_a_block_that_is_none_are_refused_with_its_number(
    orders: Orders, read: Callable[[StateStore], object]
) -> None:
    with orders.store.database.write() as tx:
        tx.change("UPDATE mc_block SET payload = ? WHERE seq = 2", b'{"sequenceNumber": 2}')

    with pytest.raises(StateError, match=r"^block 2 of the chain cannot be read") as caught:
        read(orders.state_store())

    assert caught.value.fix == "`dil state verify` lists what is wrong."
