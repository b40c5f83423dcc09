"""Kill -9 between any two steps of a run that sends rows, then run again: no row twice in the dark.

Without keys a row is never sent twice, whatever is killed when; with keys, and a receiver that
knows them, every row is taken once and its answer published once.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.jobs import visible_files
from tests.servers.receiver import KEY, Receiver
from tests.servers.rows import DAY_MS, START_MS
from tests.torture.kills import KillServer, steps

IDS = list(range(1, 6))
NOW = START_MS + 10 * DAY_MS
KILLS = int(os.environ.get("DIL_KILLS", "20")) // 4


class Story:
    """A job that sends five rows, and a receiver; begun anew for each kill."""

    def __init__(self, folder: Path, receiver: Receiver, changes: Mapping[str, str]) -> None:
        self.folder = folder
        self.receiver = receiver
        self._changes = changes

    def begin(self) -> None:
        """Forget all runs and all that was received."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "rows.json").write_text("".join(f'{{"id":{one}}}\n' for one in IDS))
        for memory in (self.receiver.got, self.receiver.taken, self.receiver.answers):
            memory.clear()

    def job(self, **changes: str) -> Path:
        range_ = {"from": "2020-01-01", "to": "2020-01-02"}
        payload = {"path": "rows.json", "fields": ["id"], "category": "payload"}
        facts = {
            "job.name": "send",
            "source.class": "http",
            "ms.extractor.class": "json",
            "ms.source.uri": f"{self.receiver.url}/rows",
            "ms.http.request.method": "POST",
            "ms.secondary.input": json.dumps([payload]),
            "ms.data.field": "data",
            "ms.timezone": "UTC",
            "ms.watermark": json.dumps([{"name": "s", "type": "datetime", "range": range_}]),
            "extract.table.name": "answers",
            "state.store.dir": str(self.folder / "state"),
            "writer.output.format": "JSON",
            "writer.file.path.type": "tablename",
            "data.publisher.final.dir": str(self.folder / "lake"),
            "ms.http.retry.max": "0",
            "task.maxretries": "0",
            **self._changes,
            **changes,
        }
        path = self.folder / "send.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))
        return path

    @property
    def received(self) -> Counter[object]:
        return Counter(got.body["id"] for got in self.receiver.got)

    def answers(self) -> list[int]:
        """Return the ids of the published answers."""
        return sorted(
            json.loads(line)["ok"]
            for path in visible_files(self.folder)
            for line in path.read_text().splitlines()
        )

    def doubts(self) -> list[str]:
        """Return the start markers that would keep a later run from sending."""
        marks = (self.folder / "lake" / "_staging" / "send" / "_sending").glob("*.json")
        states = [str(json.loads(path.read_text())["state"]) for path in marks]
        return [state for state in states if state != "sent"]

    def kept(self) -> list[int]:
        """Return the ids of the published rows that were refused."""
        return sorted(
            json.loads(line)["id"]
            for path in (self.folder / "lake" / "answers" / "_failed").glob("*")
            for line in path.read_text().splitlines()
        )


def kill_points(kills: KillServer, story: Story) -> list[tuple[int, str]]:
    """Return steps of a whole run at which to kill it, with their names.

    Most of them are in the task, where rows are sent; the others are before and after it.
    """
    story.begin()
    whole = kills.run(story.job(), NOW)
    assert whole["exit"] == 0
    events = whole["events"]
    known = steps(events)
    first, last = (known[f"first {what} run/execute.py:execute"] for what in ("call", "return"))
    around = [at for at in sorted(set(known.values())) if not first <= at <= last]
    points = [
        *range(first, last, max(1, (last - first) // KILLS)),
        *around[:: max(1, 2 * len(around) // KILLS)],
    ]
    return [(at, events[at]) for at in points]


def test_without_keys_no_kill_lets_a_row_be_sent_twice(kills: KillServer, tmp_path: Path) -> None:
    with Receiver() as receiver:
        story = Story(tmp_path / "job", receiver, {})
        for at, step in kill_points(kills, story):
            story.begin()
            assert kills.run(story.job(), NOW, at)["killed"], step

            done = kills.run(story.job(), NOW)["exit"]

            assert max(story.received.values(), default=0) <= 1, step
            if done != 0:
                assert story.answers() == [], step
                again = story.job(**{"ms.egress.send.again": "true"})
                assert kills.run(again, NOW)["exit"] == 0, step
            assert set(story.received) == set(IDS), step
            assert story.answers() == IDS, step
            assert story.doubts() == [], step


@pytest.mark.parametrize("resume", ["false", "true"])
def test_with_keys_every_row_is_taken_once_whatever_is_killed(
    kills: KillServer, tmp_path: Path, resume: str
) -> None:
    changes = {
        "ms.http.idempotency.header": KEY,
        "ms.egress.failed.rows": "keep",
        "ms.egress.resume": resume,
    }
    with Receiver(honours_keys=True) as receiver:
        receiver.statuses[2] = 422
        story = Story(tmp_path / "job", receiver, changes)
        for at, step in kill_points(kills, story):
            story.begin()
            assert kills.run(story.job(), NOW, at)["killed"], step

            assert kills.run(story.job(), NOW)["exit"] == 0, step

            assert receiver.ids == [1, 3, 4, 5], step
            assert story.answers() == [1, 3, 4, 5], step
            assert story.kept() == [2], step
            if resume == "true":
                assert sum(story.received.values()) <= len(IDS) + 1, step
