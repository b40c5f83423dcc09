"""Backfills of jobs that publish to Delta and Iceberg tables: read aside, one transaction in."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from dil.errors import ConfigError
from dil.model.report import RunStatus
from dil.operator.backfill.publication import RowDecision
from tests.backfills import Backfills, correct, late_row, source_notes, take_away
from tests.marks import all_long_but
from tests.servers.http_server import HttpServer
from tests.stories import Story, day
from tests.table_readers import FORMATS, files_of, listed_files, rows_of

MERGE = {
    "ms__publish__mode": "merge",
    "extract__table__type": "SNAPSHOT_APPEND",
    "extract__primary__key__fields": "id,unit",
    "extract__delta__fields": "updated_ms",
}
MODES = {
    "append": {"ms__publish__mode": "append"},
    "window_replace": {"ms__publish__mode": "window_replace"},
    "replace": {"ms__publish__mode": "replace"},
    "merge": MERGE,
}


def rows_in(story: Story, kind: str) -> Counter[tuple[str, int, str | None]]:
    """Return what a reader of the table finds; the manifest lists the same files."""
    assert listed_files(story.folder) == files_of(kind, story.folder)
    table = rows_of(kind, story.folder)
    columns = (table[name].to_pylist() for name in ("unit", "id", "note"))
    return Counter(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("kind", "mode"),
    all_long_but(
        itertools.product(FORMATS, MODES),
        ("delta", "window_replace"), ("delta", "merge"), ("iceberg", "merge"),
    ),
)  # fmt: skip
def test_a_backfill_comes_into_a_table_and_can_be_taken_back(
    kind: str, mode: str, tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source, ms__table__format=kind, **MODES[mode])
    story.run(day(4))
    before, states = rows_in(story, kind), story.states()
    correct(source, "a", 5)
    late_row(source, "b", 2, 900)
    if mode != "merge":
        take_away(source, "a", 9)
    backfills = Backfills(story, 4)
    definition = backfills.take(range(1, 3))
    assert rows_in(story, kind) == before

    how = RowDecision.REPLACE if mode == "append" else RowDecision.UNDECIDED
    backfills.publish(definition, how)
    assert rows_in(story, kind) == source_notes(source, range(4))
    backfills.undo(definition)
    assert rows_in(story, kind) == before
    backfills.undo(definition)

    assert rows_in(story, kind) == source_notes(source, range(4))
    assert story.states() == states
    assert story.run(day(5)).status is RunStatus.SUCCESS
    assert rows_in(story, kind) == source_notes(source, range(5))
    assert story.head()


def test_a_partitioned_delta_table_keeps_its_partitions(tmp_path: Path, source: HttpServer) -> None:
    story = Story(
        tmp_path,
        source,
        ms__table__format="delta",
        ms__table__partition__fields="unit",
        **MODES["window_replace"],
    )
    story.run(day(4))
    correct(source, "a", 5)
    backfills = Backfills(story, 4)

    backfills.publish(backfills.take(range(1, 3)))

    assert rows_in(story, "delta") == source_notes(source, range(4))
    assert {path.parent.name for path in files_of("delta", tmp_path)} == {"unit=a", "unit=b"}


def test_a_partitioned_iceberg_table_has_no_backfills(tmp_path: Path, source: HttpServer) -> None:
    story = Story(
        tmp_path,
        source,
        ms__table__format="iceberg",
        ms__table__partition__fields="unit",
        **MODES["window_replace"],
    )
    story.run(day(4))

    with pytest.raises(ConfigError) as refused:
        Backfills(story, 4).begin(range(1, 3))

    assert [problem.key for problem in refused.value.problems] == ["ms.table.partition.fields"]
