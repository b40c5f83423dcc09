"""What a crashed run staged never passes over what an operator, or another kind of run, decided."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.execution.executor import Execution
from dil.model.job import Job
from dil.model.report import RunStatus
from dil.model.task import Failure, TaskReport
from dil.publishing.publisher import Publisher
from tests.killed import KilledError, killed
from tests.servers.rows import DAY_MS
from tests.stories import Story, day, executor, failing, ids_of, work_unit

HALF_MS = DAY_MS // 2
SUCCESSFUL = {"job.commit.policy": "successful"}
# The last partition is read as far as there is time.
IN_PART = SUCCESSFUL | {
    "ms.watermark": json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}},
            {"name": "unit", "type": "unit", "units": "a,b"},
        ]
    )
}


def crash(
    story: Story, monkeypatch: pytest.MonkeyPatch, now: int, job: Job | None = None, **options
) -> None:
    """Run until everything is staged and nothing is published."""

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "make_visible", killed)
        with pytest.raises(KilledError):
            story.run(now, job, **options)


def act(story: Story, verb: str, *options: str) -> None:
    path = str(story.folder / "orders.conf")
    assert main(["state", verb, path, "--now", "2020-01-04T00:00:00Z", *options, "--yes"]) == 0


class FailsOne:
    """Runs all work units but one, which fails."""

    def __init__(self, signature: str) -> None:
        self._signature = signature

    def execute(self, run, units, watch):
        good = executor().execute(run, [u for u in units if u.signature != self._signature], watch)
        bad = next(u for u in units if u.signature == self._signature)
        failure = TaskReport(bad.signature, bad.low, bad.high, 1, failure=Failure("X", "no"))
        return Execution((*good.reports, failure))


def test_a_work_unit_that_was_forgotten_is_read_whole_though_its_rest_was_staged(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(IN_PART)
    story.run(day(2) + HALF_MS)
    crash(story, monkeypatch, day(3))

    act(story, "forget", "--signature", work_unit(2, "a"), "--withdraw-files")
    story.run(day(3))
    story.run(day(4))

    assert story.rows() == ids_of("a", "b", days=range(4))


def test_a_rewind_is_not_overtaken_by_what_was_staged_before_it(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(IN_PART)
    story.run(day(2))
    sequence = str(story.head()["sequenceNumber"])
    story.run(day(2) + HALF_MS)
    crash(story, monkeypatch, day(3))

    act(story, "rewind", "--to", sequence, "--withdraw-files")
    story.run(day(3))
    story.run(day(4))

    assert story.rows() == ids_of("a", "b", days=range(4))


def test_what_an_undo_brought_back_is_not_published_once_more(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(SUCCESSFUL)
    story.run(day(3))
    act(story, "forget", "--signature", work_unit(1, "a"), "--withdraw-files")
    crash(story, monkeypatch, day(3))

    act(story, "undo")
    story.run(day(3))

    assert story.rows() == ids_of("a", "b", days=range(3))


def test_what_was_imported_as_done_is_not_published_from_staging(
    story: Story, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    story.changes.update(SUCCESSFUL)
    crash(story, monkeypatch, day(3))
    listed = tmp_path / "highs.csv"
    with listed.open("w", newline="") as file:
        rows = [["orders", work_unit(n, unit), day(n + 1)] for n in range(3) for unit in "ab"]
        csv.writer(file).writerows([["job", "signature", "high"], *rows])

    act(story, "import", str(listed))
    report = story.run(day(3))

    assert report.status is RunStatus.NOTHING_DUE
    assert story.rows() == {}


def test_what_was_forgotten_is_not_adopted_from_an_older_reading(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes["ms.grace.period.days"] = "2"
    story.run(day(3))
    crash(story, monkeypatch, day(3))

    act(story, "forget", "--signature", work_unit(2, "a"), "--withdraw-files")

    assert story.run(day(3)).units.adopted == 0


def test_a_backfill_that_crashed_owes_what_it_did_not_finish(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(IN_PART)
    story.run(day(2) + HALF_MS)
    backfill = story.job(**{"ms.backfill": "true"})
    crash(story, monkeypatch, day(4), backfill, executor=FailsOne(work_unit(2, "a")))

    story.run(day(4))
    story.run(day(5))

    assert not ids_of("a", "b", days=range(5)) - story.rows()


def test_a_restore_does_not_forget_a_publish_that_was_begun(story, monkeypatch, capsys):
    """Its files are visible: forgotten, their rows would be read and published again."""
    path, backup = str(story.folder / "orders.conf"), str(story.folder / "backup.db")
    story.run(day(2))
    assert main(["state", "backup", path, backup, "--yes"]) == 0
    carry_out = Publisher.carry_out

    def die_after(*arguments, **options):
        carry_out(*arguments, **options)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", die_after)
        with pytest.raises(KilledError):
            story.run(day(3))

    for more in ([], ["--yes"]):
        assert main(["state", "restore", path, backup, *more]) == 1
        assert "run-2 began to publish and has not finished" in capsys.readouterr().err
    assert story.run(day(3)).recovered == ("run-2",)
    assert set(story.rows().values()) == {1}


def test_forgetting_what_failed_lets_it_be_read_as_new(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.changes.update(job__commit__policy="successful")
    story.source.faults.append(failing(1, "a"))
    story.run(day(3))
    assert story.states()[work_unit(1, "a")].status == "FAILED"
    forget = ["state", "forget", str(story.folder / "orders.conf"), "--failed"]

    def told(*options: str) -> str:
        capsys.readouterr()
        assert main([*forget, *options]) == 0
        return capsys.readouterr().out

    assert "1 work unit would change" in told()
    assert "nothing to change" in told("--unit", '{"unit":"b"}', "--yes")
    assert story.states()[work_unit(1, "a")].status == "FAILED"
    told("--yes")
    states = story.states()
    assert (states[work_unit(1, "a")].status, states[work_unit(1, "a")].attempts) == ("PENDING", 0)
    assert [each.status for each in states.values()].count("COMMITTED") == 5
    assert "nothing to change" in told()
    story.source.faults.clear()
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("everything", [False, True])
def test_what_was_forgotten_is_no_failure_any_more(
    story: Story, capsys: pytest.CaptureFixture[str], *, everything: bool
) -> None:
    story.changes.update(job__commit__policy="successful")
    units = ("a", "b") if everything else ("a",)
    story.source.faults.extend(failing(number, unit) for number in range(3) for unit in units)
    story.run(day(3))
    path = str(story.folder / "orders.conf")

    def failures() -> int:
        capsys.readouterr()
        assert main(["state", "show", path, "--json"]) == 0
        return len(json.loads(capsys.readouterr().out)["failures"])

    assert failures() == (6 if everything else 3)
    assert main(["state", "forget", path, "--failed", "--yes"]) == 0
    assert failures() == 0
    story.run(day(3))
    assert failures() == (6 if everything else 3)


def test_forgetting_says_why_failures_of_the_policy_full_are_no_records(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.source.faults.append(failing(1, "a"))
    story.run(day(3))
    forget = ["state", "forget", str(story.folder / "orders.conf"), "--failed"]

    assert main(forget) == 0
    told = capsys.readouterr().out
    assert "nothing to change" in told
    assert "1 work unit failed in the last run that tried, which published nothing" in told
    assert main([*forget, "--unit", '{"unit":"b"}']) in {0, 1}
    assert "failed last" not in capsys.readouterr().out
