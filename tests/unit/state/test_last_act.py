"""The last act is found in a chain of any length, with memory for its work units alone."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from dil.state.amendments.last_act import LastAct, files_since, last_act, watermark_at

WORK_UNITS = 7


class Event(dict):
    """An event that tells when it is gone."""


@dataclass
class Chain:
    """Blocks newest first, made as they are asked for; counts how many are alive at once."""

    length: int
    act_at: int | None = None
    most_alive: int = 0
    served: int = 0
    _alive: weakref.WeakValueDictionary[int, Event] = field(
        default_factory=weakref.WeakValueDictionary
    )

    def __iter__(self) -> Iterator[dict[str, object]]:
        for sequence in range(self.length - 1, -1, -1):
            event = self._event(sequence)
            self._alive[sequence] = event
            self.served += 1
            self.most_alive = max(self.most_alive, len(self._alive))
            yield {"sequenceNumber": sequence, "event": event}

    def _event(self, sequence: int) -> Event:
        if sequence == self.act_at:
            return Event(
                kind="ResetState", act="forget", actId="forget-1", reason="why", dataBlocks=2
            )
        delta = [{"sig": f"unit {sequence % WORK_UNITS}"}]
        return Event(
            kind="AddData",
            newWatermark=f"1970-01-01T00:{sequence % 60:02}:00.000Z",
            newSourceState={"value": {"delta": delta}},
        )


@pytest.fixture(autouse=True)
def _only_counted_references() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_a_long_chain_behind_the_act_is_not_kept_in_memory() -> None:
    search, chain = Chain(5_000, act_at=10), Chain(5_000, act_at=10)

    found = last_act(search, chain)

    assert found is not None
    assert (found.verb, found.sequence) == ("forget", 10)
    assert found.signatures == {"unit 4", "unit 5"}
    assert found.overwritten == found.signatures
    assert (found.watermark_after, found.watermark_before) == (11 * 60_000, 9 * 60_000)
    assert max(search.most_alive, chain.most_alive) < 10


def test_a_long_chain_without_an_act_is_not_kept_in_memory_either() -> None:
    search, chain = Chain(5_000), Chain(5_000)

    assert last_act(search, chain) is None
    assert search.most_alive < 10
    assert chain.served == 0


def test_blocks_before_the_one_that_tells_the_watermark_are_not_read() -> None:
    chain = Chain(100, act_at=90)

    last_act(Chain(100, act_at=90), chain)

    assert chain.served == 11


def test_a_work_unit_that_no_run_read_since_is_not_overwritten() -> None:
    found = last_act(Chain(15, act_at=10), Chain(15, act_at=10))

    assert found is not None
    assert found.signatures == {"unit 4", "unit 5"}
    assert found.overwritten == frozenset()


def test_an_act_before_the_first_data_has_no_watermark_after_it() -> None:
    assert watermark_at(Chain(5, act_at=1), 4) == 4 * 60_000
    assert watermark_at(Chain(2, act_at=0), 0) is None


def test_the_first_change_of_a_file_since_a_block_says_whether_the_block_had_it() -> None:
    """Block 1 adds b and removes a, block 2 brings a back and removes b, block 3 removes c."""
    changes = [("b", "a"), ("a", "b"), ("", "c")]
    blocks = [
        {
            "sequenceNumber": number,
            "event": {
                "kind": "AddData",
                "newData": {
                    "parts": [{"path": path} for path in added],
                    "removes": [{"path": path} for path in removed],
                },
            },
        }
        for number, (added, removed) in enumerate(changes, start=1)
    ]
    since = [files_since(blocks[::-1], number) for number in range(3)]
    assert [each.came for each in since] == [{"b"}, {"a"}, frozenset()]
    assert [each.left for each in since] == [{"a", "c"}, {"b", "c"}, {"c"}]


LOWERED = LastAct("forget", "f", "", 1, frozenset(), frozenset(), 1000, 400)


@pytest.mark.parametrize(
    ("act", "now", "restored"),
    [
        (LOWERED, 400, 1000),
        (LOWERED, 700, 1000),
        (LOWERED, 1500, 1500),
        (LOWERED, None, 1000),
        (replace(LOWERED, watermark_after=1000), 1500, 1500),
        (replace(LOWERED, watermark_after=2000), 2000, 1000),
        (replace(LOWERED, watermark_before=None), 400, None),
    ],
    ids=[
        "as the act left it",
        "runs carried it on, not as far as before",
        "runs carried it further than before",
        "gone since",
        "the act did not change it",
        "the act raised it",
        "there was none before",
    ],
)
def test_undo_restores_the_watermark_unless_runs_carried_it_further(
    act: LastAct, now: int | None, restored: int | None
) -> None:
    assert act.watermark_to_restore(now) == restored
