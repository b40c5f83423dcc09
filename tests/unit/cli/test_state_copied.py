"""A job whose state was copied to another store goes on there, and no more with the old one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, StateError
from dil.model.report import RunStatus
from dil.run import job_run
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of


def test_after_a_copy_the_dataset_belongs_to_the_new_store(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source)
    story.run(day(2))
    place = tmp_path / "elsewhere"
    copied = main(["state", "copy", str(tmp_path / "orders.conf"), "--yes",
                   "--to", f"state.store.dir={place}"])  # fmt: skip
    assert copied == 0

    moved = {"state__store__dir": str(place)}
    assert story.run(day(3), story.job(**moved)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))
    with pytest.raises(StateError, match="is an older copy"):
        story.run(day(4), story.job())
    assert story.run(day(4), story.job(**moved)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(4))


def test_after_a_copy_before_the_first_publish_the_advice_helps(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source)
    few = {"ms__work__unit__min__records": "100", "task__maxretries": "0"}
    assert story.run(day(1), story.job(**few)).status is RunStatus.FAILED
    place = tmp_path / "elsewhere"
    copied = main(["state", "copy", str(tmp_path / "orders.conf"), "--yes",
                   "--to", f"state.store.dir={place}"])  # fmt: skip
    assert copied == 0

    moved = {"state__store__dir": str(place)}
    with pytest.raises(ConfigError) as caught:
        story.run(day(1), story.job(**moved))
    (problem,) = caught.value.problems
    (path,) = re.findall(r"published nothing before the copy, also delete (\S+)\.", problem.fix)
    Path(path).unlink()
    assert story.run(day(1), story.job(**moved)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_an_empty_store_is_no_copy(tmp_path: Path, source: HttpServer) -> None:
    story = Story(tmp_path, source)
    story.run(day(2))
    with pytest.raises(ConfigError, match="kept its watermarks in"):
        story.run(day(3), story.job(state__store__dir=str(tmp_path / "empty")))
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_run_that_began_before_the_copy_went_on_appends_nothing(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, source)
    story.run(day(2))
    main(["state", "copy", str(tmp_path / "orders.conf"), "--yes",
          "--to", f"state.store.dir={tmp_path / 'elsewhere'}"])  # fmt: skip
    before, after = story.job(), story.job(state__store__dir=str(tmp_path / "elsewhere"))
    publish = job_run.publish
    statuses: list[RunStatus] = []

    def published(*arguments: Any) -> Any:
        if not statuses:
            statuses.append(RunStatus.FAILED)
            statuses[0] = story.run(day(3), after).status
        return publish(*arguments)

    monkeypatch.setattr(job_run, "publish", published)
    late = story.run(day(3), before)

    assert statuses == [RunStatus.SUCCESS]
    assert late.status is RunStatus.FAILED
    assert "is an older copy" in late.failures[0].error
    assert story.rows() == ids_of("a", "b", days=range(3))
