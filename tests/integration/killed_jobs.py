"""Kill -9 between any two steps of a run that publishes to a store, then run again.

The place holds what the uninterrupted run's would: no file is there by half, and none twice. A move
in an object store is a copy and a deletion, and a kill may come between the two.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.places import MODES, ids, listed, on_place, visible
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset, generated_row
from tests.stories import STEP_MS, day, ids_of
from tests.torture.kills import JOB_SERVER, KillServer, restore, spread, steps

# The short form kills at a few steps of each path; the long form (make torture) at all.
KILLS = max(int(os.environ.get("DIL_KILLS", "14")) // 7, 1)
HERE = "state on this machine"
_SUCCESSFUL = {**MODES["append"], "job__commit__policy": "successful"}
_PATHS = {
    "append": MODES["append"],
    "append, keep successes": _SUCCESSFUL,
    f"append, {HERE}, keep successes": _SUCCESSFUL,
    f"replace, {HERE}": MODES["replace"],
    "window replace": MODES["window replace"],
    f"window replace, {HERE}": MODES["window replace"],
}


@contextmanager
def kill_server(
    use: Callable[[pytest.MonkeyPatch], None], program: Path = JOB_SERVER
) -> Iterator[KillServer]:
    """Start what runs and kills jobs, with the environment that ``use`` sets."""
    with pytest.MonkeyPatch.context() as patch:
        use(patch)
        with KillServer(program) as server:
            yield server


def chosen(events: list[str]) -> list[int]:
    """Return the steps at which to kill: of all, or some evenly spread."""
    numbers = sorted(set(steps(events).values()))
    return spread(numbers, KILLS)


def check_kills(place: Any, path: str, folder: Path, kills: KillServer) -> None:
    """Check that the place holds what the uninterrupted run's would, whenever it is killed.

    Args:
        place: New, with ``uri``, ``objects``, ``keys`` and ``restore``.
        path: How to publish, and where the state is, which is in the place unless it is ``HERE``.
        folder: Empty.
        kills: Runs the jobs, with the environment that reaches the place.
    """
    here, settings = folder / "job", on_place(place, **_PATHS[path])
    if HERE in path:
        settings = {k: v for k, v in settings.items() if not k.startswith("state")}
    with HttpServer(Dataset.generate(12, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(here, source.url, **settings)
        assert kills.run(job, day(1))["exit"] == 0
        assert ids(place, visible(place)) == ids_of("a", "b", days=range(1))
        expected = ids_of("a", "b", days=range(2))
        if "append" not in path:
            source.dataset.extend([generated_row("a", 100_000, day(0) + 1000)])
            expected["a", 100_000] = 1
        before = place.objects()
        restore(here, folder / "before")

        whole = kills.run(job, day(2))
        assert whole["exit"] == 0
        assert ids(place, visible(place)) == expected

        for at in chosen(whole["events"]):
            place.restore(before)
            restore(folder / "before", here)
            assert kills.run(job, day(2), at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, day(2))["exit"] == 0, step
            found = ids(place, visible(place))
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert listed(place) == visible(place), step
