"""Readers of a dataset's folder, at each step of a publish: whole files, and no row missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest

from dil.operator import amendments
from dil.operator.amendments import FileDecision, Selection
from dil.operator.compaction import CompactionRequest, compact
from dil.state.work_units.signatures import encoded
from dil.storage import LocalFilesystem
from tests.jobs import dataset
from tests.servers.http_server import HttpServer
from tests.servers.rows import generated_row
from tests.stories import Story, day, ids_of, work_unit

Rows = Counter[tuple[str, int]]
MERGE = {"extract__primary__key__fields": "unit,id", "extract__delta__fields": "updated_ms"}
SHARED = {"ms__output__file__per__work__unit": "false"}


def run_again(story: Story) -> None:
    story.source.dataset.extend([generated_row("a", 0, day(1) + 1000)])
    story.run(day(3))


def put_together(story: Story) -> None:
    compact(story.job(), CompactionRequest(clock=lambda: story.clock))


def withdraw_and_undo(story: Story) -> None:
    one = Selection(signatures=frozenset([encoded(work_unit(1, "a"))]))
    proposals = (
        lambda session: amendments.propose_forget(session, one, FileDecision.WITHDRAW),
        amendments.propose_undo,
    )
    for propose in proposals:
        with (
            story.store() as store,
            amendments.open_session(
                story.job(), store, "act", now_ms=day(3), clock=lambda: story.clock
            ) as session,
        ):
            amendments.apply(session, propose(session))


# Each case publishes two days of two units and then changes them. The rows at the end of a case
# have to stay visible all the time.
BOTH, OTHERS = ids_of("a", "b", days=range(2)), ids_of("b", days=range(2))
CASES: dict[str, tuple[dict[str, str], Callable[[Story], None], Rows]] = {
    "replace": ({"ms__publish__mode": "replace"}, run_again, BOTH),
    "merge": ({"ms__publish__mode": "merge", **MERGE}, run_again, BOTH),
    "compaction": ({}, put_together, BOTH),
    "withdrawn files": ({}, withdraw_and_undo, OTHERS),
    "withdrawn rows of shared files": (SHARED, withdraw_and_undo, OTHERS),
}


def by_pyarrow(folder: Path) -> Rows:
    table = ds.dataset(folder, format="parquet").to_table(columns=["unit", "id"])
    return Counter(zip(table["unit"].to_pylist(), table["id"].to_pylist(), strict=True))


def by_duckdb(folder: Path) -> Rows:
    with duckdb.connect() as connection:
        files = f"read_parquet('{folder}/[!_.]*.parquet')"
        return Counter(connection.sql(f"SELECT unit, id FROM {files}").fetchall())


def by_polars(folder: Path) -> Rows:
    return Counter(pl.read_parquet(folder / "[!_.]*.parquet", columns=["unit", "id"]).rows())


@pytest.mark.parametrize("case", CASES)
def test_no_reader_of_the_folder_misses_a_row_that_stays(
    case: str, source: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, act, staying = CASES[case]
    story = Story(tmp_path, source, **settings)
    story.run(day(2))
    looks = 0

    def look_after(name: str) -> None:
        step = getattr(LocalFilesystem, name)

        def step_and_look(*arguments: object, **options: object) -> object:
            nonlocal looks
            looks += 1
            done = step(*arguments, **options)
            rows = by_pyarrow(dataset(tmp_path))
            assert staying - rows == Counter()
            assert by_duckdb(dataset(tmp_path)) == rows
            assert by_polars(dataset(tmp_path)) == rows
            return done

        monkeypatch.setattr(LocalFilesystem, name, step_and_look)

    for name in ("open_output", "put", "put_if_absent", "move", "delete_file"):
        look_after(name)
    act(story)
    assert looks > 5
