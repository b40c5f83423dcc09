"""State, staging, session keys and answers are for the job's user; published data is not."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from dil.execution.coordinated import BindAddress, coordinated
from dil.execution.executor import Execution, Watch
from dil.model.report import RunStatus
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.storage.local import LocalFilesystem
from dil.task.group import run_group
from dil.testing.in_process import InProcessExecutor
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, failing


def modes(folder: Path) -> set[str]:
    return {
        f"{'folder' if path.is_dir() else 'file'} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize("kind", ["sqlite", "filelog"])
def test_state_and_staging_are_for_the_user_alone_and_data_is_as_the_umask_says(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    assert os.umask(0o022) == 0o022, "the test is about the usual umask"
    source.faults.append(failing(1, "a"))
    facts = {"state__store__type": kind, "ms__state__cursor__commit": "page"}
    story = Story(tmp_path, source, **facts)

    assert story.run(day(2)).status is RunStatus.FAILED

    assert modes(tmp_path / "state") == {"folder 700", "file 600"}
    assert modes(tmp_path / "lake" / "_staging") == {"folder 700", "file 600"}
    source.faults.clear()
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert modes(tmp_path / "state") == {"folder 700", "file 600"}
    assert modes(tmp_path / "lake" / "shop") == {"folder 755", "file 644"}


class OneTask(InProcessExecutor):
    """Runs all work units in one task, which keeps their results in a log."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        del watch
        with coordinated(run, BindAddress()) as shared:
            return Execution(tuple(run_group(shared.run, units)))


def test_staging_that_work_units_share_is_for_the_user_alone(
    tmp_path: Path, source: HttpServer
) -> None:
    source.faults.append(failing(1, "a"))
    story = Story(tmp_path, source)

    assert story.run(day(2), executor=OneTask()).status is RunStatus.FAILED

    assert any(path.suffix == ".parquet" for path in story.staged())
    assert any(path.suffix == ".jsonl" for path in story.staged())
    assert modes(tmp_path / "lake" / "_staging") == {"folder 700", "file 600"}
    source.faults.clear()
    assert story.run(day(2), executor=OneTask()).status is RunStatus.SUCCESS
    assert modes(tmp_path / "lake" / "shop") == {"folder 755", "file 644"}


def test_what_is_written_for_a_later_sync_is_as_private_as_anything_else(tmp_path: Path) -> None:
    for path in ("_staging/a", "plain"):
        with LocalFilesystem().deferring().open_output(str(tmp_path / path)) as stream:
            stream.write(b"1")
    with LocalFilesystem(is_private=True).deferring().open_output(str(tmp_path / "own")) as stream:
        stream.write(b"1")
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert found == {"_staging": 0o700, "a": 0o600, "plain": 0o644, "own": 0o600}


def test_what_the_job_says_of_modes_holds_for_published_data(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source, writer__file__permissions="640", writer__dir__permissions="750")
    assert story.run(day(1)).status is RunStatus.SUCCESS
    files = [*(tmp_path / "lake" / "shop").rglob("*.parquet")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o640}


def test_records_of_requests_are_for_the_user_alone(tmp_path: Path, source: HttpServer) -> None:
    story = Story(tmp_path, source, ms__audit__enabled="true")
    assert story.run(day(1)).status is RunStatus.SUCCESS
    (audit,) = tmp_path.rglob("_audit")
    assert modes(audit) == {"folder 700", "file 600"}
