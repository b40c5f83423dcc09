"""The report of a run is kept in the state store, and shown with the run."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import PlanningError, PluginFailureError, StateError
from dil.model.json import compact
from dil.model.report import ReportedFailure, RunReport, RunStatus, UnitCounts, UnitRun
from dil.model.secret import Secret
from dil.observe.redaction import redactor
from dil.run import job_run
from dil.run.kept_report import KeptReport, kept_report, kept_unit_runs, run_documents
from dil.state.store.sql_store import SqlStateStore
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, executor, failing, ids_of, work_unit

BROKEN = """
from dil.spi.destination import Destination

class Broken(Destination):
    def __init__(self, context): raise OSError("no such store")
    def uri(self, path): return "broken:" + path
    def carry_out(self, intent): pass
    def has_landed(self, intent): return False
"""


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


def test_the_report_of_a_run_is_kept_and_shown(
    story: Story, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    source.faults.append(failing(0, "a"))
    report = story.run(day(1))
    with story.store() as store:
        kept = kept_report(store, "run-1")
    assert kept is not None
    assert kept.members["status"] == report.status.value
    assert [each.signature for each in kept.failures] == [work_unit(0, "a")]
    assert (kept.requests, kept.retries) == (report.requests, report.retries)
    assert "files" not in kept.members
    job = str(story.folder / "orders.conf")
    capsys.readouterr()
    assert main(["runs", "show", job, "run-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out, parse_float=Decimal)["report"] == kept.members
    assert main(["runs", "show", job, "run-1"]) == 0
    found = f"failure     {work_unit(0, 'a')} from 2020-01-01T00:00:00Z: "
    assert found in capsys.readouterr().out


def test_failures_are_kept_under_the_policy_that_commits_nothing(
    story: Story, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = str(story.folder / "orders.conf")
    source.faults.append(failing(0, "a"))
    report = story.run(day(1))
    assert report.status is RunStatus.FAILED

    def shown() -> list[dict[str, object]]:
        capsys.readouterr()
        assert main(["state", "show", job, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["head"] is None or report.status is RunStatus.SUCCESS
        return found["failures"]

    [failure] = shown()
    assert failure["signature"] == work_unit(0, "a")
    assert (failure["run_id"], failure["code"]) == ("run-1", "DIL-SRC")
    assert failure["attempts"] == 1
    assert "404" in str(failure["error"])
    assert main(["state", "show", job]) == 0
    assert "run run-1, 1 attempt in" in capsys.readouterr().out
    source.faults.clear()
    report = story.run(day(1))
    assert report.status is RunStatus.SUCCESS
    assert shown() == []


def test_a_list_of_runs_says_how_long_each_took_and_why_it_failed(
    story: Story, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = str(story.folder / "orders.conf")
    source.faults.append(failing(0, "a"))
    report = story.run(day(1))
    capsys.readouterr()
    assert main(["runs", "list", job, "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)
    assert run["seconds"] == pytest.approx(report.seconds, abs=1)
    assert (run["failures"], run["codes"]) == (1, ["DIL-SRC"])
    assert main(["runs", "list", job]) == 0
    assert capsys.readouterr().out.rstrip().endswith("DIL-SRC")
    assert main(["runs", "show", job, "run-1", "--json"]) == 0
    failed, good = json.loads(capsys.readouterr().out)["work_units"]
    assert (failed["outcome"], failed["code"]) == ("failed", "DIL-SRC")
    assert (good["outcome"], good["code"], good["attempts"]) == ("succeeded", "", 1)


def test_a_run_that_fails_before_its_tasks_is_recorded_with_its_failure(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PlanningError("the source cannot be listed")

    monkeypatch.setattr("dil.run.job_run.plan", refuse)
    with pytest.raises(PlanningError):
        story.run(day(1))
    with story.store() as store:
        [run] = store.runs()
        kept = kept_report(store, "run-1")
    assert (run.status, run.staged) == ("failed", False)
    assert kept is not None
    assert [each.error for each in kept.failures] == ["the source cannot be listed"]
    monkeypatch.undo()
    assert story.run(day(1)).status is RunStatus.SUCCESS


def test_a_run_whose_destination_cannot_be_made_does_not_begin(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "broken_of_test_kept_report"
    (story.folder / f"{name}.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(story.folder))
    own = {"ms__destination__class": f"{name}:Broken", "ms__publish__mode": "append"}
    with pytest.raises(PluginFailureError):
        story.run(day(1), story.job(**own))
    with story.store() as store:
        assert list(store.runs()) == []


def test_a_signal_while_rows_are_published_is_an_interruption_that_the_next_run_mends(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dil.run.job_run.commit", stop)
    report = story.run(day(1))
    assert (report.is_interrupted, report.exit_code) == (True, 130)
    assert story.runs()["run-1"].status == "interrupted"
    monkeypatch.undo()
    again = story.run(day(1))
    assert again.recovered == ("run-1",)
    assert story.rows() == ids_of("a", "b", days=range(1))
    with story.store() as store:
        assert [run.status for run in store.runs()] == ["success"]


class StoppedExecutor:
    """Runs some work units, reports them, and is stopped by a signal."""

    def __init__(self, units: int) -> None:
        self._units = units

    def execute(self, run, units, watch):
        watch(executor().execute(run, units[: self._units], watch).reports)
        raise KeyboardInterrupt


def test_what_failed_before_a_signal_is_kept_and_shown(
    story: Story, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    source.faults.append(failing(0, "a"))
    report = story.run(day(2), executor=StoppedExecutor(3))
    assert (report.is_interrupted, report.exit_code) == (True, 130)
    assert (report.units.failed, report.units.succeeded, report.units.not_started) == (1, 2, 1)
    assert [one.signature for one in report.failures] == [work_unit(0, "a"), None]

    job = str(story.folder / "orders.conf")
    capsys.readouterr()
    assert main(["state", "show", job, "--json"]) == 0
    [failure] = json.loads(capsys.readouterr().out)["failures"]
    assert (failure["signature"], failure["run_id"]) == (work_unit(0, "a"), "run-1")
    assert failure["code"] == "DIL-SRC"
    assert main(["runs", "show", job, "run-1"]) == 0
    shown = capsys.readouterr().out
    assert f"failure     {work_unit(0, 'a')} from 2020-01-01T00:00:00Z: " in shown
    source.faults.clear()
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert main(["state", "show", job, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failures"] == []


@pytest.mark.parametrize("step", ["recover", "plan", "claim"])
def test_a_run_that_a_signal_stops_before_its_tasks_is_interrupted_and_did_not_crash(
    story: Story, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    through = getattr(job_run, step)

    def stop(*arguments: object) -> None:
        through(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(job_run, step, stop)
    with pytest.raises(KeyboardInterrupt):
        story.run(day(1))
    monkeypatch.undo()

    assert main(["runs", "list", str(story.folder / "orders.conf"), "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)
    assert (run["status"], run["codes"]) == ("interrupted", ["DIL-INTERRUPTED"])
    assert story.staged() == []
    assert story.run(day(1)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_a_signal_after_the_commit_changes_nothing_of_it(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job_run, "report_results", stop)
    report = story.run(day(1))

    assert (report.is_interrupted, report.exit_code) == (True, 130)
    assert "nothing is left to do" in report.notes[0]
    with story.store() as store:
        assert [(run.status, run.rows) for run in store.runs()] == [("success", 8)]


def test_a_report_that_an_earlier_release_kept_is_read_with_its_failures() -> None:
    failure = {"signature": "unit 1", "code": "DIL-SRC", "error": "status 404", "fix": "Look."}
    document = {"seconds": Decimal("1.5"), "requests": 7, "failures": [failure], "notes": ["n"]}
    kept = KeptReport.from_document(document)
    assert kept == KeptReport(
        1.5, 7, 0, (ReportedFailure("unit 1", "DIL-SRC", "status 404", "Look."),), ("n",), document
    )


def test_what_is_kept_of_many_failures_is_bounded(story: Story) -> None:
    story.run(day(1))
    failures = tuple(
        ReportedFailure(f"unit {number}", "DIL-SRC", f"{number} " + "x" * 9_000, attempts=1)
        for number in range(5_000)
    )
    runs = tuple(UnitRun(f"unit {n}", "failed", 1, 0.5, 0, 1, "DIL-SRC") for n in range(1_000))
    report = RunReport(
        "orders", "run-1", RunStatus.FAILED, UnitCounts(5_000, 0, 5_000), failures=failures,
        unit_runs=runs, notes=("n" * 9_000,) * 500,
    )  # fmt: skip
    with story.store() as store:
        lease = store.acquire_lease("again", lease_s=60)
        documents = run_documents(report, lambda text: text)
        store.keep_run_details(lease, "run-1", documents)
        assert len(compact(documents)) < 1_000_000
        kept = kept_report(store, "run-1")
        units = kept_unit_runs(store, "run-1")
    assert kept is not None
    assert (len(kept.failures), kept.members["failures_left_out"]) == (1_000, 4_000)
    assert (len(units.units), units.left_out) == (1_000, 4_000)


def test_no_kept_text_holds_a_secret(story: Story) -> None:
    report = RunReport(
        "orders", "run-1", RunStatus.FAILED, UnitCounts(1, 0, 1),
        failures=(ReportedFailure("unit", "DIL-SRC", "told s3cr3t-word", "not s3cr3t-word"),),
        notes=("s3cr3t-word", "czNjcjN0LXdvcmQ="),
    )  # fmt: skip
    text = compact(run_documents(report, redactor([Secret("s3cr3t-word")])))
    assert "s3cr3t-word" not in text
    assert "czNjcjN0LXdvcmQ" not in text


def test_a_run_with_nothing_due_keeps_no_report(story: Story) -> None:
    story.run(day(1))
    story.run(day(1))
    with story.store() as store:
        assert kept_report(store, "run-1") is not None
        assert kept_report(store, "run-2") is None


def test_a_report_that_cannot_be_kept_leaves_the_run_as_it_ended(
    story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise StateError("the disk is full")

    monkeypatch.setattr(SqlStateStore, "keep_run_details", refuse)
    assert story.run(day(1)).exit_code == 0
    assert "the report was not kept in the state store: the disk is full" in caplog.text
