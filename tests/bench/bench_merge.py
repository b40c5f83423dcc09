"""An upsert of 1 % of a table of Parquet files beside writing the whole table again.

    python tests/bench/bench_merge.py [million rows]

The table (20 million rows by default) has a key, a time, two numbers and a text, in files of a
million rows in the order of the key. Three things are measured in this process, on one core:

- changes whose keys lie in 5 % of the files, published by the merge;
- as many changes whose keys are spread over the whole table;
- the plain way: pyarrow reads every file, leaves the changed keys out by a hash join, and writes it
  again.

The first must touch just these files and take less than a tenth of the plain way.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.merging import FILES, Lake

FILE_ROWS = 1_000_000
SHARE = 0.05
CHANGED = 0.01


def rows(first: int, count: int, *, step: int = 1, at: int = 0) -> pa.Table:
    """Return rows of every ``step``-th key from ``first`` on."""
    keys = pa.array(range(first, first + count * step, step), pa.int64())
    return pa.table(
        {
            "id": keys,
            "at": pc.add(keys, at).cast(pa.timestamp("us", tz="UTC")),
            "amount": pc.divide(keys.cast(pa.float64()), 7.0),
            "quantity": pc.bit_wise_and(keys, 1023),
            "note": pc.binary_join_element_wise("note of row", keys.cast(pa.string()), " "),
        }
    )


def table_of(folder: Path, files: int) -> Lake:
    """Publish the table."""
    lake = Lake(folder, target_bytes=1 << 40)
    for number in range(files):
        lake.run(lake.stage_unit(number, rows(number * FILE_ROWS, FILE_ROWS)))
    return lake


@dataclass(frozen=True)
class Taken:
    """What one way took: seconds of the clock and of the processor, files written again."""

    wall_s: float
    cpu_s: float
    files: int

    def line(self, name: str, plain: Taken) -> str:
        """Return a line of the result."""
        shares = f"{self.wall_s / plain.wall_s:6.3f} {self.cpu_s / plain.cpu_s:6.3f}"
        return (
            f"{name:22} {self.wall_s:7.2f} s {self.cpu_s:7.2f} s CPU {self.files:4} files {shares}"
        )


def taken(act: Callable[[], int]) -> Taken:
    """Measure what an act takes; it returns how many files it wrote again."""
    wall, cpu = time.perf_counter(), time.process_time()
    files = act()
    return Taken(time.perf_counter() - wall, time.process_time() - cpu, files)


def merged(lake: Lake, changes: pa.Table) -> Taken:
    """Merge changes and publish them.

    What the tasks of extraction do is not counted: the plain way would have to do it, too.
    """
    staged = lake.stage_unit(0, changes)
    return taken(lambda: len(lake.run(staged).replaced))


def rewritten(lake: Lake, changes: pa.Table, folder: Path) -> Taken:
    """Write every file of the table again, without the changed keys."""
    folder.mkdir()
    keys = changes.select(["id"])

    def act() -> int:
        for number, path in enumerate(_paths(lake)):
            kept = pq.read_table(path).join(keys, ["id"], join_type="left anti")
            pq.write_table(kept, folder / f"{number}.parquet", row_group_size=65_536)
        return len(lake.live)

    return taken(act)


def _paths(lake: Lake) -> Iterator[str]:
    return (FILES.path_of(file.uri) for file in lake.live)


def main(million: int) -> None:
    """Measure and print."""
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lake = table_of(folder / "job", million)
        total = million * FILE_ROWS
        count = int(total * CHANGED)
        touched = max(1, int(million * SHARE))
        step = touched * FILE_ROWS // count
        near = rows(total // 2, count, step=step, at=10**9)
        far = rows(0, count, step=total // count, at=10**9)
        plain = rewritten(lake, near, folder / "plain")
        near_merge = merged(lake, near)
        far_merge = merged(lake, far)
        size = sum(file.bytes for file in lake.live)
    print(f"{total:,} rows in {million} files, {size / 1e6:,.0f} MB; {count:,} changed")
    print(plain.line("plain rewrite", plain))
    print(near_merge.line(f"merge, keys of {touched} files", plain))
    print(far_merge.line("merge, random keys", plain))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
