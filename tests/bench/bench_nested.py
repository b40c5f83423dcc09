"""Nested columns into a warehouse beside flat ones: CPU of a whole load, for each byte of rows.

    python tests/bench/bench_nested.py [duckdb|sqlite|postgresql ...] [--profile]

Rows with a record of two levels and a list, and flat ones, of about as many bytes in Arrow, staged
as Parquet; and one row, to see what any load costs. A load is what the driver does: it checks that
the table takes all rows, and loads them in one transaction. CPU of this process, all of its
threads; the least of five loads.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa

from tests.servers.postgresql import PASSWORD, PostgresqlServer
from tests.warehouses import Loads, Warehouse

ROUNDS = 5


def nested(rows: int) -> pa.Table:
    """Return rows with a record of two levels and a list."""
    return pa.table(
        {
            "id": range(rows),
            "customer": [
                {"name": f"customer {n}", "address": {"city": f"city {n % 100}", "zip": n}}
                for n in range(rows)
            ],
            "tags": [[f"tag {n % 7}", "new"] for n in range(rows)],
        }
    )


def flat(rows: int) -> pa.Table:
    """Return rows of eight columns."""
    texts = {f"text_{place}": [f"text {n % 1000}" for n in range(rows)] for place in range(4)}
    numbers = {f"number_{place}": range(place, rows + place) for place in range(3)}
    return pa.table({"id": range(rows), **numbers, **texts})


def main(engines: list[str], *, is_profiled: bool) -> None:
    """Measure and print."""
    kinds = {"one row": nested(1), "nested": nested(470_000), "flat": flat(400_000)}
    for engine in engines:
        each = {}
        for name, table in kinds.items():
            seconds = min(_load(engine, table) for _ in range(ROUNDS))
            each[name] = seconds / table.nbytes * 1e9
            print(f"{engine:10} {name:7} {table.num_rows:7} rows, {table.nbytes / 1e6:5.1f} MB:"
                  f" {seconds:5.2f} CPU s, {each[name]:5.1f} ns a byte", flush=True)  # fmt: skip
        print(f"{engine:10} nested columns take {each['nested'] / each['flat']:.2f} times the CPU"
              " of flat ones per byte", flush=True)  # fmt: skip
        if is_profiled:
            profile = cProfile.Profile(time.process_time)
            _load(engine, kinds["nested"], profile)
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def _load(engine: str, table: pa.Table, profile: cProfile.Profile | None = None) -> float:
    with ExitStack() as open_things:
        folder = Path(open_things.enter_context(tempfile.TemporaryDirectory()))
        loads = Loads(_warehouse(engine, folder, open_things), folder)
        first = loads.intent("run-0", table.slice(0, 1))
        loads.destination.carry_out(first)  # the driver's library is loaded, the table is there
        staged = loads.intent("run-1", table)
        destination = loads.destination
        begun = time.process_time()
        if profile is not None:
            profile.enable()
        destination.require_fit(staged.commit)
        destination.carry_out(staged)
        if profile is not None:
            profile.disable()
        return time.process_time() - begun


def _warehouse(engine: str, folder: Path, open_things: ExitStack) -> Warehouse:
    if engine != "postgresql":
        path = folder / f"warehouse.{engine}"
        schema = "shop" if engine == "duckdb" else ""
        return Warehouse(engine, f"{engine}:///{path}", schema, path)
    server = open_things.enter_context(PostgresqlServer())
    login = f"admin:{quote(PASSWORD, safe='')}"
    return Warehouse(engine, f"postgresql://{login}@127.0.0.1:{server.port}/postgres", "shop")


if __name__ == "__main__":
    names = [text for text in sys.argv[1:] if text != "--profile"]
    main(names or ["duckdb", "sqlite", "postgresql"], is_profiled="--profile" in sys.argv)
