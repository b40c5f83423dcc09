"""Every job file of conf/, and the job of the README, run as a user would run them."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from tests.integration import dil_processes

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "conf" / "demo"
sys.path.insert(0, str(DEMO))

import demo  # noqa: E402 - its folder has to be on the path first
from feed import epoch_ms, load_flights, visible  # noqa: E402
from proof import read_rows  # noqa: E402

# Those of conf/jobs ask services of others: test_jobs_to_copy.py has answers for them.
EXAMPLES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.glob("conf/**/*.conf")
    if path.parent.name != "jobs"
)

# What some of them show has a price, of which validation speaks.
NOTICES = {
    "conf/demo/flights-append.conf": ["ms.grace.period.days"],
    "conf/examples/files/jsonpath.conf": ["ms.derived.fields"],
    "conf/examples/page_number.conf": ["ms.pagination"],
}


@dataclass(frozen=True)
class Dil:
    """The ``dil`` command with the demo's service behind it and all output in one folder."""

    service: demo.Service
    home: Path

    def __call__(self, verb: str, job: str, *arguments: str) -> dict[str, object]:
        """Run one command with ``--json`` and return what it printed."""
        done = dil_processes.dil(*self.words(verb, job, *arguments), environ=self.variables)
        assert done.returncode == 0, done.stderr
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    def words(self, verb: str, job: str, *arguments: str) -> list[str]:
        """Return the arguments of a command whose job writes to the one folder."""
        places = {"data.publisher.final.dir": "lake", "state.store.dir": "state"}
        moved = [f"-D{name}={self.home / place}" for name, place in places.items()]
        return [verb, job, *moved, "--json", *arguments]

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the environment that the examples read."""
        return {"DEMO_API": self.service.address, "DEMO_TOKEN": self.service.token}

    def files(self, table: str) -> list[Path]:
        """Return the published files of one table."""
        return sorted((self.home / "lake" / table).glob("part-*"))


@pytest.fixture(scope="module")
def service() -> Iterator[demo.Service]:
    with demo.running_service() as running:
        yield running


@pytest.fixture
def dil(service: demo.Service, tmp_path: Path) -> Dil:
    service.set_clock(demo.FIRST.now)
    return Dil(service, tmp_path)


@pytest.mark.parametrize("job", EXAMPLES)
def test_every_example_is_valid_and_warns_only_of_what_it_shows(
    dil: Dil, job: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for name, value in dil.variables.items():
        monkeypatch.setenv(name, value)

    assert main(dil.words("validate", job)) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is True
    warnings, notices = answer["warnings"], answer["notices"]
    assert isinstance(warnings, list)
    assert isinstance(notices, list)
    assert [each["property"] for each in [*warnings, *notices]] == NOTICES.get(job, [])


def run_once(dil: Dil, job: str, rows: int, *arguments: str) -> None:
    report = dil("run", job, *arguments)
    assert (report["status"], report["rows"]) == ("success", rows)


@pytest.mark.spark
def test_the_page_number_example_reads_all_airlines_into_json_lines(dil: Dil) -> None:
    run_once(dil, "conf/examples/page_number.conf", 16)

    (path,) = dil.files("airlines")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {"carrier": "UA", "name": "United Air Lines Inc."} in rows
    assert len(rows) == 16


@pytest.mark.spark
def test_the_custom_connector_reads_its_rows_by_day_and_unit(dil: Dil) -> None:
    source = ROOT / "conf/examples/custom_connector/weather.csv"
    with source.open(encoding="utf-8", newline="") as file:
        expected = [row for row in csv.DictReader(file) if row["time_hour"] < "2013-01-04"]

    job = "conf/examples/custom_connector/weather.conf"
    run_once(dil, job, len(expected), "--now", "2013-01-04T12:00:00Z")

    found: list[tuple[str, float]] = []
    for path in dil.files("weather"):
        with path.open(encoding="utf-8", newline="") as file:
            found.extend((row["origin"], float(row["temp"])) for row in csv.DictReader(file))
    assert sorted(found) == sorted((row["origin"], float(row["temp"])) for row in expected)
    assert len(dil.files("weather")) == 9


@pytest.mark.spark
def test_the_append_example_keeps_every_version_of_a_row(dil: Dil) -> None:
    job = "conf/demo/flights-append.conf"
    window = ("-D", "taskexecutor.threadpool.size=2", "--now")
    first = "2013-01-03T09:00:00-05:00"
    second = "2013-01-04T09:00:00-05:00"
    dil.service.set_clock(first)
    dil("run", job, *window, first)
    dil.service.set_clock(second)
    dil("run", job, *window, second)

    paths = dil.files("flights_versions")
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    newest = {row["id"]: row for row in sorted(rows, key=lambda row: row["extracted_at"])}

    midnight = epoch_ms("2013-01-04T00:00:00-05:00")
    expected = visible(load_flights(), low=demo.START, high=midnight, now=epoch_ms(second))
    assert newest.keys() == {record.key for record in expected}
    assert len(rows) > len(newest)


@pytest.mark.spark
def test_the_event_time_example_marks_the_flights_that_arrive_late(dil: Dil) -> None:
    job, mornings = "conf/examples/event-time.conf", (demo.FIRST, demo.SECOND)
    reports = []
    for morning in mornings:
        dil.service.set_clock(morning.now)
        reports.append(dil("run", job, "--now", morning.now))

    low = epoch_ms("2013-01-09T00:00:00-05:00")
    first = [one for one in load_flights() if low <= one.arrival < mornings[0].midnight]
    second = [
        one for one in load_flights() if mornings[0].midnight <= one.arrival < mornings[1].midnight
    ]
    watermark = max(one.event for one in first) - 12 * 3_600_000
    rows = [row for path in dil.files("flights_by_arrival") for row in read_rows([path])]
    assert {row["id"] for row in rows} == {one.key for one in [*first, *second]}
    late = {row["id"]: row["_lateness_ms"] for row in rows if row["_late"]}
    assert late == {one.key: watermark - one.event for one in second if one.event < watermark}
    assert len(late) == reports[1]["events"]["late"] > 0  # type: ignore[index]


@pytest.mark.spark
def test_the_stream_example_publishes_each_file_once(dil: Dil) -> None:
    job, once = "conf/examples/stream/weather.conf", "ms.stream.trigger=available_now"
    plan = dil("plan", job, "-D", once)
    reports = [dil("run", job, "-D", once, "-D", "ms.stream.max.files=4") for _ in range(2)]

    files = len(list((ROOT / "conf/examples/files/incoming").rglob("*.csv*")))
    assert len(plan["work_units"]) == files  # type: ignore[arg-type]
    assert [each["status"] for each in reports] == ["success", "nothing_due"]
    assert reports[0]["notes"][0] == f"{-(-files // 4)} micro-batches"  # type: ignore[index]
    rows = [row for path in dil.files("weather_stream") for row in pq.read_table(path).to_pylist()]
    keys = {(row["origin"], row["time_hour"]) for row in rows}
    assert len(keys) == len(rows) == reports[0]["rows"] > 0


@pytest.mark.spark
def test_the_job_of_the_readme_does_what_the_readme_says(dil: Dil, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```properties\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    job = tmp_path / "airlines.conf"
    job.write_text(text.replace("http://127.0.0.1:8765", dil.service.address), encoding="utf-8")

    run_once(dil, str(job), 16)
    run_once(dil, str(job), 16)

    (path,) = dil.files("airlines")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 16


@pytest.mark.spark
def test_the_demo_proves_that_every_row_landed_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DEMO / "demo.py", "--home", tmp_path / "home"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("missing 0, doubled 0, foreign 0, changed 0") == 3
    assert "marked in the files: 86 of 5,203 rows" in done.stdout
    assert done.stdout.count("  CLOSED  ") == 11


@pytest.mark.spark
def test_the_activation_example_reads_the_airports_that_the_offset_example_found(dil: Dil) -> None:
    run_once(dil, "conf/examples/offset.conf", 1458)

    rows: list[object] = []
    for path in dil.files("airports"):
        with path.open("rb") as file:
            rows.extend(fastavro.reader(file))
    assert len({row["faa"] for row in rows if isinstance(row, dict)}) == 1458

    now = "2013-01-03T12:00:00-05:00"
    dil.service.set_clock(now)

    expected = visible(
        load_flights(),
        low=demo.START,
        high=epoch_ms("2013-01-03T00:00:00-05:00"),
        now=epoch_ms(now),
    )
    run_once(dil, "conf/examples/activation.conf", len(list(expected)), "--now", now)

    (shared,) = dil.files("flights_by_airport")
    ids = pq.read_table(shared)["id"].to_pylist()
    assert len(ids) == len(set(ids)) == len(list(expected))
