"""A job that loads a database owns its table, and no dataset of files."""

from __future__ import annotations

from pathlib import Path

from dil.model.report import RunStatus
from tests.servers.http_server import HttpServer
from tests.stories import Story, day


def test_a_warehouse_job_leaves_the_dataset_of_files_to_others(
    tmp_path: Path, source: HttpServer
) -> None:
    lake = str(tmp_path / "lake")
    loading = Story(
        tmp_path / "loading",
        source,
        job__name="loading",
        data__publisher__final__dir=lake,
        ms__warehouse__url=f"sqlite:///{tmp_path}/shop.db",
    )
    assert loading.run(day(1)).status is RunStatus.SUCCESS
    assert list(Path(lake).rglob("owner.json")) == []

    # One that replaces files there would be refused, if it had an owner.
    files = Story(
        tmp_path / "files",
        source,
        job__name="files",
        data__publisher__final__dir=lake,
        ms__publish__mode="replace",
    )
    assert files.run(day(1)).status is RunStatus.SUCCESS
    assert loading.run(day(2)).status is RunStatus.SUCCESS
