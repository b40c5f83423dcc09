"""``fixed_delay`` judges rows as Spark's own streaming engine does, which runs beside it here.

Structured Streaming reads the same random batches. Compared are the watermark of each batch and the
rows that come out of it. Spark begins with a watermark of 0 and counts a row without time as one of
time 0, so random times are above the delays, and our None is its 0. A query of several streams is
stopped in the middle under ``max`` alone: Spark does not keep the watermark of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dil.api import event_watermark
from tests.event_traces import (
    TRACE_A,
    TRACE_B,
    TRACE_C_MAX,
    TRACE_C_MIN,
    Row,
    Script,
    Windows,
)
from tests.jobs import ROOT
from tests.servers.class_archive import quick_start

pytestmark = pytest.mark.spark

STREAMS = ROOT / "tests" / "torture" / "spark_events.py"
OLDEST_SPARK = ROOT / ".cache" / "servers" / "spark-4.0" / "bin" / "python"
SPARKS = [
    pytest.param(Path(sys.executable), id="installed"),
    pytest.param(OLDEST_SPARK, id="4.0", marks=pytest.mark.long),
]
SEEDS = int(os.environ.get("DIL_EVENT_SEEDS", "7"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = 100_000


def random_script(seed: int) -> Script:
    """Return batches whose times are often beside the watermark that judges them."""
    chance = Random(seed)
    count = chance.choice([1, 1, 2])
    delays = [chance.choice([0, 1, 2000, 7000]) for _ in range(count)]
    policy = chance.choice(["min", "max"])
    largest = [START_MS] * count
    next_id = 0
    batches = []
    for _ in range(chance.randint(4, 7)):
        batch: list[list[Row]] = []
        for stream, delay in enumerate(delays):
            rows: list[Row] = []
            for _ in range(chance.choice([0, 1, 1, 2, 4])):
                mark = chance.choice(largest) - chance.choice([delay, *delays])
                near = chance.choice([-1, 0, 1, chance.randint(-12_000, 12_000)])
                ahead = largest[stream] + chance.randint(0, 9000)
                at = chance.choice([ahead, mark + near, mark + near])
                rows.append([next_id, None if chance.random() < 0.05 else at])
                next_id += 1
            times = [at for _, at in rows if at is not None]
            largest[stream] = max([largest[stream], *times])
            batch.append(rows)
        batches.append(batch)
    can_stop = count == 1 or policy == "max"
    stops = [chance.randint(1, len(batches) - 1)] if can_stop and chance.random() < 0.5 else []
    kind = chance.choice(["dedupe", "windows"])
    return Script(kind, delays, batches, policy, chance.choice([3000, 10_000]), stops)


def spark_of(scripts: Sequence[Script], python: Path, folder: Path) -> list[dict[str, Any]]:
    """Return for each script what Spark says: one process with one session plays all of them."""
    if not python.exists():
        if os.environ.get("CI") or os.environ.get("DIL_REQUIRE_SERVERS"):
            pytest.fail(f"{python} is missing: scripts/ensure-spark installs it")
        pytest.skip("Spark 4.0 is not installed: scripts/ensure-spark installs it")
    # The archive of classes in the quick start is that of the installed Spark.
    options = quick_start() if str(python) == sys.executable else "-XX:TieredStopAtLevel=1"
    done = subprocess.run(
        [python, STREAMS, folder, options],
        input="".join(json.dumps(asdict(script)) + "\n" for script in scripts),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(script: Script, read: Sequence[int]) -> dict[str, Any]:
    """Return what our engine makes of a script, in the form of spark_events.py.

    ``read`` says for each batch of Spark's how many scripted batches were read by its end: a batch
    that read nothing new is an empty commit.
    """
    names = [f"s{number}" for number in range(len(script.delays_ms))]
    asked = {
        "ms.event.watermark": "fixed_delay",
        "ms.event.delay": json.dumps(
            {name: f"PT{ms / 1000}S" for name, ms in zip(names, script.delays_ms, strict=True)}
        ),
        "ms.event.partition.column": "stream",
        "ms.event.multi.policy": script.policy,
        "ms.late.lag": "1",
        "ms.late.boundary": "inclusive",
    }
    watermark = event_watermark(asked)
    batches, emitted, done = [], [], 0
    windows = Windows(script.window_ms)
    for number, until in enumerate(read):
        mark = max(0, watermark.watermark or 0)
        new = [
            (row, name)
            for batch in script.batches[done:until]
            for rows, name in zip(batch, names, strict=True)
            for row in rows
        ]
        done = until
        judged = watermark.commit([row[1] for row, _ in new], [name for _, name in new], now=NOW)
        batches.append([mark, until])
        if script.kind == "dedupe":
            found = [[row[0]] for (row, _), late in zip(new, judged.late, strict=True) if not late]
        else:
            for row, _ in new:
                windows.add(row, judged.effective)
            found = windows.closed(mark)
        if found:
            emitted.append([number, sorted(found)])
        watermark = event_watermark(asked, state=watermark.state())  # a restart after each batch
    return {"batches": batches, "emitted": emitted}


def check(script: Script, spark: dict[str, Any]) -> None:
    found = ours(script, [read for _, read in spark["batches"]])
    emitted = [[number, sorted(rows)] for number, rows in spark["emitted"]]
    assert found["batches"] == spark["batches"], script
    assert found["emitted"] == emitted, script
    assert spark["batches"][-1][1] == len(script.batches)


@pytest.fixture(scope="module", params=SPARKS)
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Script, dict[str, Any]]]:
    """Return what one session of Spark makes of all scripts: the traces, then the random ones."""
    scripts = [TRACE_A, TRACE_B, TRACE_C_MIN, TRACE_C_MAX]
    scripts += [random_script(seed) for seed in range(SEEDS)]
    answers = spark_of(scripts, request.param, tmp_path_factory.mktemp("spark"))
    return list(zip(scripts, answers, strict=True))


def test_all_batches_have_the_watermarks_and_the_late_rows_of_spark(
    played: list[tuple[Script, dict[str, Any]]],
) -> None:
    for script, spark in played:
        found = ours(script, [read for _, read in spark["batches"]])
        assert found["batches"] == spark["batches"], script
        assert found["emitted"] == [[each, sorted(rows)] for each, rows in spark["emitted"]], script
        assert spark["batches"][-1][1] == len(script.batches)


def test_random_batches_have_late_rows_and_restarts(
    played: list[tuple[Script, dict[str, Any]]],
) -> None:
    scripts = [(script, spark) for script, spark in played[4:] if script.kind == "dedupe"]

    given = sum(len(rows) for script, _ in scripts for batch in script.batches for rows in batch)
    assert sum(len(kept(spark)) for _, spark in scripts) < given
    assert any(script.stops for script, _ in played)
    assert {len(script.delays_ms) for script, _ in played[4:]} == {1, 2}
    assert {script.kind for script, _ in played[4:]} == {"dedupe", "windows"}


def test_the_traces_of_the_specification_are_those_of_spark(
    played: list[tuple[Script, dict[str, Any]]],
) -> None:
    a, b, c_min, c_max = [spark for _, spark in played[:4]]

    assert marks(a) == [0, 15, 16, 16, 20, 20, 20, 95]
    assert a["emitted"] == [
        [1, [[0, [1]]]],
        [4, [[10_000, [5, 7]]]],
        [7, [[20_000, [2, 3, 6, 9]]]],
    ]
    assert marks(b) == [0, 5, 15, 15, 15, 15]
    assert kept(b) == [10_000, 15_001, 20_000]
    assert marks(c_min) == [0, 0, 0, 2, 20]
    assert kept(c_min) == [5000, 12_000, 20_000, 30_000, 40_000, 60_000, 80_000]
    assert marks(c_max) == [0, 20, 40, 60, 80]
    assert kept(c_max) == [5000, 20_000, 40_000, 60_000, 80_000]


def marks(answer: dict[str, Any]) -> list[float]:
    return [mark / 1000 for mark, _ in answer["batches"]]


def kept(answer: dict[str, Any]) -> list[int]:
    return sorted(row[0] for _, rows in answer["emitted"] for row in rows)
