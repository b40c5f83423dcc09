"""Queries of derived datasets on real Spark: examples, types, destinations, refusals."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.derived import NOW, Shop
from tests.integration.spark_runs import reports_of
from tests.table_readers import catalog

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.spark

TYPED = (
    "SELECT id, CAST(amount AS DECIMAL(12, 2)) AS price, DATE '2024-02-29' AS day,"
    " TIMESTAMP '2024-02-29 12:00:00.000001' AS at, array(id, NULL) AS ids,"
    " named_struct('a', id, 'b', CAST(id AS STRING)) AS record, map('k', id) AS pairs,"
    " CAST(NULL AS STRING) AS nothing, encode(CAST(id AS STRING), 'utf-8') AS bytes,"
    " id > 3 AS is_big, CAST(id AS DOUBLE) / 4 AS quarter FROM orders"
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Run many jobs in one process, because the start of Spark is what costs."""
    lake = Shop(tmp_path_factory.mktemp("queries") / "lake")
    lake.put({1: 10, 2: 20})
    lake.put({2: 25, 3: 30}, deleted=[1])
    (lake.folder / "in").rename(lake.folder / "merged")
    (lake.folder / "in").mkdir()
    lake.feed(*range(6))
    lake.feed(*range(6, 10))
    (lake.folder / "sums.py").write_text(
        "def total(inputs):\n"
        "    return inputs['orders'].groupBy().count().withColumnRenamed('count', 'id')\n"
        "def wrong(inputs):\n"
        "    return 7\n"
        "def made(inputs):\n"
        "    rows = inputs['orders']\n"
        "    return rows.union(rows.sparkSession.createDataFrame([(999, 0)], rows.schema))\n"
        "def chosen(inputs):\n"
        "    rows = inputs['orders']\n"
        "    return rows.where('id < 3').union(rows.where('id > 7'))\n"
        "def broken(inputs):\n"
        "    raise KeyError('no such thing')\n"
    )
    appended = {"extract__table__type": "APPEND_ONLY", "writer__file__path__type": ""}
    (lake.folder / "text.sql").write_text("SELECT id\nFRUM orders\n")
    (lake.folder / "value.sql").write_text(
        "SELECT\n  CAST(concat('x', id) AS INT) AS id FROM orders"
    )
    lines = "SELECT id, \\\n    amuont \\\n    FROM orders"
    paths = {
        "lines": lake.derive("lines", lines),
        "text": lake.derive("text", "", ms__query__file="text.sql"),
        "value": lake.derive("value", "", ms__query__file="value.sql"),
        "typed": lake.derive("typed", TYPED),
        "again": lake.derive("again", "SELECT * FROM typed", "typed"),
        "avro": lake.derive("avro", TYPED.replace("map('k', id) AS pairs,", ""),
                            writer__output__format="AVRO"),
        "total": lake.derive("total", "", ms__query__function="sums:total",
                             ms__query__mode="full"),
        "none": lake.derive("none", "SELECT * FROM orders WHERE id < 0"),
        "delta": lake.derive("delta", "SELECT * FROM orders", ms__table__format="delta",
                             **appended),
        "iceberg": lake.derive("iceberg", "SELECT * FROM orders", ms__table__format="iceberg",
                               **appended),
        "ducks": lake.derive("ducks", "SELECT * FROM orders", **appended,
                              ms__warehouse__url=f"duckdb:///{lake.folder}/w.duckdb"),
        "of_delta": lake.derive("of_delta", "SELECT * FROM delta WHERE id > 7", "delta"),
        "two": lake.derive("two", "SELECT * FROM orders UNION ALL SELECT * FROM delta",
                           "orders", "delta"),
        "typo": lake.derive("typo", "SELECT amuont FROM orders"),
        "syntax": lake.derive("syntax", "SELEC id FROM orders"),
        "insert": lake.derive("insert", f"INSERT OVERWRITE LOCAL DIRECTORY '{lake.folder}/evil'"
                              " USING csv SELECT * FROM orders"),
        "drop": lake.derive("drop", "DROP TABLE orders"),
        "sum": lake.derive("sum", "SELECT sum(amount) AS id FROM orders"),
        "join": lake.derive("join", "SELECT o.id FROM orders o JOIN delta d ON o.id = d.id",
                            "orders", "delta"),
        "in": lake.derive("in", "SELECT id FROM orders WHERE id IN (SELECT id FROM delta)",
                          "orders", "delta"),
        "distinct": lake.derive("distinct", "SELECT DISTINCT id FROM orders"),
        "limit": lake.derive("limit", "SELECT id FROM orders LIMIT 3"),
        "twice": lake.derive("twice", "SELECT id, id FROM orders"),
        "cast": lake.derive("cast", "SELECT CAST(concat('x', id) AS INT) AS id FROM orders"),
        "literal": lake.derive("literal", "SELECT id FROM orders UNION ALL SELECT 999"),
        "values": lake.derive("values",
                              "SELECT id FROM orders UNION ALL SELECT * FROM VALUES (999L), (7L)"),
        "range": lake.derive("range", "SELECT id FROM orders UNION ALL SELECT id FROM range(3)"),
        "file": lake.derive("file", "SELECT id FROM orders UNION ALL SELECT id FROM"
                            f" parquet.`{lake.folder}/lake/shop/orders`"),
        "made": lake.derive("made", "", ms__query__function="sums:made"),
        "chosen": lake.derive("chosen", "", ms__query__function="sums:chosen"),
        "with": lake.derive("with", "WITH few AS (SELECT id FROM orders WHERE id IN (1, 2))"
                            " SELECT id FROM few UNION ALL SELECT id FROM few"),
        "split": lake.derive("split", "SELECT id, part FROM orders"
                             " LATERAL VIEW explode(array(1, 2)) parts AS part"),
        "log": lake.derive("log", "SELECT op, id, amount FROM merged", "merged"),
        "wrong": lake.derive("wrong", "", ms__query__function="sums:wrong"),
        "broken": lake.derive("broken", "", ms__query__function="sums:broken"),
    }  # fmt: skip
    lake.reports = reports_of(paths, NOW + 3_600_000)
    return lake


@pytest.mark.parametrize(
    ("name", "rows"),
    [("typed", 10), ("again", 10), ("avro", 10), ("total", 1), ("none", 0), ("delta", 10),
     ("iceberg", 10), ("ducks", 10), ("of_delta", 2), ("two", 20),
     ("chosen", 5), ("with", 4), ("split", 20), ("log", 6)],
)  # fmt: skip
def test_a_query_is_run_and_its_chain_is_sound(lake, name, rows):
    report = lake.reports[name]
    assert (report["status"], report["rows"]) == ("success", rows), report["failures"]
    assert lake.verify(lake.folder / f"{name}.conf").problems == ()


def test_values_of_all_types_come_as_they_are_and_go_on_to_the_next_dataset(lake):
    (path,) = (lake.folder / "lake" / "shop" / "again").rglob("part-*.parquet")
    row = pq.ParquetFile(path).read().to_pylist()[4]

    assert row == {
        "id": 4,
        "price": Decimal("40.00"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        "ids": [4, None],
        "record": {"a": 4, "b": "4"},
        "pairs": [("k", 4)],
        "nothing": None,
        "bytes": b"4",
        "is_big": True,
        "quarter": 1.0,
    }
    hashes = {
        lake.data(lake.folder / f"{name}.conf")[0]["newData"]["logicalHash"]
        for name in ("typed", "again")
    }
    assert len(hashes) == 1


def test_rows_land_in_tables_and_databases_as_those_of_a_source(lake):
    delta = DeltaTable(lake.folder / "lake" / "shop" / "delta").to_pyarrow_table()
    assert Counter(delta["id"].to_pylist()) == Counter(range(10))
    found = catalog(lake.folder)
    iceberg = found.load_table("shop.iceberg").scan().to_arrow()
    found.close()
    assert Counter(iceberg["id"].to_pylist()) == Counter(range(10))
    with duckdb.connect(str(lake.folder / "w.duckdb"), read_only=True) as connection:
        rows = connection.sql("SELECT id FROM shop.ducks").fetchall()
    assert Counter(row[0] for row in rows) == Counter(range(10))


def test_a_changelog_is_read_with_what_happened_in_its_order(lake):
    changes = []
    for part in lake.data(lake.folder / "log.conf")[0]["newData"]["parts"]:
        changes += pq.read_table(part["path"].removeprefix("file://")).to_pylist()

    found = [tuple(each.values()) for each in changes]
    assert found[:2] == [(0, 1, 10), (0, 2, 20)]
    at = found.index((2, 2, 20))
    assert found[at + 1] == (3, 2, 25)
    assert sorted(found[2:]) == [(0, 3, 30), (1, 1, 10), (2, 2, 20), (3, 2, 25)]


def test_offsets_follow_those_of_the_input_file_by_file(lake):
    ids = []
    for part in lake.data(lake.folder / "of_delta.conf")[0]["newData"]["parts"]:
        ids += pq.read_table(part["path"].removeprefix("file://"))["id"].to_pylist()
    assert ids == [8, 9]


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("typo", "DIL-QUERY", "amuont"),
        ("syntax", "DIL-QUERY", "SELEC"),
        ("lines", "DIL-QUERY", "Spark refuses the query at {folder}/lines.conf:11: "),
        ("text", "DIL-QUERY", "Spark refuses the query at {folder}/text.sql:2: [PARSE_SYNTAX"),
        ("value", "DIL-QUERY", "the query failed at {folder}/value.sql:2: [CAST_INVALID_INPUT]"),
        ("insert", "DIL-QUERY", "the SQL is no query"),
        ("drop", "DIL-QUERY", "the SQL is no query"),
        ("sum", "DIL-QUERY", "the query aggregates rows, but ms.query.mode=append"),
        ("join", "DIL-QUERY", "the query joins datasets"),
        ("in", "DIL-QUERY", "the query looks rows up in a subquery"),
        ("distinct", "DIL-QUERY", "the query looks for distinct rows"),
        ("limit", "DIL-QUERY", "takes some of the rows (LIMIT)"),
        ("literal", "DIL-QUERY", "has rows that are not of its inputs (OneRowRelation)"),
        ("values", "DIL-QUERY", "has rows that are not of its inputs (LocalRelation)"),
        ("range", "DIL-QUERY", "has rows that are not of its inputs (Range)"),
        ("file", "DIL-QUERY", "has rows that are not of its inputs (LogicalRelation)"),
        ("made", "DIL-QUERY", "has rows that are not of its inputs (LogicalRDD)"),
        ("twice", "DIL-QUERY", 'gives the column "id" more than once'),
        ("cast", "DIL-QUERY", "CAST_INVALID_INPUT"),
        ("wrong", "DIL-QUERY", "sums:wrong returned int, not a DataFrame"),
        ("broken", "DIL-QUERY", "sums:broken failed: KeyError: 'no such thing' (sums.py, line "),
    ],
)
def test_a_query_that_cannot_be_run_fails_and_publishes_nothing(lake, name, code, text):
    report = lake.reports[name]
    assert report["status"] == "failed"
    (failure,) = report["failures"]
    assert failure["code"] == code
    assert text.format(folder=lake.folder) in failure["error"]
    assert failure["fix"]
    assert lake.blocks(lake.folder / f"{name}.conf") == []
    assert not (lake.folder / "evil").exists()


def test_the_examples_are_a_chain_of_three_datasets(tmp_path):
    folder = tmp_path / "conf" / "examples" / "derived"
    shutil.copytree(ROOT / "conf" / "examples" / "derived", folder)
    names = ("weather", "frost", "frost_hours")
    reports = reports_of({name: folder / f"{name}.conf" for name in names}, NOW)

    assert {name: report["rows"] for name, report in reports.items()} == {
        "weather": 8,
        "frost": 4,
        "frost_hours": 3,
    }
    (path,) = (tmp_path / ".demo" / "lake" / "derived_frost_hours").glob("part-*")
    rows = sorted(pq.ParquetFile(path).read().to_pylist(), key=lambda row: row["origin"])
    assert rows == [
        {"origin": "EWR", "hours": 2, "coldest": -2.0},
        {"origin": "JFK", "hours": 1, "coldest": -0.1},
        {"origin": "LGA", "hours": 1, "coldest": -1.5},
    ]
