from __future__ import annotations

import pyarrow as pa

from tests.unit.conversion.conversion_jobs import convert

KNOWN = "id: int64 not null\nGone: struct<a: int32, b: list<item: string>> not null\nlast: double"


def test_columns_that_rows_lost_stay_as_null() -> None:
    made = convert(
        pa.record_batch({"ID": [1, 2], "new": ["a", "b"]}),
        keeps_columns=True,
        known_schema=KNOWN,
    )
    assert made.schema.names == ["ID", "new", "Gone", "last"]
    assert made.schema.field("Gone").nullable
    assert made.schema.field("Gone").type.field("b").type == pa.list_(pa.string())
    assert made.column("Gone").to_pylist() == [None, None]
    assert made.column("ID").to_pylist() == [1, 2]


def test_without_it_and_in_a_first_run_rows_have_their_own_columns() -> None:
    batch = pa.record_batch({"id": [1]})
    assert convert(batch, known_schema=KNOWN).schema.names == ["id"]
    assert convert(batch, keeps_columns=True).schema.names == ["id"]
