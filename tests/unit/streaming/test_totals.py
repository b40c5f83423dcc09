"""One report of many micro-batches: nothing is lost, and nothing grows without a bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dil.model.report import (
    EventCounts,
    EventSummary,
    MergedRows,
    ReplacedRows,
    RowsAside,
    RunReport,
    RunStatus,
    SchemaDrift,
    UnitCounts,
)
from dil.model.stream import Look, MicroBatch
from dil.model.task import DiscardCount, RejectCount
from dil.observe.run_report import zero_rows
from dil.streaming.totals import Totals
from tests.micro_batches import plan_of

NOTHING = RunReport("feed", "", RunStatus.NOTHING_DUE, UnitCounts())
EVENTS = EventSummary(
    column="at", strategy="bounded", action="keep", judged_by=None, watermark=1, bound_ms=1,
    phase="", partitions=1, idle=(), idle_partitions=0, counts=EventCounts(late=2),
)  # fmt: skip
BATCH = replace(
    NOTHING,
    units=UnitCounts(1, 1),
    rows=1,
    bytes=2,
    requests=3,
    rows_read=4,
    rows_dropped=5,
    rows_beside=6,
    retries=7,
    peak_rss_bytes=8,
    events=EVENTS,
    batch=MicroBatch("e", 0),
)


def test_the_counts_of_all_micro_batches_are_summed() -> None:
    totals = Totals(NOTHING)
    totals.add(BATCH)
    totals.add(replace(BATCH, peak_rss_bytes=1))
    totals.add(replace(NOTHING, peak_rss_bytes=1))

    found = totals.report("run", 1.0)

    counted = ("rows", "bytes", "requests", "rows_read", "rows_dropped", "rows_beside", "retries")
    assert [getattr(found, name) for name in counted] == [2, 4, 6, 8, 10, 12, 14]
    assert (found.units, found.peak_rss_bytes) == (UnitCounts(2, 2), 8)
    assert found.events is not None
    assert found.events.counts.late == 4
    assert found.batch == MicroBatch("e", 0), "the last one that there was"


def test_files_beyond_the_first_thousand_are_counted() -> None:
    totals = Totals(NOTHING)
    for _ in range(3):
        totals.add(replace(BATCH, files=("file:///a",) * 600))

    found = totals.report("run", 1.0)

    assert len(found.files) == 1_000
    assert "and 800 more files" in found.notes


def test_each_run_that_any_look_finished_is_named_once() -> None:
    totals = Totals(NOTHING)
    for runs in (("a",), ("a", "b"), ()):
        totals.add_look(Look(plan_of(), recovered=runs))

    assert totals.report("run", 1.0).recovered == ("a", "b")


def test_rows_that_were_put_aside_are_summed_by_their_reasons() -> None:
    bad, strange = RejectCount("id", "no long", 3), RejectCount("at", "no time", 1)
    totals = Totals(NOTHING)
    totals.add(replace(BATCH, aside=RowsAside(3, "/q", (bad,), (DiscardCount("x", 2),))))
    totals.add(BATCH)
    totals.add(replace(BATCH, aside=RowsAside(5, "/q", (strange, replace(bad, rows=4)))))

    assert totals.report("run", 1.0).aside == RowsAside(
        8, "/q", (replace(bad, rows=7), strange), (DiscardCount("x", 2),)
    )


def test_what_a_merge_changed_and_what_was_replaced_is_summed() -> None:
    totals = Totals(NOTHING)
    totals.add(replace(BATCH, merged=MergedRows(1, 2, 3), replaced=ReplacedRows(4, 5)))
    totals.add(BATCH)
    totals.add(replace(BATCH, merged=MergedRows(10, 20, 30), replaced=ReplacedRows(40, 50)))

    found = totals.report("run", 1.0)

    assert (found.merged, found.replaced) == (MergedRows(11, 22, 33), ReplacedRows(44, 55))


def test_a_change_of_the_schema_is_named_once_and_a_column_that_came_is_not_missing() -> None:
    added = SchemaDrift("new", "added", "", "string")
    gone, back = (SchemaDrift(name, "missing", "long") for name in ("gone", "back"))
    totals = Totals(NOTHING)
    totals.add(replace(BATCH, drift=(gone, back)))
    totals.add(replace(BATCH, drift=(added, gone)))
    totals.add(replace(BATCH, drift=(added,), rows=0))

    assert totals.report("run", 1.0).drift == (gone, added)


@pytest.mark.parametrize(("rows", "warns"), [(1, False), (0, True)])
def test_only_a_stream_that_published_nothing_warns_of_it(rows: int, warns: bool) -> None:
    totals = Totals(NOTHING)
    totals.add(replace(BATCH, rows=rows, rows_beside=0))
    totals.add(
        replace(BATCH, rows=0, rows_beside=0, notes=zero_rows(RunStatus.SUCCESS, 0, usual=1))
    )

    assert any("NO ROWS" in note for note in totals.report("run", 1.0).notes) is warns
