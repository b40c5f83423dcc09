"""How many event times a watermark follows per second, and how large its memory becomes.

    python tests/bench/bench_event_time.py [batches]

The adaptive strategy on Arrow arrays of 50,000 rows, the last ones of each up to 2 s late. Prints
millions of rows per second of CPU time, with the goal, and the size of the state.
"""

from __future__ import annotations

import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dil.api import event_watermark

ROWS = 50_000
START_MS = 1_700_000_000_000
NOW = datetime(2023, 11, 15, tzinfo=UTC)
# Order, partitions, goal in millions of rows per second.
CASES = (("batch", 1, 10), ("batch", 64, 5), ("arrival", 1, 10), ("arrival", 64, 5))


def batches(count: int, partitions: int) -> list[tuple[pa.Int64Array, pa.StringArray]]:
    """Return batches of times, one row a millisecond, and the partitions of their rows."""
    chance = random.Random(17)
    found = []
    for number in range(count):
        start = START_MS + number * ROWS
        late = (
            int(chance.expovariate(1 / 200)) if chance.random() < 0.1 else 0 for _ in range(ROWS)
        )
        times = [start + row - min(ms, 2000) for row, ms in enumerate(late)]
        names = [f"device-{chance.randrange(partitions)}" for _ in range(ROWS)]
        found.append((pa.array(times), pa.array(names)))
    return found


def main(count: int) -> None:
    """Print one line per case."""
    for order, partitions, goal in CASES:
        asked = {"ms.event.watermark": "adaptive", "ms.event.order": order}
        if partitions > 1:
            asked["ms.event.partition.column"] = "device"
        watermark = event_watermark(asked)
        rows = batches(count, partitions)
        began = time.process_time()
        for times, names in rows:
            given = names if partitions > 1 else None
            watermark.commit(times, given, now=NOW + timedelta(days=1))
        rate = count * ROWS / (time.process_time() - began) / 1e6
        size = len(watermark.state()) / 1024
        print(
            f"order={order:8}{partitions:3} partitions: {rate:6.1f} M rows/s (goal {goal}), "
            f"state {size:.0f} KiB"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
