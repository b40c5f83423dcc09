"""Derived datasets over an input that ran, and had no row yet."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dil.operator.replaying import ReplayOutcome
from tests.derived import SCHEMA, Lake

LATE = {
    "ms.event.column": "id",
    "ms.event.watermark": "bounded",
    "ms.event.delay": "PT1S",
    "ms.late.action": "side_table",
}
CHANGELOG = {
    "ms.publish.mode": "merge",
    "extract.primary.key.fields": "id",
    "ms.publish.changelog": "true",
}


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def with_others(lake, beside=(), *, sql=None, **changes):
    """Write a job over the rows of ``orders`` and of ``others``, which ran without a row."""
    (lake.folder / "other").mkdir()
    (lake.folder / "other" / "1.json").write_text("[]")
    facts = {"ms.source.uri": str(lake.folder / "other"), **dict(beside)}
    lake.of_files("others", SCHEMA, facts)
    lake.run(lake.folder / "others.conf")
    every = "SELECT id, amount FROM orders UNION ALL SELECT id, amount FROM others"
    return lake.derive("every", every if sql is None else sql, "orders", "others", **changes)


def feed_others(lake, *ids):
    rows = [{"id": each, "amount": 0} for each in ids]
    (lake.folder / "other" / "2.json").write_text(json.dumps(rows))
    lake.run(lake.folder / "others.conf")


@pytest.mark.parametrize("beside", [{}, LATE, CHANGELOG], ids=["", "late", "changelog"])
@pytest.mark.parametrize("mode", ["append", "full"])
def test_sql_waits_for_the_first_row_of_each_input(lake, mode, beside):
    others = {"job": "others.conf", "as": "others", "late": beside is LATE}
    inputs = json.dumps([{"job": "orders.conf", "as": "orders"}, others])
    every = with_others(lake, beside, ms__query__mode=mode, ms__query__inputs=inputs)
    lake.feed(1)

    report = lake.run(every)

    advice = f"(dil run {lake.folder / 'others.conf'})"
    assert report.notes == (f"nothing is due: others has published no rows yet {advice}",)
    feed_others(lake, 2)
    assert lake.run(every).rows == 2
    assert lake.ids("every") == Counter([1, 2])


def test_a_slice_before_the_first_row_of_an_input_has_its_columns(lake):
    every = with_others(lake, ms__query__input__max__blocks="1")
    (lake.folder / "other" / "0.json").write_text("[]")
    lake.run(lake.folder / "others.conf")
    feed_others(lake, 2)
    lake.feed(1)

    while lake.run(every).status != "nothing_due":
        pass

    assert lake.ids("every") == Counter([1, 2])
    assert lake.verify(every).problems == ()


def test_a_function_that_saw_no_columns_sees_none_in_the_replay(lake, monkeypatch):
    monkeypatch.syspath_prepend(str(lake.folder))
    (lake.folder / "columns_of_others.py").write_text(
        "def rows(inputs):\n    return inputs['orders'].slice(len(inputs['others'].column_names))\n"
    )
    every = with_others(lake, sql="", ms__query__function="columns_of_others:rows")
    lake.feed(1, 2, 3)
    assert lake.run(every).rows == 3
    feed_others(lake, 4)
    lake.feed(5, 6, 7)
    assert lake.run(every).rows == 1

    assert {each.outcome for each in lake.replayed(every)} == {ReplayOutcome.SAME}
