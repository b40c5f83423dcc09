import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from feed import Record, load_flights
from proof import Proof, compare, data_files, read_rows

FLIGHTS = load_flights()[:50]


def rows_of(records: list[Record]) -> list[dict[str, object]]:
    """Return the rows that a right run publishes: the source's columns, typed, and one more."""
    rows = [json.loads(record.line) for record in records]
    for row in rows:
        row["scheduled"] = datetime.fromisoformat(row["scheduled"]).astimezone(UTC)
        row["extracted_at"] = 0
    return rows


def test_rows_that_landed_once_and_unchanged_prove_the_run() -> None:
    assert compare(FLIGHTS, rows_of(FLIGHTS)) == Proof(50, 50, 0, 0, 0, 0)
    assert compare(FLIGHTS, rows_of(FLIGHTS)).holds


def test_a_lost_row_is_missing() -> None:
    proof = compare(FLIGHTS, rows_of(FLIGHTS[1:]))
    assert proof.missing == 1
    assert not proof.holds


def test_every_surplus_copy_is_counted_as_doubled() -> None:
    proof = compare(FLIGHTS, rows_of([*FLIGHTS, FLIGHTS[0], FLIGHTS[0]]))
    assert proof.doubled == 2
    assert not proof.holds


def test_a_row_that_the_source_does_not_have_is_foreign() -> None:
    proof = compare(FLIGHTS[1:], rows_of(FLIGHTS))
    assert (proof.foreign, proof.changed) == (1, 0)
    assert not proof.holds


@pytest.mark.parametrize(
    ("column", "value"),
    [("distance", 1), ("dep_delay", None), ("scheduled", datetime(2013, 1, 1, tzinfo=UTC))],
)
def test_a_row_with_another_value_is_changed(column: str, value: object) -> None:
    rows = rows_of(FLIGHTS)
    rows[0][column] = value
    proof = compare(FLIGHTS, rows)
    assert proof.changed == 1
    assert not proof.holds


def test_a_column_that_is_missing_is_a_change() -> None:
    rows = rows_of(FLIGHTS)
    del rows[3]["carrier"]
    assert compare(FLIGHTS, rows).changed == 1


def test_only_published_files_are_read(tmp_path: Path) -> None:
    table = pa.table({"id": ["a"]})
    for name in ("part-1.parquet", "_dil/part-2.parquet", ".part-3.parquet", "sub/part-4.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / name)

    files = data_files(tmp_path)

    assert [path.relative_to(tmp_path).as_posix() for path in files] == [
        "part-1.parquet",
        "sub/part-4.parquet",
    ]
    assert read_rows(files) == [{"id": "a"}, {"id": "a"}]
