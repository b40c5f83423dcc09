"""Kill -9 between any two steps of a run of a derived dataset, then run again.

The dataset holds what the query makes of its inputs, each row once; its chain is sound, and what
it took of the inputs goes on where it was.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.derived import Lake
from tests.marks import all_long_but
from tests.torture.kills import restore, spread, steps

# The short form kills at this many steps of each path; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "8"))
BIG = "SELECT id, amount FROM orders WHERE amount >= 50"
PATHS = {
    "append": {},
    "append, shared files": {"ms__output__file__per__work__unit": "false"},
    "append, a folder for each run": {"writer__file__path__type": "default"},
    "full": {"ms__query__mode": "full"},
    "stream": {"ms__stream__mode": "stateful", "ms__query__input__max__blocks": "1"},
    "repeats": {
        "ms__dedupe__keys": "amount",
        "ms__dedupe__column": "id",
        "ms__dedupe__within": "PT0S",
    },
    "merge": {"ms__publish__mode": "merge", "extract__primary__key__fields": "id"},
}


def chosen(events: list[str]) -> list[int]:
    """Return the steps at which to kill: of all, or some evenly spread."""
    numbers = sorted(set(steps(events).values()))
    return spread(numbers, KILLS)


@pytest.mark.parametrize(
    "path",
    all_long_but(PATHS, "stream", "merge"),
)
def test_a_query_killed_at_any_step_and_run_again_takes_each_row_once(path, tmp_path, kills):
    live, base = tmp_path / "lake", tmp_path / "before"
    lake = Lake(live)
    big = lake.derive("big", BIG, **PATHS[path])
    lake.feed(*range(10))
    assert (lake.stream if path == "stream" else lake.run)(big).rows == 5
    lake.feed(*range(10, 20))
    lake.feed(*range(20, 22))
    expected = Counter(range(5, 22))
    restore(live, base)

    whole = kills.run(big, lake.now)
    assert whole["exit"] == 0
    assert lake.ids("big") == expected

    killed, numbers = 0, chosen(whole["events"])
    for at in numbers:
        restore(base, live)
        answer = kills.run(big, lake.now, at)
        killed += answer["killed"]
        assert answer["killed"] or answer["exit"] == 0, f"step {at}"
        step = f"killed at {at}: {whole['events'][at]}"
        assert kills.run(big, lake.now)["exit"] == 0, step
        found = lake.ids("big")
        assert found - expected == Counter(), f"doubled, {step}"
        assert expected - found == Counter(), f"lost, {step}"
        assert lake.verify(big).problems == (), step
        taken = lake.data(big)[-1]["queryInputs"][0]
        assert max(filter(None, (taken["newOffset"], taken["prevOffset"]))) == 21, step
        assert kills.run(big, lake.now)["exit"] == 0, step
        assert lake.ids("big") == expected, step
    # DuckDB reads in threads of its own: a run may have fewer calls than the one before.
    assert killed >= len(numbers) - 1


def test_late_rows_of_a_query_killed_at_any_step_are_beside_its_dataset_once(
    tmp_path, kills
) -> None:
    live, base = tmp_path / "lake", tmp_path / "before"
    lake = Lake(live)
    late = lake.derive(
        "late",
        "SELECT id, CASE WHEN id % 10 = 2 THEN 0 ELSE amount END AS amount FROM orders",
        ms__event__column="amount",
        ms__event__watermark="bounded",
        ms__event__delay="PT0S",
        ms__late__action="side_table",
    )
    lake.feed(5, 6)
    assert lake.run(late).rows == 2
    lake.feed(7, 12, 13)
    restore(live, base)
    whole = kills.run(late, lake.now)
    assert whole["exit"] == 0
    watermark = lake.data(late)[-1]["newWatermark"]

    for at in chosen(whole["events"]):
        restore(base, live)
        kills.run(late, lake.now, at)
        step = f"killed at {at}: {whole['events'][at]}"
        assert kills.run(late, lake.now)["exit"] == 0, step
        assert (lake.ids("late"), lake.ids("late_late")) == (
            Counter([5, 6, 7, 13]),
            Counter([12]),
        ), step
        last = lake.data(late)[-1]
        assert (last["newWatermark"], last["judgedBy"]["watermark"]) == (watermark, 60), step
        assert lake.verify(late).problems == (), step
