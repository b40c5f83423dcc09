"""Kill -9 between any two steps of a run that dumps files, then run again: each file whole, once.

The names come back: the second run writes over files of the first one, with other contents.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.dumps import dump_story, dumped, give, listed
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import day
from tests.torture.kills import KillServer, restore, spread, steps

KILLS = int(os.environ.get("DIL_KILLS", "14")) // 2
BEFORE = {"a": b"first a", "in/b": b"first b, which is longer than the second one"}
AFTER = {"a": b"second a, longer", "in/b": b"2nd b", "new/c": b"c" * 100_000}


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_a_dump_killed_at_any_step_and_run_again_holds_exactly_the_files_of_the_source(
    policy: str, tmp_path: Path, kills: KillServer
) -> None:
    base, live = tmp_path / "before", tmp_path / "job"
    with HttpServer(Dataset.generate(1)) as source:
        dump_story(live, source, *AFTER, job__commit__policy=policy).job()
        job = live / "orders.conf"
        for name, body in {**AFTER, **BEFORE}.items():
            give(source, name.replace("/", "%2F"), body)
        assert kills.run(job, day(4))["exit"] == 0
        assert dumped(live) == {**AFTER, **BEFORE}
        for name, body in AFTER.items():
            give(source, name.replace("/", "%2F"), body)
        shutil.copytree(live, base)

        whole = kills.run(job, day(6))
        assert whole["exit"] == 0
        assert dumped(live) == AFTER

        chosen = sorted(set(steps(whole["events"]).values()))
        for at in spread(chosen, KILLS):
            restore(base, live)
            assert kills.run(job, day(6), at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            found = dumped(live)
            wrong = [
                name for name, body in found.items()
                if body not in (AFTER[name], BEFORE.get(name, b""))
            ]  # fmt: skip
            assert wrong == [], f"half a file is visible, {step}"
            assert kills.run(job, day(6))["exit"] == 0, step
            assert dumped(live) == AFTER, step
            assert listed(live) == {name: len(body) for name, body in AFTER.items()}, step
