"""Streams whose micro-batches merge rows, or close timelabels: as a run does it all at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dil import config
from dil.operator.streaming import run_stream
from dil.run.options import RunOptions
from tests.closing_days import ClosingDays
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import executor
from tests.streams import StreamFeed

MERGE = {
    "ms.publish.mode": "merge",
    "extract.delta.fields": "at",
    "ms.event.column": "",
    "ms.event.watermark": "",
    "ms.event.delay": "",
    "ms.late.action": "",
    "extract.primary.key.fields": "id",
}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows() as running:
        yield running


@pytest.mark.parametrize("size", ["1", "3"])
def test_micro_batches_merge_the_newest_row_of_each_key(tmp_path: Path, size: str) -> None:
    """Each file has rows of the same three keys; the last one has an old row of the first."""
    feed = StreamFeed(tmp_path, **MERGE)
    for number in range(1, 6):
        feed.put(number, number, number)
        path = feed.folder / "in" / f"{number:03}.jsonl"
        path.write_text(path.read_text().replace(f'"id": {number}0', '"id": 10'))
    old = feed.folder / "in" / "006.jsonl"
    old.write_text((feed.folder / "in" / "001.jsonl").read_text().splitlines()[0] + "\n")

    report = feed.stream(at=10, **{"ms.stream.max.files": size})

    assert (report.exit_code, report.units.succeeded) == (0, 6)
    found = sorted((row["id"], row["at"]) for row in feed.rows())
    last = (feed.folder / "in" / "005.jsonl").read_text()
    assert [each for each, _ in found] == [100, 101, 102]
    assert all(f'"at": {at}' in last for _, at in found)
    assert feed.stream(at=11, **{"ms.stream.max.files": size}).units.planned == 0


def test_a_stream_closes_the_timelabels_that_a_run_closes(tmp_path: Path, source: DayRows) -> None:
    streamed, at_once = (ClosingDays(tmp_path / name, source) for name in ("s", "r"))
    streamed.fill(*range(5))
    job = config.load(
        streamed.path,
        overrides={"ms.stream.mode": "ingest", "ms.stream.max.files": "1"},
        environ={},
    ).job

    for day in (3, 5):
        now = START_MS + day * DAY_MS
        given = RunOptions(now_ms=now, clock=lambda now=now: now, executor=executor())
        assert run_stream(job, given).exit_code == 0
        at_once.run(day)

    assert streamed.closed(6) == at_once.closed(6) != []
    assert sorted(streamed.ids()) == sorted(at_once.ids())
    assert len(streamed.ids()) == 15
