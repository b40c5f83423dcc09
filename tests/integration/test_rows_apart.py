"""System columns, folders by column and by timelabel: from the source to the published row."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dil import config
from dil.model.report import RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import ROOT, dataset, properties, visible_files, write_job
from tests.servers.rows import DAY_MS, START_MS, generated_row
from tests.stories import Story, day, executor, failing, ids_of
from tests.torture.kills import restore, spread, steps

KILLS = int(os.environ.get("DIL_KILLS", "4"))
HOURLY = {
    "ms__publish__layout": "timelabel",
    "ms__timelabel__schedule": "@hourly",
    "ms__timelabel__column": "updated_ms",
}
SYSTEM = "_dil_run_id,_dil_signature,_dil_extracted_at,_timelabel"


def label_of(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y%m%d%H}0000"


def manifest_files(folder: Path) -> list[Path]:
    """Return what a reader of the newest manifest sees; URIs quote what folders are named by."""
    meta = dataset(folder) / "_dil"
    hint = json.loads((meta / "current.json").read_text())
    manifest = json.loads((meta / hint["manifest"]).read_text())
    return sorted(path_of(file["uri"]) for file in manifest["files"])


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))


def folder_label(path: Path, root: Path) -> str:
    """Return the label that a file's folder tells."""
    parts = [part for part in path.relative_to(root).parts if "=" in part][:5]
    assert [part[:2] for part in parts] == ["y=", "m=", "d=", "h=", "n="]
    return "".join(part[2:] for part in parts) + "00"


def labelled(folder: Path) -> Counter:
    """Count rows by unit and id; each is in the folder of its own hour."""
    found: Counter = Counter()
    for path in visible_files(folder):
        table = pq.ParquetFile(path).read(["unit", "id", "updated_ms"]).to_pylist()
        label = folder_label(path, dataset(folder))
        assert {label_of(row["updated_ms"]) for row in table} == {label}
        found.update((row["unit"], row["id"]) for row in table)
    return found


def by_unit(folder: Path) -> Counter:
    """Count rows by unit and id, the unit as the folders tell it."""
    files = list(map(str, visible_files(folder)))
    hive = ds.partitioning(pa.schema([("unit", pa.string())]), flavor="hive")
    base = str(dataset(folder))
    table = ds.dataset(files, partitioning=hive, partition_base_dir=base).to_table(["unit", "id"])
    assert all("unit" not in pq.read_schema(file).names for file in files)
    return Counter(zip(table["unit"].to_pylist(), table["id"].to_pylist(), strict=True))


def test_rows_of_a_work_unit_are_in_the_folders_of_their_labels(tmp_path, source):
    story = Story(tmp_path, source, **HOURLY, ms__publish__mode="window_replace")
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert labelled(tmp_path) == ids_of("a", "b", days=range(2))

    files = story.manifest()["files"]
    assert {file["timelabel"] for file in files} == {
        folder_label(path_of(file["uri"]), dataset(tmp_path)) for file in files
    }


def test_reading_a_label_again_replaces_its_files(tmp_path, source):
    changes = {**HOURLY, "ms__publish__mode": "window_replace", "ms__grace__period__days": "2"}
    story = Story(tmp_path, source, **changes)
    story.run(day(2))
    before = set(visible_files(tmp_path))
    source.dataset.extend([generated_row("a", 1000, day(1) + 1)])
    assert story.run(day(3)).status is RunStatus.SUCCESS

    assert labelled(tmp_path) == ids_of("a", "b", days=range(3)) + Counter({("a", 1000): 1})
    assert manifest_files(tmp_path) == visible_files(tmp_path)
    assert not before & set(visible_files(tmp_path))


def test_a_work_unit_that_spans_labels_is_split_by_the_watermarks_column(tmp_path, source):
    watermark = [{"name": "updated_ms", "type": "datetime",
                  "range": {"from": "2020-01-01", "to": "P0D"}},
                 {"name": "unit", "type": "unit", "units": "a,b"}]  # fmt: skip
    changes = {**HOURLY, "ms__watermark": json.dumps(watermark)}
    del changes["ms__timelabel__column"]
    story = Story(tmp_path, source, **changes)
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert labelled(tmp_path) == ids_of("a", "b", days=range(2))


def test_a_work_unit_that_keeps_its_progress_has_the_last_label_that_it_touches(tmp_path, source):
    watermark = [
        {"name": "updated_ms", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}},
        {"name": "unit", "type": "unit", "units": "a,b"},
    ]
    changes = {
        **HOURLY,
        "ms__watermark": json.dumps(watermark),
        "ms__state__cursor__commit": "page",
    }
    del changes["ms__timelabel__column"]
    story = Story(tmp_path, source, **changes)
    assert story.run(day(1)).rows == 8
    folders = {folder_label(path, dataset(tmp_path)) for path in visible_files(tmp_path)}
    assert folders == {label_of(day(1) - 3_600_000)}


def test_a_work_unit_within_a_label_is_not_split(tmp_path, source):
    changes = {"ms__publish__layout": "timelabel", "ms__timelabel__schedule": "@daily"}
    story = Story(tmp_path, source, **changes)
    story.run(day(2))
    folders = {folder_label(path, dataset(tmp_path)) for path in visible_files(tmp_path)}
    assert folders == {label_of(day(0)), label_of(day(1))}
    assert len(visible_files(tmp_path)) == 4


def test_rows_are_in_folders_of_their_columns(tmp_path, source):
    story = Story(tmp_path, source, ms__table__partition__fields="unit")
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert by_unit(tmp_path) == ids_of("a", "b", days=range(2))
    assert {path.parent.name for path in visible_files(tmp_path)} == {"unit=a", "unit=b"}


def test_folders_of_columns_are_below_those_of_labels(tmp_path, source):
    story = Story(
        tmp_path,
        source,
        ms__publish__layout="timelabel",
        ms__timelabel__schedule="@daily",
        ms__table__partition__fields="unit",
    )
    story.run(day(1))
    assert [
        str(path.parent.relative_to(dataset(tmp_path))) for path in visible_files(tmp_path)
    ] == [
        "y=2020/m=01/d=01/h=00/n=00/unit=a",
        "y=2020/m=01/d=01/h=00/n=00/unit=b",
    ]


def test_what_is_kept_apart_in_staging_is_adopted_with_its_folders(tmp_path, source):

    story = Story(tmp_path, source, ms__table__partition__fields="unit")
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).status is RunStatus.FAILED
    assert visible_files(tmp_path) == []
    source.faults.clear()
    report = story.run(day(2))
    assert report.units.adopted == 3
    assert by_unit(tmp_path) == ids_of("a", "b", days=range(2))


@pytest.mark.parametrize("contract", ["evolve", "freeze", "discard_row", "discard_value"])
def test_system_columns_tell_where_rows_come_from_and_break_no_contract(tmp_path, source, contract):
    story = Story(
        tmp_path,
        source,
        ms__output__schema="",
        ms__schema__contract=contract,
        ms__output__system__columns=SYSTEM,
        ms__timelabel__schedule="@daily",
    )
    for number in (1, 2):
        report = story.run(day(number))
        assert (report.status, report.aside.rows) == (RunStatus.SUCCESS, 0)
    rows = [row for path in visible_files(tmp_path) for row in pq.read_table(path).to_pylist()]
    assert Counter((row["unit"], row["id"]) for row in rows) == ids_of("a", "b", days=range(2))
    for row in rows:
        number = (row["updated_ms"] - START_MS) // DAY_MS
        assert row["_dil_run_id"] == f"run-{number + 1}"
        assert row["_timelabel"] == label_of(day(number))
        assert f"system.{day(number)}" in row["_dil_signature"]
        assert row["_dil_extracted_at"].tzinfo is not None
    recorded = story.store()
    with recorded as store:
        (block, *more) = store.blocks_of_kind("SetDataSchema")
    assert more == []
    assert "_dil_extracted_at: timestamp[us, tz=UTC]" in block["event"]["schema"]


@pytest.mark.parametrize("kind", ["AVRO", "ORC", "JSON", "CSV"])
def test_every_format_has_system_columns_and_folders(tmp_path, source, kind):
    story = Story(
        tmp_path,
        source,
        writer__output__format=kind,
        ms__table__partition__fields="unit",
        ms__output__system__columns="_dil_run_id,_dil_extracted_at",
    )
    report = story.run(day(2))
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 16)
    assert len(visible_files(tmp_path)) == 4


def test_a_small_target_makes_more_files(tmp_path, source):
    pages = properties(tmp_path, "")["ms.parameters"].replace("100", "1")
    sizes = {"ms__writer__target__bytes": "1", "ms__writer__row__group__rows": "1"}
    story = Story(tmp_path, source, ms__parameters=pages, **sizes)
    story.run(day(1))
    assert story.rows() == ids_of("a", "b", days=range(1))
    assert [pq.read_metadata(path).num_rows for path in visible_files(tmp_path)] == [1] * 8


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_files_are_given_to_the_owner_and_the_group(tmp_path, source):
    story = Story(tmp_path, source, writer__file__owner="nobody", writer__file__group="daemon")
    story.run(day(1))
    assert {(path.owner(), path.group()) for path in visible_files(tmp_path)} == {
        ("nobody", "daemon")
    }


PATHS = {
    "folders by label, window replace": (
        {**HOURLY, "ms__publish__mode": "window_replace", "ms__grace__period__days": "2"},
        labelled,
    ),
    "folders by column, append": ({"ms__table__partition__fields": "unit"}, by_unit),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_run_killed_at_any_step_and_run_again_has_each_row_once_in_its_folder(
    path, tmp_path, source, kills
):
    settings, rows = PATHS[path]
    base, live = tmp_path / "before", tmp_path / "job"
    job = write_job(live, source.url, **settings)
    assert kills.run(job, day(2))["exit"] == 0
    shutil.copytree(live, base)

    whole = kills.run(job, day(4))
    assert whole["exit"] == 0
    expected = ids_of("a", "b", days=range(4))
    assert rows(live) == expected

    chosen = sorted(set(steps(whole["events"]).values()))
    for at in spread(chosen, KILLS):
        restore(base, live)
        assert kills.run(job, day(4), at)["killed"], f"step {at} was never reached"
        step = f"killed at {at}: {whole['events'][at]}"
        assert kills.run(job, day(4))["exit"] == 0, step
        assert rows(live) == expected, step
        assert manifest_files(live) == visible_files(live), step


def test_the_lake_example_puts_each_row_into_the_folder_of_its_day_and_station(tmp_path):
    places = {"data.publisher.final.dir": tmp_path / "lake", "state.store.dir": tmp_path / "state"}
    overrides = {key: str(place) for key, place in places.items()}
    job = config.load(ROOT / "conf/examples/files/lake.conf", overrides=overrides, environ={}).job
    now = day(4000)
    for run_id in ("r1", "r2"):
        options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), run_id=run_id)
        assert run_job(job, options).status is RunStatus.SUCCESS
    found = []
    for path in visible_files(tmp_path):
        for row in pq.ParquetFile(path).read().to_pylist():
            assert f"{row['time_hour']:y=%Y/m=%m/d=%d/h=00/n=00}" in str(path)
            assert row["_dil_run_id"] == "r2"
            station = path.parent.name.removeprefix("origin=")
            found.append((station, f"{row['time_hour']:%Y-%m-%dT%H:%M:%SZ}"))
    weather = ROOT / "conf/examples/custom_connector/weather.csv"
    with weather.open(encoding="utf-8", newline="") as file:
        expected = [(row["origin"], row["time_hour"]) for row in csv.DictReader(file)]
    assert sorted(found) == sorted(expected)
