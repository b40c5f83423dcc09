"""What an attempt reports to the driver while it reads."""

from __future__ import annotations

from contextlib import contextmanager

import dil.task.attempt
from dil.spi.coordination import Uncoordinated
from tests.unit.task.scripted import Page, UnitTask, rows


class Listener(Uncoordinated):
    """A coordinator that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, int]] = []

    def progress(self, *, requests: int, rows: int, size: int) -> None:
        self.told.append((requests, rows, size))


def test_the_driver_is_told_after_each_page_what_came_since(task: UnitTask, monkeypatch) -> None:
    listener = Listener()

    @contextmanager
    def task_coordinator(run, sleep, shared):
        yield listener

    monkeypatch.setattr(dil.task.attempt, "task_coordinator", task_coordinator)
    task.script([Page(rows(1, 2), "c1"), Page((), "c2", warning="204"), Page(rows(3))])

    report = task.run(task.job(ms__pagination='{"more":"next"}', ms__session__key__field=""))

    assert listener.told[0][:2] == (1, 2)
    requests, found, size = (sum(each) for each in zip(*listener.told, strict=True))
    counters = report.counters
    assert (requests, found, size) == (counters.requests, counters.rows_read, counters.bytes_read)
