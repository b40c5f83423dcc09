"""How long the planner takes for many work units, beside DIL's own planner.

    python tests/bench/bench_plan.py [rounds]

Each case runs in a process of its own, warm, and prints the best CPU time of its rounds: to plan,
and to plan and read every work unit's signature, low and high. The figures of DIL's Java planner
were taken warm, in process, on a machine of this kind.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil.api import Plan, plan
from dil.observe.memory import peak_rss_bytes

NOW = datetime(2020, 1, 1, 8, tzinfo=UTC)  # midnight of 2020-01-01 in Los Angeles
# Case: from, partition type, units, whether all have a record, grace days, limit, Java's ms.
CASES: dict[str, tuple[str, str, int, bool, int, str, float | None]] = {
    "hourly, 10 years": ("2010-01-01", "hourly", 1, False, 0, "-1", 163),
    "hourly, 10 years, all done": ("2010-01-01", "hourly", 1, True, 0, "-1", 383),
    "daily, 10 years, 100 units": ("2010-01-01", "daily", 100, False, 0, "-1", 1500),
    "the same, all done but 2 days": ("2010-01-01", "daily", 100, True, 2, "-1", 2140),
    "56,000 units, limit 300": ("2010-01-01", "none", 56_000, False, 0, "300", None),
    "hourly, 100 years": ("1920-01-01", "hourly", 1, False, 0, "-1", None),
}


def main(rounds: int) -> None:
    """Measure each case in a fresh process and print the table."""
    heads = f"{'plan ms':>9}{'+ walk ms':>11}{'MB':>6}{'Java ms':>9}{'ratio':>7}{'+ walk':>8}"
    print(f"{'case':32}{heads}")
    for name, case in CASES.items():
        command = [sys.executable, __file__, "--case", name, str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        planned, walked, megabytes = json.loads(done.stdout)
        java = case[-1]
        ratios = f"{java:9.0f}{planned / java:7.2f}{walked / java:8.2f}" if java else f"{'-':>9}"
        print(f"{name:32}{planned:9.0f}{walked:11.0f}{megabytes:6.0f}{ratios}", flush=True)


def one(name: str, rounds: int) -> None:
    """Measure one case and print plan ms, plan and walk ms, and peak MB as JSON."""
    properties = _properties(CASES[name])
    history: dict[str, int] = {}
    if CASES[name][3]:
        history = {unit.signature: unit.high for unit in plan(properties, now=NOW).work_units}
    planned, walked = [], []
    for _ in range(rounds + 1):
        started = time.process_time()
        made = plan(properties, now=NOW, history=history)
        planned.append(time.process_time() - started)
        _walk(made)
        walked.append(time.process_time() - started)
    peak = peak_rss_bytes() / 2**20
    print(json.dumps([min(planned[1:]) * 1000, min(walked[1:]) * 1000, peak]))


def _properties(case: Sequence[object]) -> dict[str, str]:
    start, word, units, _, grace, limit, _ = case
    names = ",".join(f"u{number}" for number in range(int(str(units))))
    watermarks = [
        {"name": "system", "type": "datetime", "range": {"from": start, "to": "2020-01-01"}},
        {"name": "id", "type": "unit", "units": names},
    ]
    return {
        "ms.watermark": json.dumps(watermarks),
        "ms.work.unit.partition": str(word),
        "ms.work.unit.parallelism.max": str(limit),
        "ms.grace.period.days": str(grace),
    }


def _walk(made: Plan) -> int:
    return sum(unit.high - unit.low + len(unit.signature) for unit in made.work_units)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        one(sys.argv[2], int(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
