"""What a run needs besides its source, told before the first row is read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, Problem, WriteError
from dil.model.dataset import PublishedFile
from dil.model.report import RunStatus
from dil.run import preflight
from dil.storage import LocalFilesystem
from tests.integration.gcs_places import Bucket, use
from tests.integration.local_jobs import LocalJob
from tests.servers.gcs import GcsServer

ROWS = '[{"id": 1, "day": "a"}, {"id": 2, "day": "b"}]'
HIVE = {"ms__catalog__type": "hive", "ms__catalog__hive__metastore": "thrift://127.0.0.1:1"}


@pytest.fixture
def local(tmp_path: Path) -> LocalJob:
    (tmp_path / "rows.json").write_text(ROWS)
    return LocalJob(
        tmp_path / "job",
        source__class="file",
        ms__source__uri=str(tmp_path / "rows.json"),
        ms__publish__mode="append",
    )


def refused(local: LocalJob, **changes: str) -> Problem:
    """Return the only problem that a run ends with."""
    job = local.job(**changes)
    with pytest.raises(ConfigError) as caught:
        local.run(job)
    (problem,) = caught.value.located(job.properties.origin).problems
    assert problem.origin is not None
    assert problem.origin.path.endswith("rows.conf")
    assert problem.fix
    return problem


def unwritten(local: LocalJob, **changes: str) -> str:
    """Return what a run says that cannot write; it names the line of the job file."""
    job = local.job(**changes)
    with pytest.raises(WriteError) as caught:
        local.run(job)
    assert "Correct the path" in caught.value.fix
    place, _, message = caught.value.message.partition(": ")
    assert "/rows.conf:" in place
    return message


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("data.publisher.final.dir", {}),
        ("ms.audit.dir", {"ms__audit__enabled": "true"}),
        ("ms.catalog.hive.metastore", {"ms__catalog__type": "hive"}),
    ],
)
def test_a_folder_that_cannot_be_made_is_named_with_its_property(
    local: LocalJob, tmp_path: Path, key: str, more: dict[str, str]
) -> None:
    place = tmp_path / "rows.json" / "below"

    told = unwritten(local, **{key.replace(".", "__"): str(place)}, **more)

    assert told == f"{key} is {place}, where {tmp_path / 'rows.json'} is no folder"


def test_a_mount_that_refuses_is_told_as_well(
    local: LocalJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: LocalFilesystem, path: str, **__: object) -> None:
        raise WriteError(f"{path}: Read-only file system")

    monkeypatch.setattr(LocalFilesystem, "make_folder", refuse)
    lake = str(tmp_path / "lake")
    told = unwritten(local, data__publisher__final__dir=lake)
    assert told == (
        f"data.publisher.final.dir is {lake}, which cannot be made: {lake}: Read-only file system"
    )


def test_a_folder_that_this_user_may_not_write(
    local: LocalJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operating system is stood in for: to root it refuses nothing."""
    shut, may = tmp_path / "shut", os.access
    shut.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != shut and may(path, mode))
    why = f"and this user may not make folders in {shut}"
    for lake in (shut / "lake", shut):  # a run also makes folders in a final directory that exists
        told = unwritten(local, data__publisher__final__dir=str(lake))
        assert told == f"data.publisher.final.dir is {lake}, {why}"


def test_an_audit_that_is_not_required_stops_no_run(local: LocalJob, tmp_path: Path) -> None:
    shut = str(tmp_path / "rows.json" / "below")
    audit = {"ms__audit__enabled": "true", "ms__audit__required": "false", "ms__audit__dir": shut}
    assert local.run(local.job(**audit)).status is RunStatus.SUCCESS


def test_check_looks_at_all_places_and_makes_nothing(
    local: LocalJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local.job()
    assert main(["check", str(local.folder / "rows.conf")]) == 0
    assert f"destination: {local.folder}/lake/lake/rows" in capsys.readouterr().out
    assert sorted(path.name for path in local.folder.iterdir()) == ["rows.conf"]

    local.job(state__store__dir=str(tmp_path / "rows.json" / "state"))
    assert main(["check", str(local.folder / "rows.conf")]) == 1
    told = capsys.readouterr().err
    assert "rows.conf:" in told
    assert "state.store.dir is" in told


def test_check_names_what_of_a_destination_it_does_not_look_at(
    local: LocalJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(**changes: str) -> str:
        (line,) = preflight.check_outputs(local.job(**changes), {}, None)
        return line

    assert "not checked" not in told()
    assert told(ms__table__format="iceberg").endswith("rows (not checked: the Iceberg catalog)")
    missing = f"sqlite:///{tmp_path}/rows.db"
    warehouse = told(ms__warehouse__url=missing)
    assert warehouse.endswith("table rows (not checked: the first run makes the file)")
    with GcsServer() as server:
        bucket = Bucket(server)
        use(server.url, monkeypatch)
        away = told(data__publisher__final__dir=f"{bucket.uri}/lake")
        assert not any("POST" in request for request in server.requests)
    assert away.startswith(f"destination: {bucket.uri}/lake/")
    assert away.endswith(f"(not checked: whether this user may write in {bucket.uri}/lake)")


def test_check_tells_of_a_metastore_that_is_down(local: LocalJob) -> None:
    with pytest.raises(WriteError, match=r"thrift://127\.0\.0\.1:1: Connection refused") as caught:
        preflight.check_outputs(local.job(**HIVE), {}, None)
    assert "ms.catalog.hive.metastore" in caught.value.fix


def test_check_connects_to_any_of_several_metastores(local: LocalJob) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        places = f"thrift://127.0.0.1:1,thrift://127.0.0.1:{server.getsockname()[1]}"
        job = local.job(**{**HIVE, "ms__catalog__hive__metastore": places})
        assert any("catalog: Hive" in line for line in preflight.check_outputs(job, {}, None))


def test_without_credentials_of_aws_no_row_is_read(
    local: LocalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    glue = {"ms__catalog__type": "glue"}

    with pytest.raises(ConfigError, match=r"ms\.catalog\.glue\.region is not set"):
        local.run(local.job(**glue))
    problem = refused(local, **glue, ms__catalog__glue__region="eu-central-1")

    assert (problem.key, "has no credentials" in problem.what) == ("ms.catalog.type", True)


def test_a_table_in_a_catalog_has_files_of_one_format(local: LocalJob) -> None:
    local.run()
    problem = refused(local, **HIVE, ms__backfill="true", writer__output__format="ORC")
    assert problem.key == "writer.output.format"
    assert "1 live file of earlier runs is PARQUET" in problem.what


def test_files_that_others_named_say_nothing_of_the_format(
    local: LocalJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = PublishedFile("file:///lake/report.ZIP", "", 0, 1, "", "run", is_dump=True)
    rows = PublishedFile("file:///lake/part-1.parquet", "", 0, 1, "", "run")
    preflight.require_catalog(local.job(**HIVE), [dump, rows])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"writer__output__format": "CSV"}, "1 live file of earlier runs in PARQUET"),
        (
            {"ms__table__partition__fields": "day"},
            "1 live file of earlier runs in folders by nothing, and this run's by day",
        ),
    ],
    ids=["format", "folders"],
)
def test_files_that_cannot_be_read_as_one_dataset_are_told(
    local: LocalJob, tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    again = {"ms__backfill": "true"}
    assert local.run(local.job(**again)).notes == local.run(local.job(**again)).notes

    report = local.run(local.job(**again, **changes))

    (note,) = [note for note in report.notes if note.startswith("MIXED")]
    assert text.replace("1 live file", "2 live files") in note
    whole = local.run(local.job(**again, **changes, ms__publish__mode="replace"))
    assert not [note for note in whole.notes if note.startswith("MIXED")]


def test_a_folder_that_another_run_makes_while_it_is_looked_for_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "made"
    looks = 0
    stat = Path.stat

    def look(path: Path, **how: bool) -> os.stat_result:
        nonlocal looks
        if path == folder:
            looks += 1
            if looks > 1:
                folder.mkdir(exist_ok=True)
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", look)
    assert preflight._unfit(folder / "below") == ""


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
@pytest.mark.parametrize("name", ["absent/rows.db", "."])
def test_a_database_file_that_cannot_be_made_is_refused_by_check_and_run(
    local: LocalJob, tmp_path: Path, capsys: pytest.CaptureFixture[str], scheme: str, name: str
) -> None:
    url = f"{scheme}:///{tmp_path}/{name}"
    assert "ms.warehouse.url is" in unwritten(local, ms__warehouse__url=url)
    assert main(["check", str(local.folder / "rows.conf")]) == 1
    told = capsys.readouterr().err
    assert "rows.conf:" in told
    assert "ms.warehouse.url is" in told
    assert not (tmp_path / "absent").exists()
