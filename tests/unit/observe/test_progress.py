"""Progress lines come seldom, are complete, and end with the last numbers."""

import io
import logging

import pytest

from dil.observe.progress import (
    LineProgress,
    RichProgress,
    SilentProgress,
    human_bytes,
    human_seconds,
    progress_for,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_lines_keep_their_distance_and_the_last_one_always_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="dil.observe.progress")
    clock = Clock()
    progress = LineProgress(clock=clock, every_s=30)

    progress.start(10)
    for second in range(1, 61):
        clock.now = 100.0 + second
        progress.update(done=second // 10, failed=1, running=4, rows=second * 1000, bytes=second)
    clock.now = 165.0
    progress.update(done=10, failed=1, running=0, rows=65_000, bytes=1_500_000)
    progress.finish()

    assert lines(caplog) == [
        "10 work units to run",
        "3 of 10 work units done, 1 failed, 4 running, 30,000 rows, 30 B, 1,000 rows/s, "
        "about 1 min 10 s left",
        "6 of 10 work units done, 1 failed, 4 running, 60,000 rows, 60 B, 1,000 rows/s, "
        "about 40 s left",
        "10 of 10 work units done, 1 failed, 65,000 rows, 1.5 MB, 1,000 rows/s",
    ]


def test_finishing_twice_or_without_a_start_says_nothing_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="dil.observe.progress")
    progress = LineProgress(clock=Clock())
    progress.finish()
    progress.start(1)
    progress.finish()
    progress.finish()

    assert len(lines(caplog)) == 2


def test_a_terminal_gets_a_bar_and_anything_else_gets_lines() -> None:
    assert isinstance(progress_for(Terminal()), RichProgress)
    assert isinstance(progress_for(io.StringIO()), LineProgress)


def test_the_bar_shows_counts_and_failures() -> None:
    stream = Terminal()
    progress = RichProgress(stream)

    progress.update(done=0, failed=0, running=0, rows=0, bytes=0)
    progress.start(4)
    assert "starting Spark" in stream.getvalue()
    progress.update(done=3, failed=1, running=1, rows=1234, bytes=2_000_000)
    progress.finish()
    progress.finish()

    for part in ("3/4", "1 failed", "1 running", "1,234 rows", "2.0 MB"):
        assert part in stream.getvalue()


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    progress = SilentProgress()
    progress.start(1)
    progress.update(done=1, failed=0, running=0, rows=1, bytes=1)
    progress.finish()

    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (1_500_000, "1.5 MB"), (2 * 10**12, "2.0 TB")],
)
def test_sizes_read_well(size: int, text: str) -> None:
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.4 s"),
        (12.4, "12 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (362_000, "4 d 4 h"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text


def test_one_work_unit_is_no_plural(caplog: pytest.LogCaptureFixture) -> None:
    progress = LineProgress(clock=lambda: 0.0)
    with caplog.at_level(logging.INFO):
        progress.start(1)
        progress.update(done=1, failed=0, running=0, rows=1, bytes=10)
        progress.finish()

    assert caplog.messages == ["1 work unit to run", "1 of 1 work unit done, 1 row, 10 B"]
