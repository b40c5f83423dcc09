"""Streams judge late rows as Spark's own streaming engine: three scripts with known answers.

What Spark makes of the same scripts, run beside it, is in test_equals_spark.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dil.model.report import RunReport
from dil.run import micro_batches
from tests.event_traces import TRACE_A, TRACE_B, TRACE_C_MAX, TRACE_C_MIN, Script, Windows
from tests.streams import StreamFeed


def streamed(
    folder: Path, script: Script, monkeypatch: pytest.MonkeyPatch, *, restarts: bool
) -> tuple[StreamFeed, list[RunReport]]:
    """Read each batch as a file and a micro-batch; return the reports of these.

    ``restarts`` begins a stream anew for each of them; else one reads them all.
    """
    delays = {f"s{place}": f"PT{ms / 1000}S" for place, ms in enumerate(script.delays_ms)}
    asked = {
        "ms.event.watermark": "fixed_delay",
        "ms.event.delay": json.dumps(delays),
        "ms.event.partition.column": "site",
        "ms.event.multi.policy": script.policy,
        "ms.late.lag": "1",
        "ms.late.boundary": "inclusive",
        "ms.late.action": "flag",
        "ms.stream.max.files": "1",
    }
    reports: list[RunReport] = []
    conclude = micro_batches.conclude

    def noting(*given: object) -> RunReport:
        reports.append(conclude(*given))  # type: ignore[arg-type]
        return reports[-1]

    monkeypatch.setattr(micro_batches, "conclude", noting)
    feed = StreamFeed(folder)
    for number, batch in enumerate(script.batches):
        rows = [
            {"id": ident, "at": at, "site": f"s{place}"}
            for place, stream in enumerate(batch)
            for ident, at in stream
        ]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (feed.folder / "in" / f"{number:03}.jsonl").write_text(text)
        if restarts:
            assert feed.stream(at=number, **asked).exit_code == 0
    if not restarts:
        assert feed.stream(**asked).exit_code == 0
    assert len(reports) == len(script.batches)
    return feed, reports


def seconds_of(mark: int | None) -> float:
    """Return a watermark in seconds; Spark begins with 0, and has none before it."""
    return max(0, mark or 0) / 1000


def marks(reports: list[RunReport]) -> list[float]:
    """Return the watermark before each micro-batch, and that after the last one."""
    found = [each.events.watermark for each in reports if each.events is not None]
    return list(map(seconds_of, [None, *found]))


@pytest.fixture(params=[False, True], ids=["one stream", "a restart after each"])
def restarts(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_trace_a_drops_what_comes_to_closed_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    feed, reports = streamed(tmp_path, TRACE_A, monkeypatch, restarts=restarts)
    judges = [each.events.judged_by for each in reports if each.events is not None]

    assert marks(reports) == [0, 15, 16, 16, 20, 20, 20, 95]
    assert list(map(seconds_of, judges)) == [0, 0, 15, 16, 16, 20, 20]
    late = feed.late()
    assert sorted(ident for ident, is_late in late.items() if is_late) == [4, 5, 8, 9]
    windows, emitted = Windows(TRACE_A.window_ms), []
    for batch, mark, judge in zip(TRACE_A.batches, marks(reports), judges, strict=False):
        for row in batch[0]:
            windows.add(row, judge)
        emitted.append(windows.closed(round(mark * 1000)))
    emitted.append(windows.closed(95_000))
    assert emitted == [
        [], [[0, [1]]], [], [], [[10_000, [5, 7]]], [], [], [[20_000, [2, 3, 6, 9]]]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "watermarks", "late"),
    [
        (TRACE_B, [0, 5, 15, 15, 15, 15, 15], [0, 14_000, 15_000]),
        (TRACE_C_MIN, [0, 0, 0, 2, 20], []),
        (TRACE_C_MAX, [0, 20, 40, 60, 80], [12_000, 30_000]),
    ],
    ids=["B", "C min", "C max"],
)
def test_traces_b_and_c_have_the_watermarks_and_the_late_rows_of_spark(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    restarts: bool,
    script: Script,
    watermarks: list[float],
    late: list[int],
) -> None:
    feed, reports = streamed(tmp_path, script, monkeypatch, restarts=restarts)

    assert marks(reports) == watermarks
    assert sorted(ident for ident, is_late in feed.late().items() if is_late) == late
    assert len(feed.rows()) == sum(len(stream) for batch in script.batches for stream in batch)
