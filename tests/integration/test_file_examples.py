"""The jobs of conf/examples/files, run in this process."""

import csv
import gzip
import runpy

import pyarrow.parquet as pq

from dil import config
from dil.model.report import RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import ROOT, visible_files
from tests.stories import executor

FOLDER = ROOT / "conf" / "examples" / "files"
WEATHER = ROOT / "conf" / "examples" / "custom_connector" / "weather.csv"
NOW_MS = 1_767_225_600_000


def rows_of(name, folder):
    """Run a job; return its rows."""
    places = {"data.publisher.final.dir": folder / "lake", "state.store.dir": folder / "state"}
    overrides = {key: str(place) for key, place in places.items()}
    job = config.load(FOLDER / name, overrides=overrides, environ={}).job
    options = RunOptions(now_ms=NOW_MS, clock=lambda: NOW_MS, executor=executor(), run_id="r1")
    assert run_job(job, options).status is RunStatus.SUCCESS
    return [row for file in visible_files(folder) for row in pq.read_table(file).to_pylist()]


def published(name, folder):
    """Run a job; return its rows as (station, hour, temperature)."""
    return [
        (row["origin"], f"{row['time_hour']:%Y-%m-%dT%H:%M:%SZ}", row["temp"])
        for row in rows_of(name, folder)
    ]


def weather(*days):
    with WEATHER.open(encoding="utf-8", newline="") as file:
        return sorted(
            (row["origin"], row["time_hour"], float(row["temp"]))
            for row in csv.DictReader(file)
            if not days or row["time_hour"][:10] in days
        )


def test_the_csv_example_reads_three_days_of_packed_files(tmp_path):
    found = published("csv.conf", tmp_path)
    assert sorted(found) == weather("2013-01-02", "2013-01-03", "2013-01-04")


def test_the_parquet_example_reads_three_columns_of_the_archive(tmp_path):
    found = published("parquet.conf", tmp_path)
    assert sorted(found) == weather()


def test_the_jsonpath_example_finds_readings_of_all_stations(tmp_path):
    rows = rows_of("jsonpath.conf", tmp_path)
    found = [(row["origin"], row["temp"], row["stations"], row["flag"]) for row in rows]
    assert sorted(found) == [("EWR", 28.04, 2, "measured"), ("LGA", 30.02, 2, "unknown")]


def test_the_files_are_those_that_the_script_makes(tmp_path, monkeypatch):
    script = runpy.run_path(str(FOLDER / "make_files.py"))
    (tmp_path / "files").mkdir()
    (tmp_path / "custom_connector").symlink_to(WEATHER.parent)
    monkeypatch.setitem(script["main"].__globals__, "HERE", tmp_path / "files")
    script["main"]()
    made = sorted(path.relative_to(tmp_path / "files") for path in tmp_path.rglob("*.csv.gz"))
    assert made == sorted(path.relative_to(FOLDER) for path in FOLDER.rglob("*.csv.gz"))
    for name in made:
        new, old = (folder / name for folder in (tmp_path / "files", FOLDER))
        assert gzip.decompress(new.read_bytes()) == gzip.decompress(old.read_bytes())
