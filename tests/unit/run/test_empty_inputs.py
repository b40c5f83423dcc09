"""Derived datasets over an input that ran, and had no row yet."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.derived import SCHEMA, Lake


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def with_others(lake, **changes):
    """Write a job over the rows of ``orders`` and of ``others``, which ran without a row."""
    (lake.folder / "other").mkdir()
    (lake.folder / "other" / "1.json").write_text("[]")
    lake.of_files("others", SCHEMA, {"ms.source.uri": str(lake.folder / "other")})
    lake.run(lake.folder / "others.conf")
    every = "SELECT id, amount FROM orders UNION ALL SELECT id, amount FROM others"
    return lake.derive("every", every, "orders", "others", **changes)


def feed_others(lake, *ids):
    rows = [{"id": each, "amount": 0} for each in ids]
    (lake.folder / "other" / "2.json").write_text(json.dumps(rows))
    lake.run(lake.folder / "others.conf")


@pytest.mark.parametrize("mode", ["append", "full"])
def test_sql_waits_for_the_first_row_of_each_input(lake, mode):
    every = with_others(lake, ms__query__mode=mode)
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
