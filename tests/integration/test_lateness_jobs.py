"""The lateness meter in jobs: late rows measured in the commit, the grace period that follows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil import config
from dil.cli.main import main
from dil.eventtime.lateness import LATENESS, LatenessMeter
from dil.execution.executor import Execution, Watch
from dil.model.job import Job
from dil.model.report import RunReport, RunStatus
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.plan_builder import plan_job
from dil.state import open_store
from tests.integration.local_jobs import NOW
from tests.jobs import visible_files
from tests.stories import executor
from tests.torture.kills import KillServer, restore, steps

HOUR, DAY = 3_600_000, 86_400_000
START = NOW - 40 * DAY
ROW = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ms", "UTC")), ("note", pa.string())])


class Days:
    """A folder with a file of rows for each day, to which late rows are put, and its job."""

    def __init__(self, folder: Path, **changes: str) -> None:
        self.folder = folder
        self.ids = self.runs = 0
        (folder / "in").mkdir(parents=True)
        self.properties = {
            "job.name": "days",
            "source.class": "hdfs",
            "ms.source.uri": f"{folder / 'in'}/{{{{day}}}}",
            "ms.parameters": json.dumps(
                [
                    {
                        "name": "day", "type": "watermark", "value": "low",
                        "format": "datetime", "pattern": "yyyyMMdd",
                    }
                ]
            ),
            "ms.extractor.class": "parquet",
            "ms.watermark": json.dumps(
                [{"name": "d", "type": "datetime", "range": {"from": "2024-11-22", "to": "P0D"}}]
            ),
            "ms.work.unit.partition": "daily",
            "ms.publish.mode": "window_replace",
            "ms.grace.period.days": "1",
            "ms.event.column": "at",
            "extract.namespace": "lake",
            "extract.table.name": "days",
            "extract.table.type": "APPEND_ONLY",
            "extract.primary.key.fields": "id",
            "ms.timezone": "UTC",
            "writer.output.format": "PARQUET",
            "writer.file.path.type": "namespace_table",
            "data.publisher.final.dir": str(folder / "lake"),
            "state.store.dir": str(folder / "state"),
            "task.maxretries": "0",
            **changes,
        }  # fmt: skip

    def put(self, day: int, *hours: float, note: str = "") -> None:
        """Put rows of a day, by the hours of the day at which they happened."""
        folder = self.folder / "in" / _name(START + day * DAY)
        folder.mkdir(exist_ok=True)
        times = [START + day * DAY + int(hour * HOUR) for hour in hours]
        ids = list(range(self.ids, self.ids + len(times)))
        self.ids += len(times)
        table = pa.table({"id": ids, "at": times, "note": [note] * len(times)}, ROW)
        pq.write_table(table, folder / f"{self.ids:06}.parquet")

    def job(self, **changes: str) -> Job:
        given = {**self.properties, **changes}
        self.path.write_text("".join(f"{name}={value}\n" for name, value in given.items() if value))
        return config.load(self.path, environ={}).job

    @property
    def path(self) -> Path:
        return self.folder / "days.conf"

    def run(self, day: int, **changes: str) -> RunReport:
        """Run the job at the midnight that begins a day."""
        self.runs += 1
        now = START + day * DAY
        options = RunOptions(
            now_ms=now, clock=lambda: NOW, executor=executor(), run_id=f"run-{self.runs}"
        )
        report = run_job(self.job(**changes), options)
        assert report.status is RunStatus.SUCCESS, report.failures
        return report

    def meter(self) -> LatenessMeter:
        job = self.job()
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            members = store.checkpoint(LATENESS)
        return LatenessMeter.of(members) if members else LatenessMeter()

    def last(self) -> dict[int, int]:
        """Return the buckets of the newest commit that had new rows."""
        return dict(self.meter().commits[-1].histogram.rows_by_edge)

    def rows(self) -> list[int]:
        found = [pq.read_table(path) for path in visible_files(self.folder) if "lake" in path.parts]
        return sorted(each for table in found for each in table["id"].to_pylist())


def _name(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y%m%d")


def edge_of(ms: int) -> int:
    """Return the edge of the bucket of a lateness."""
    edges = sorted({-(-(1 << k) * part // 4) for k in range(2, 36) for part in (5, 6, 7, 8)})
    return next(edge for edge in edges if edge >= ms)


@pytest.fixture
def days(tmp_path: Path) -> Days:
    return Days(tmp_path / "job")


def test_rows_that_are_read_again_are_not_new_and_late_ones_are(days: Days) -> None:
    days.put(0, 1, 23)
    days.run(1)
    assert (days.meter().commits, days.meter().largest) == ((), START + 23 * HOUR)
    days.put(1, 2, 22)
    days.put(0, 20)
    days.run(2)
    assert days.rows() == [0, 1, 2, 3, 4]
    # H is 23:00 of day 0: two rows of day 1, and one that came 3 hours behind H.
    assert days.last() == {0: 2, edge_of(3 * HOUR): 1}
    [commit] = days.meter().commits
    assert (commit.grace_ms, commit.is_probe) == (DAY, False)
    assert commit.largest_after == START + DAY + 22 * HOUR
    assert days.meter().runs_since_probe == 2
    days.put(2, 1)
    days.run(3)
    assert days.last() == {0: 1}


def test_without_a_key_rows_are_told_apart_by_all_values_and_counted(days: Days) -> None:
    """A corrected row is another one; the second of two equal rows is new where one was there."""
    days.properties["extract.primary.key.fields"] = ""
    days.put(0, 23, note="a")
    days.run(1)
    days.put(1, 23, note="b")
    twin = days.folder / "in" / _name(START) / "twin.parquet"
    shutil.copy(next((days.folder / "in" / _name(START)).iterdir()), twin)
    days.put(0, 21, 22, note="c")
    days.run(2)
    assert days.rows() == [0, 0, 1, 2, 3]
    assert days.last() == {0: 2, edge_of(HOUR): 1, edge_of(2 * HOUR): 1}


@pytest.mark.parametrize("form", ["AVRO", "JSON", "CSV", "ORC"])
def test_what_was_published_is_read_back_in_each_format(days: Days, form: str) -> None:
    keyless = {"writer.output.format": form, "extract.primary.key.fields": ""}
    days.properties.update(keyless)
    days.put(0, 1.5, 23, note="x")
    days.run(1)
    days.put(1, 23)
    days.put(0, 20)
    days.run(2)
    assert days.last() == {0: 1, edge_of(3 * HOUR): 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"ms.publish.mode": "append"},
        {"ms.publish.mode": "replace", "ms.grace.period.days": "40"},
        {"ms.table.format": "delta"},
        {"ms.table.format": "iceberg"},
        {"writer.merge.small.units": "true", "ms.grace.period.days": "3"},
        {"ms.publish.mode": "merge"},
    ],
)
def test_each_way_of_publishing_is_measured_alike(days: Days, changes: dict[str, str]) -> None:
    days.properties.update(changes)
    days.put(0, 1, 23)
    days.run(1)
    days.put(1, 2, 22)
    days.put(0, 20)
    days.run(2)
    assert days.last() == {0: 2, edge_of(3 * HOUR): 1}
    days.put(2, 1)
    days.put(1, 21)
    days.run(3)
    assert days.last() == {0: 1, edge_of(HOUR): 1}


@pytest.mark.parametrize("form", ["PARQUET", "AVRO", "JSON", "CSV", "ORC"])
@pytest.mark.parametrize("mode", ["window_replace", "append"])
def test_rows_that_were_put_beside_the_dataset_are_not_new_when_they_are_read_again(
    days: Days, form: str, mode: str
) -> None:
    days.properties |= {
        "ms.event.watermark": "bounded", "ms.event.delay": "PT1H", "ms.late.action": "side_table",
        "ms.grace.period.days": "3", "writer.output.format": form, "ms.publish.mode": mode,
        "extract.primary.key.fields": "",
    }  # fmt: skip
    days.put(0, 1, 23)
    days.run(1)
    days.put(1, 5, -20)
    days.run(2)
    assert len(list((days.folder / "lake" / "lake" / "days_late").iterdir())) == 1
    assert days.last() == {0: 1, edge_of(19 * HOUR): 1}
    days.put(2, 5)
    days.run(3)
    assert days.last() == {0: 1}
    days.put(3, 5)
    days.run(4)
    assert days.last() == {0: 1}


def test_rows_that_cannot_be_compared_make_no_measure(days: Days) -> None:
    """The rows that are known to be new are those in time, and would ask for no grace at all."""
    days.put(0, 1, 23)
    days.run(1)
    days.put(1, 2, 22)
    days.put(0, 20)
    days.properties["extract.primary.key.fields"] = "id,missing"
    days.run(2)
    assert (days.meter().commits, days.meter().runs_since_probe) == ((), 2)
    assert days.meter().largest == START + DAY + 22 * HOUR


def test_a_backfill_says_nothing_and_a_run_without_new_rows_is_a_run(days: Days) -> None:
    days.put(0, 1, 23)
    days.run(1)
    days.put(0, 2)
    days.run(1, **{"ms.backfill": "true"})
    assert (days.meter().commits, days.meter().runs_since_probe) == ((), 1)
    days.run(1)
    assert (days.meter().commits, days.meter().runs_since_probe) == ((), 2)


def test_an_auto_job_reads_back_by_what_it_measured_and_the_14th_run_probes(
    days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    days.properties |= {
        "ms.grace.mode": "auto", "ms.grace.max": "P9D", "ms.grace.period.days": "4",
    }  # fmt: skip
    for day in range(8):
        days.put(day, *(n * 24 / 1500 for n in range(1500)))
        if day >= 2:
            days.put(day - 2, *(12 + n / 100 for n in range(3)))
        before = plan_job(days.job(), now_ms=START + (day + 1) * DAY)
        assert len(before.plan.work_units) == min(day + 1, 5)
        assert "as configured" in str(before.plan.grace_why)
        days.run(day + 1)
    # The first commit is what later rows are compared with: 7 commits of 1,500 rows and more.
    saved = plan_job(days.job(), now_ms=START + 9 * DAY)
    assert saved.plan.grace_ms == 2 * DAY
    assert len(saved.plan.work_units) == 3
    assert saved.plan.grace_why == (
        "grace period P2D: measured, 99.9 % of 10,518 new rows were no further behind; `dil"
        " lateness` shows how far behind they come"
    )
    for day in range(8, 13):
        days.put(day, 1)
        days.run(day + 1)
    assert days.meter().runs_since_probe == 13
    probe = plan_job(days.job(), now_ms=START + 14 * DAY)
    assert (probe.plan.grace_ms, len(probe.plan.work_units)) == (9 * DAY, 10)
    assert "a probe, one run in 14" in str(probe.plan.grace_why)
    days.put(13, 1)
    days.put(6, 1)
    days.run(14)
    assert days.meter().runs_since_probe == 0
    assert days.meter().commits[-1].is_probe
    assert days.last() == {0: 1, edge_of(6 * DAY): 1}
    assert main(["plan", str(days.path), "--now", "2024-12-07T00:00:00Z"]) == 0
    assert "99.9 % of 10,525 new rows were no further behind" in capsys.readouterr().out


def test_a_probe_that_the_limit_cuts_off_counts_when_its_last_run_has_read_the_rest(
    days: Days,
) -> None:
    days.properties |= {
        "ms.grace.mode": "auto", "ms.grace.max": "P5D", "ms.grace.probe.every": "8",
        "ms.work.unit.parallelism.max": "2",
    }  # fmt: skip
    for day in range(7):
        days.put(day, 1)
        days.run(day + 1)
    days.put(2, 2)
    days.put(7, 1)
    read: list[int] = []
    for run in range(3):
        assert days.meter().runs_since_probe == 7 + run
        plan = plan_job(days.job(), now_ms=START + 8 * DAY).plan
        assert "probe" in str(plan.grace_why)
        read += [(unit.partition.low - START) // DAY for unit in plan.work_units]
        days.run(8)
    assert read == [2, 3, 4, 5, 6, 7]
    meter = days.meter()
    assert (meter.runs_since_probe, meter.rest) == (0, None)
    assert [each.is_probe for each in meter.commits[-2:]] == [False, True]
    assert "probe" not in str(plan_job(days.job(), now_ms=START + 9 * DAY).plan.grace_why)


def test_every_run_is_a_probe_where_each_run_of_one_is(days: Days) -> None:
    auto = {"ms.grace.mode": "auto", "ms.grace.max": "P6D", "ms.grace.probe.every": "1"}
    days.properties.update(auto)
    for day in range(4):
        days.put(day, 1)
        assert "a probe" in str(plan_job(days.job(), now_ms=START + (day + 1) * DAY).plan.grace_why)
        days.run(day + 1)
        assert days.meter().runs_since_probe == 0
    assert [each.is_probe for each in days.meter().commits] == [True] * 3


def test_a_run_that_is_killed_anywhere_counts_no_row_twice(days: Days) -> None:
    """What it staged is adopted with its measure; what it published is not measured again."""
    days.put(0, 1, 23)
    days.run(1)
    days.put(1, 2, 22)
    days.put(0, 20)
    now = START + 2 * DAY
    before, work = days.folder.with_name("before"), days.folder
    days.job()
    shutil.copytree(work, before)
    adopted = 0
    with KillServer() as kills:
        whole = kills.run(days.path, now)
        assert whole["exit"] == 0
        rows, meter = days.rows(), days.meter()
        assert dict(meter.commits[-1].histogram.rows_by_edge) == {0: 2, edge_of(3 * HOUR): 1}
        numbers = sorted(set(steps(whole["events"]).values()))
        for at in numbers[:: max(1, len(numbers) // 14)]:
            restore(before, work)
            assert kills.run(days.path, now, at)["killed"], at
            staged = list((days.folder / "lake").rglob("result*.json*"))
            adopted += bool(staged)
            assert kills.run(days.path, now)["exit"] == 0
            found = days.meter()
            assert days.rows() == rows, whole["events"][at]
            assert (found.commits, found.largest) == (meter.commits, meter.largest)
            # The second run, too, reads the days again that are within the grace period.
            assert found.runs_since_probe - meter.runs_since_probe in {0, 1}
    assert adopted


class Crash(BaseException):
    """The driver is gone."""


class CrashingExecutor:
    """Runs all work units, then crashes before anything is published."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        executor().execute(run, units, watch)
        raise Crash


def test_staged_work_is_adopted_with_the_measure_that_it_was_staged_with(days: Days) -> None:
    days.put(0, 1, 23)
    days.run(1)
    days.put(1, 2, 22)
    days.put(0, 20)
    now = START + 2 * DAY
    options = RunOptions(
        now_ms=now, clock=lambda: NOW, executor=CrashingExecutor(), run_id="crashed"
    )
    with pytest.raises(Crash):
        run_job(days.job(), options)
    report = days.run(2)
    assert report.units.adopted == 1  # what the grace period reads again is read anew
    assert days.last() == {0: 2, edge_of(3 * HOUR): 1}
    assert len(days.meter().commits) == 1


def test_a_job_that_never_reads_back_gets_no_recommendation(
    days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    days.properties["ms.grace.period.days"] = "0"
    _week(days)
    assert json.loads(shown(days, capsys, "--json"))["recommended"] is None
    assert "no run read back, so no run could see rows that came behind" in shown(days, capsys)


def shown(days: Days, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    days.job()
    assert main(["lateness", str(days.path), *more]) == 0
    return capsys.readouterr().out


def test_the_command_shows_the_measure_the_costs_and_a_recommendation(
    days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    days.properties |= {"ms.grace.period.days": "4", "ms.grace.max": "P5D"}
    empty = json.loads(shown(days, capsys, "--json"))
    assert empty == {
        "rows": 0,
        "histogram": [],
        "grace": [{"days": n, "missed": 0, "reread_rows": 0} for n in range(6)],
        "recommended": None,
    }
    assert "nothing is measured yet" in shown(days, capsys)
    _week(days)
    found = json.loads(shown(days, capsys, "--json"))
    edge = edge_of(36 * HOUR)
    assert found["rows"] == 10_521
    assert found["histogram"] == [{"le_ms": 0, "rows": 10_500}, {"le_ms": edge, "rows": 21}]
    assert [each["days"] for each in found["grace"]] == [0, 1, 2, 3, 4, 5]
    assert [each["missed"] for each in found["grace"]] == [21, 21, 0, 0, 0, 0]
    assert found["grace"][2]["reread_rows"] == pytest.approx(2 * 7 * 1503, rel=0.01)
    assert found["recommended"] == 2
    text = shown(days, capsys)
    assert "10,521 new rows in 7 commits" in text
    assert "Recommended: P2D." in text
    assert "ms.grace.mode=auto" in text
    assert "No run read back further than P4D" in text
    lines = text.splitlines()
    assert lines.index(next(each for each in lines if "Recommended: P2D." in each)) < 4
    costs = [each.split(" day")[0].strip() for each in lines if " day" in each and "  " in each]
    assert costs[-3:] == ["0", "1", "2"], "longer grace periods miss nothing either"
    less = json.loads(shown(days, capsys, "--json", "-D", "ms.grace.quantile=0.99"))
    assert less["recommended"] == 0


def _week(days: Days) -> None:
    """Eight days of 1,500 rows, each from the second on with 3 rows of the day before it, late."""
    for day in range(8):
        days.put(day, *(n * 24 / 1500 for n in range(1500)))
        if day >= 1:
            # H is the last row of the day before: its midnight less 24 h / 1500.
            days.put(day - 1, *(-12.1 + n / 1000 for n in range(3)))
        days.run(day + 1)


def test_too_little_is_said_and_so_is_a_job_without_event_column(
    days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    days.put(0, 1)
    days.run(1)
    days.put(1, 1)
    days.run(2)
    text = shown(days, capsys)
    assert "Nothing is recommended yet: 1 of 10,000 new rows, in 1 of 7 commits" in text
    assert len(text.splitlines()) < 12
    assert json.loads(shown(days, capsys, "--json"))["recommended"] is None
    days.job(**{"ms.event.column": ""})
    assert main(["lateness", str(days.path)]) == 2
    assert "ms.event.column is not set" in capsys.readouterr().err
