"""Kill -9 between any two steps where one work unit's rows leave a file that others share.

An operator withdraws them and takes that back, or a run reads the work unit again: whatever is cut
off, each row is there once in the end, and no row of the others is touched.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.jobs import manifest_files, published_ids, visible_files, write_job
from tests.marks import all_long_but
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset, late_rows
from tests.stories import work_unit
from tests.table_readers import ids, rows_of
from tests.torture.kills import KillServer, restore, spread, steps

HISTORY_SERVER = Path(__file__).parents[1] / "torture" / "history_server.py"
FIRST = int(datetime(2020, 1, 4, tzinfo=UTC).timestamp() * 1000)
SECOND = int(datetime(2020, 1, 6, tzinfo=UTC).timestamp() * 1000)
PER_DAY = 6
# The short form kills at this many steps of each path; the long form (make torture) at more.
KILLS = int(os.environ.get("DIL_KILLS", "5"))
PLACES = {
    "files": {},
    "delta": {"ms__table__format": "delta", "ms__publish__mode": "append"},
    "iceberg": {"ms__table__format": "iceberg", "ms__publish__mode": "append"},
}


@pytest.fixture
def source():
    rows = Dataset.generate(6 * PER_DAY, units=("a", "b"), step_ms=DAY_MS // PER_DAY)
    with HttpServer(rows) as server:
        yield server


def published(place: str, folder: Path) -> Counter:
    if place != "files":
        return ids(rows_of(place, folder))
    assert manifest_files(folder) == visible_files(folder)
    return published_ids(visible_files(folder))


@pytest.mark.parametrize("place", all_long_but(PLACES, "files"))
def test_a_withdrawal_killed_at_any_step_takes_all_rows_or_none(place, tmp_path, source):
    base, live = tmp_path / "before", tmp_path / "job"
    job = write_job(live, source.url, ms__output__file__per__work__unit="false", **PLACES[place])
    chosen = [work_unit(0, "a"), work_unit(2, "b")]
    names = [word for name in chosen for word in ("--signature", name)]
    forget = ["state", "forget", str(job), *names, "--withdraw-files", "--yes"]
    gone = Counter(("a", number) for number in range(PER_DAY))
    gone += Counter(("b", number) for number in range(2 * PER_DAY, 3 * PER_DAY))
    with KillServer(HISTORY_SERVER) as kills:
        assert kills.order(job=str(job), now=FIRST, at=-1)["exit"] == 0
        whole = source.dataset.ids(FIRST)
        assert published(place, live) == whole
        shutil.copytree(live, base)
        calls = kills.order(arguments=forget, at=-1)["calls"]
        assert published(place, live) == whole - gone

        for at in sorted({calls * part // KILLS for part in range(KILLS)}):
            restore(base, live)
            assert kills.order(arguments=forget, at=at)["killed"]
            if place == "files":  # a reader in the middle, who goes by the manifest
                assert published_ids(manifest_files(live)) in (whole, whole - gone)
            # The next run finishes what was begun, and reads what is due then.
            assert kills.order(job=str(job), now=FIRST, at=-1)["exit"] == 0
            assert published(place, live) == whole, f"killed at {at} of {calls}"
            assert kills.order(arguments=forget, at=-1)["exit"] == 0
            assert published(place, live) == whole - gone, f"killed at {at} of {calls}"
            undo = ["state", "undo", str(job), "--yes"]
            assert kills.order(arguments=undo, at=-1)["exit"] == 0
            assert published(place, live) == whole, f"killed at {at} of {calls}"
            verify = kills.order(arguments=["state", "verify", str(job)], at=-1)
            assert verify["exit"] == 0, verify["error"]


def test_a_window_that_is_read_again_leaves_a_compacted_file_at_once(tmp_path, source):
    base, live = tmp_path / "before", tmp_path / "job"
    job = write_job(live, source.url, ms__publish__mode="window_replace")
    with KillServer() as kills, KillServer(HISTORY_SERVER) as commands:
        assert kills.run(job, FIRST)["exit"] == 0
        assert commands.order(arguments=["compact", str(job)], at=-1)["exit"] == 0
        assert len(visible_files(live)) == 3
        # Of the days that were put together the second is read again, and the first is not.
        write_job(live, source.url, ms__publish__mode="window_replace", ms__grace__period__days="2")
        source.dataset.extend(late_rows(START_MS + DAY_MS))
        shutil.copytree(live, base)
        whole = kills.run(job, SECOND)
        assert whole["exit"] == 0
        expected = source.dataset.ids(SECOND)
        assert published("files", live) == expected
        assert len(visible_files(live)) == 9

        chosen = sorted(set(steps(whole["events"]).values()))
        for at in spread(chosen, KILLS):
            restore(base, live)
            assert kills.run(job, SECOND, at)["killed"], f"step {at} was never reached"
            step = f"killed at {at}: {whole['events'][at]}"
            assert kills.run(job, SECOND)["exit"] == 0, step
            assert published("files", live) == expected, step
