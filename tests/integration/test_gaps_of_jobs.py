"""``dil state gaps`` of jobs that ran: what failed, what is behind the event-time watermark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.model.report import RunStatus
from tests.event_feed import Feed
from tests.integration.test_late_rows_of_acts import LATE, at
from tests.servers.day_rows import DayRows
from tests.stories import Story, day


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


def statuses(story: Story, capsys: pytest.CaptureFixture[str]) -> list[tuple[float, float, str]]:
    """Return the stretches of the only unit, in days since the first one."""
    capsys.readouterr()
    words = [str(story.folder / "orders.conf"), "--now", "2020-01-05T00:00:00Z", "--json"]
    assert main(["state", "gaps", *words]) == 0
    [unit] = json.loads(capsys.readouterr().out)["units"]
    return [
        (*((each[name] - day(0)) / 86_400_000 for name in ("from_ms", "to_ms")), each["status"])
        for each in unit["intervals"]
    ]


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_what_failed_is_failed_also_behind_the_watermark_and_under_either_commit_policy(
    source: DayRows, tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    story = Story(tmp_path, source, **LATE, job__commit__policy=policy)  # type: ignore[arg-type]
    source.days[day(0)] = [at(0, 23, id_=0)]
    story.run(day(1))
    # The watermark stays at the 22nd hour of the first day.
    assert statuses(story, capsys) == [(0, 1, "committed"), (1, 4, "open")]
    source.days[day(1)] = [{"id": "no number", "at": 0}]
    assert story.run(day(2)).status is RunStatus.FAILED
    assert statuses(story, capsys) == [(0, 1, "committed"), (1, 2, "failed"), (2, 4, "open")]
    source.days[day(1)] = [at(1, 5, id_=100)]
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert statuses(story, capsys) == [(0, 2, "committed"), (2, 4, "open")]


def test_a_job_that_reads_each_file_once_has_no_gaps_of_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = Feed(tmp_path / "feed")
    feed.put(-10)
    feed.run()
    assert main(["state", "gaps", str(feed.folder / "feed.conf")]) == 2
    assert "ms.source.files.once" in capsys.readouterr().err
