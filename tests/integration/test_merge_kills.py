"""Kill -9 between any two steps of a merge, then run again: what the whole run would have given."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.integration.merge_jobs import SNAPSHOT, Shop
from tests.servers.day_rows import DayRows
from tests.stories import day
from tests.torture.kills import KillServer, restore, spread, steps

# The short form kills at this many steps of each path; the long form (make torture) at all.
KILLS = int(os.environ.get("DIL_KILLS", "4"))

PATHS = {
    "hard deletes": {"ms__merge__op__field": "what"},
    "soft deletes, keep successes": {
        "ms__merge__op__field": "what",
        "ms__merge__deletes": "soft",
        "job__commit__policy": "successful",
    },
    "changelog": {
        "ms__merge__op__field": "what",
        "ms__merge__deletes": "soft",
        "ms__publish__changelog": "true",
    },
    "snapshot": {
        **{name.replace(".", "__"): value for name, value in SNAPSHOT.items()},
        "ms__merge__delete__limit__percent": "50",
    },
}


@pytest.mark.parametrize("path", PATHS)
def test_a_merge_killed_at_any_step_and_run_again_gives_what_the_whole_run_gives(
    path: str, tmp_path: Path, kills: KillServer
) -> None:
    base, live = tmp_path / "before", tmp_path / "job"
    old = [{"id": number, "name": "old", "at": 1, "what": "i"} for number in range(6)]
    new = [
        {"id": 1, "name": "new", "at": 2, "what": "u"},
        {"id": 2, "name": "late", "at": 0, "what": "u"},
        {"id": 3, "name": "", "at": 2, "what": "d"},
        {"id": 7.5, "name": "added", "at": 1, "what": "i"},
        {"id": 1, "name": "newest", "at": 3, "what": "u"},
    ]
    with DayRows({day(0): old[:3], day(1): old[3:], 0: old}) as source:
        shop = Shop(live, source, **PATHS[path])
        job = shop.conf()
        assert kills.run(job, day(2))["exit"] == 0
        source.days.update({day(2): new[:3], day(3): new[3:], 0: new})
        shutil.copytree(live, base)

        whole = kills.run(job, day(4))
        assert whole["exit"] == 0
        expected, changes = shop.rows(), shop.changes()
        assert len(changes) == (11 if "changelog" in path else 0)
        assert shop.brief()[1] == "newest"

        chosen = sorted(set(steps(whole["events"]).values()))
        for at in spread(chosen, KILLS):
            restore(base, live)
            assert kills.run(job, day(4), at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, day(4))["exit"] == 0, step
            assert shop.rows() == expected, step
            assert shop.changes() == changes, step
