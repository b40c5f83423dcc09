"""The jobs of conf/examples/tables, run in this process."""

import csv

import pytest

from dil import config
from dil.model.report import RunStatus
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from tests.jobs import ROOT
from tests.stories import executor
from tests.table_readers import files_of, rows_by_polars, rows_of

FOLDER = ROOT / "conf" / "examples" / "tables"
WEATHER = ROOT / "conf" / "examples" / "custom_connector" / "weather.csv"
NOW_MS = 1_767_225_600_000
DAYS = ("2013-01-02", "2013-01-03", "2013-01-04")


def weather(*days):
    with WEATHER.open(encoding="utf-8", newline="") as file:
        return sorted(
            (row["origin"], row["time_hour"], float(row["temp"]))
            for row in csv.DictReader(file)
            if not days or row["time_hour"][:10] in days
        )


def as_weather(rows):
    return sorted(
        (row["origin"], f"{row['time_hour']:%Y-%m-%dT%H:%M:%SZ}", row["temp"]) for row in rows
    )


@pytest.mark.parametrize(
    ("kind", "table", "expected"),
    [
        ("delta", "weather_delta", weather(*DAYS)),
        ("iceberg", "demo.weather_iceberg", weather()),
    ],
)
def test_the_examples_fill_a_table_that_two_engines_read(kind, table, expected, tmp_path):
    places = {"data.publisher.final.dir": tmp_path / "lake", "state.store.dir": tmp_path / "state"}
    overrides = {key: str(place) for key, place in places.items()}
    job = config.load(FOLDER / f"{kind}.conf", overrides=overrides, environ={}).job
    for number in range(2):
        options = RunOptions(
            now_ms=NOW_MS, clock=lambda: NOW_MS, executor=executor(), run_id=f"r{number}"
        )
        assert run_job(job, options).status in {RunStatus.SUCCESS, RunStatus.NOTHING_DUE}
    assert as_weather(rows_of(kind, tmp_path, table).to_pylist()) == expected
    assert as_weather(rows_by_polars(kind, tmp_path, table).to_dicts()) == expected
    if kind == "delta":
        folders = {path.parent.name for path in files_of(kind, tmp_path, table)}
        assert folders == {"origin=EWR", "origin=JFK", "origin=LGA"}
