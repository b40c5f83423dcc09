"""Staged work, page logs, plans and backfills of the last release without a version in digests.

``tests/golden/unversioned/README.md`` says how they were made.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dil import config
from dil.errors import ConfigError
from dil.model.interval import Interval
from dil.model.job import Job
from dil.model.report import RunStatus
from dil.operator.backfill.reading import find_unpublished
from dil.operator.run_history import leftovers
from dil.planning.plan_file import decode_plan
from dil.run.plan_builder import accept_plan
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of
from tests.unit.run.test_page_commit import PAGED

LEFT = Path(__file__).parents[2] / "golden" / "unversioned"
FOLDER, SOURCE = "/tmp/fixture", "http://127.0.0.1:18080"
RECORDED = "3a62728eaa37fd7857308a81e1560b584764245dade3b541a89f3120b8544fe7"


def original() -> Job:
    """Return the job as it was where the fixture was made; its folders are not looked at."""
    return config.load(LEFT / "orders.conf", environ={}).job


@pytest.fixture
def left(story: Story, source: HttpServer) -> Story:
    """Put what the release left into the folder of a story."""
    _, legacy_digest = story.job(**PAGED).known_digests
    shutil.copytree(LEFT, story.folder, dirs_exist_ok=True)
    for path in (path for path in story.folder.rglob("*") if path.suffix in (".json", ".sql")):
        lines = path.read_text().splitlines(keepends=True)
        text = "".join(
            # Live files are those of the blocks, whose hashes cover the folder of then.
            line if "live_file" in line else line.replace(FOLDER, str(story.folder))
            for line in lines
        )
        path.write_text(text.replace(SOURCE, source.url).replace(RECORDED, legacy_digest))
    (story.folder / "state").mkdir()
    with closing(sqlite3.connect(story.folder / "state" / "state.db")) as database:
        database.executescript((story.folder / "state.sql").read_text())
    return Story(story.folder, source, **PAGED)


def test_the_release_recorded_what_is_computed_for_its_job_now() -> None:
    # The other tests replace the recorded digest, because it covers folder and address.
    assert original().known_digests[1] == RECORDED
    for path in LEFT.rglob("result.json"):
        assert f'"digest":"{RECORDED}"' in path.read_text()


def test_complete_work_units_are_adopted_and_an_incomplete_one_goes_on(
    left: Story, source: HttpServer
) -> None:
    report = left.run(day(3), run_id="run-3")

    assert report.status is RunStatus.SUCCESS
    assert (report.units.planned, report.units.adopted) == (4, 3)
    assert [dict(entry.query).get("cursor") for entry in source.requests] == ["c6"]
    assert left.rows() == ids_of("a", "b", days=range(3))
    assert left.head() is not None
    assert left.staged() == []


def test_what_is_recorded_from_now_on_has_a_version(left: Story) -> None:
    left.run(day(3), run_id="run-3")
    with left.store() as store:
        recorded = {run.run_id: run.digest for run in store.runs()}

    assert recorded["run-3"] == left.job().digest
    assert recorded["run-3"].startswith("2:")


def test_staged_work_of_another_configuration_is_read_again(
    left: Story, source: HttpServer
) -> None:
    report = left.run(day(3), left.job(ms__work__unit__min__records="1"), run_id="run-3")

    assert report.status is RunStatus.SUCCESS
    assert report.units.adopted == 0
    assert source.count("/records", unit="a", since=str(day(1))) == 2
    assert len(source.requests) == 8
    assert left.rows() == ids_of("a", "b", days=range(3))


def test_operators_see_whether_the_next_run_can_use_what_is_staged(left: Story) -> None:
    with left.store() as store:
        (of_this,) = leftovers(left.job(), store)
        (of_other,) = leftovers(left.job(ms__work__unit__min__records="1"), store)

    assert (of_this.complete, of_this.reusable) == (3, True)
    assert (of_other.complete, of_other.reusable) == (3, False)


def test_a_kept_plan_is_run(left: Story, source: HttpServer) -> None:
    saved = decode_plan((LEFT / "plan.json").read_bytes(), "plan.json")
    with left.store() as store:
        plan = accept_plan(original(), store, day(3), saved)
    assert len(plan.work_units) == 4

    report = left.run(
        day(3), plan=replace(saved, digest=left.job().known_digests[1]), run_id="run-3"
    )

    assert (report.status, report.units.adopted) == (RunStatus.SUCCESS, 3)
    assert len(source.requests) == 1


def test_a_kept_plan_of_another_configuration_is_refused(left: Story) -> None:
    saved = decode_plan((LEFT / "plan.json").read_bytes(), "plan.json")
    with left.store() as store, pytest.raises(ConfigError, match="another configuration"):
        accept_plan(left.job(), store, day(3), saved)


def test_a_backfill_that_was_begun_goes_on(left: Story) -> None:
    window = Interval(day(0), day(1))
    found = find_unpublished(left.job(), window, (), lambda: left.clock)
    other = find_unpublished(
        left.job(ms__work__unit__min__records="1"), window, (), lambda: left.clock
    )

    assert found is not None
    assert found.id == "20220927T000000Z-5c7b63"
    assert other is None
