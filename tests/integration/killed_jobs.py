"""Kill -9 between any two steps of a run that publishes to an object store, then run again."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from tests.integration.test_storage_jobs import MODES, ids, listed, on_s3, visible
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset, generated_row
from tests.stories import STEP_MS, day, ids_of
from tests.torture.kills import KillServer, restore, steps

# The short form kills at a few steps of each path; the long form (make torture) at all.
KILLS = max(int(os.environ.get("DIL_KILLS", "14")) // 7, 1)


def check_kills(place: Any, mode: str, folder: Path, kills: KillServer) -> None:
    """Check that the place holds what the uninterrupted run's would, whenever it is killed.

    Args:
        place: A new bucket or container, with ``uri``, ``objects``, ``keys`` and ``restore``.
        mode: One of ``MODES``.
        folder: Empty.
        kills: Runs the jobs, with the environment that reaches the place.
    """
    here = folder / "job"
    with HttpServer(Dataset.generate(12, units=("a", "b"), step_ms=STEP_MS)) as source:
        job = write_job(here, source.url, **on_s3(place, **MODES[mode]))
        assert kills.run(job, day(1))["exit"] == 0
        expected = ids_of("a", "b", days=range(2))
        if mode != "append":
            source.dataset.extend([generated_row("a", 100_000, day(0) + 1000)])
            expected["a", 100_000] = 1
        before = place.objects()
        restore(here, folder / "before")
        whole = kills.run(job, day(2))
        assert whole["exit"] == 0
        assert ids(place, visible(place)) == expected

        numbers = sorted(set(steps(whole["events"]).values()))
        for at in numbers[:: max(1, len(numbers) // KILLS)]:
            place.restore(before)
            restore(folder / "before", here)
            assert kills.run(job, day(2), at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, day(2))["exit"] == 0, step
            found = ids(place, visible(place))
            assert found - expected == Counter(), f"doubled, {step}"
            assert expected - found == Counter(), f"lost, {step}"
            assert listed(place) == visible(place), step
