"""Tables of labels that get what the base table has by now: what else their columns are stays."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dil.publishing.timeseries.rotation import Rotation
from tests.integration.test_rotation import LABELS, access_to
from tests.marks import some_long
from tests.timeseries import DAYS, KINDS, Series, label_warehouse, registry, require_whole
from tests.warehouses import new_warehouse


@pytest.fixture
def mysql(request, tmp_path):
    with new_warehouse("mysql", tmp_path, request) as made:
        yield made


@pytest.fixture
def postgresql(request, tmp_path):
    with new_warehouse("postgresql", tmp_path, request) as made:
        made.execute("CREATE SCHEMA shop")
        yield made


@pytest.fixture(params=["postgresql", "native"])
def labelled(request, tmp_path):
    with label_warehouse(request.param, tmp_path, request) as made:
        yield made


def row(number: int, text: str = "x") -> pa.Table:
    """Return one row, of 64 bits where the number needs them."""
    kind = pa.int32() if number < 2**31 else pa.int64()
    return pa.table({"unit": ["u"], "id": pa.array([number], kind), "note": [text]})


def put_together(warehouse, folder) -> tuple[Series, str]:
    """Return a timeseries whose oldest labels share a table, and that table's name."""
    series = Series(warehouse, folder, max_partitions=2)
    series.publish(*((day, "a", row(number)) for number, day in enumerate(DAYS[:4])))
    shared = registry(warehouse)[0][3]
    assert shared == registry(warehouse)[1][3]
    return series, shared


@pytest.mark.parametrize("kind", some_long(KINDS, "duckdb"))
def test_labels_that_share_a_table_take_wider_types(kind, tmp_path, request):
    with label_warehouse(kind, tmp_path, request) as warehouse:
        series, _ = put_together(warehouse, tmp_path)
        series.publish((DAYS[0], "a", row(2**40)))
        shown = [(day, number) for number, day in enumerate(DAYS[:4])]
        assert series.rows() == [(DAYS[0], 2**40), *shown[1:]]
        require_whole(warehouse)


def test_a_wider_column_keeps_not_null_default_comment_and_collation(mysql, tmp_path):
    mysql.execute(
        "CREATE TABLE orders (unit varchar(9), id int NOT NULL DEFAULT 7 COMMENT 'the number', "
        "note varchar(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'none')"
    )
    series, shared = put_together(mysql, tmp_path)

    series.publish((DAYS[0], "a", row(2**40, "longer than five")))

    made = mysql.rows(f"SHOW CREATE TABLE `{shared}`")[0][1]
    assert "`id` bigint(20) NOT NULL DEFAULT 7 COMMENT 'the number'" in made
    text = "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'none'"
    assert f"`note` {text}" in made
    assert (DAYS[0], 2**40) in series.rows()
    require_whole(mysql)


def test_a_column_that_is_added_has_the_collation_of_the_base(mysql, tmp_path):
    series, shared = put_together(mysql, tmp_path)
    series.publish((DAYS[0], "a", row(1).append_column("more", pa.array(["y"]))))

    found = "SELECT collation_name FROM information_schema.columns WHERE column_name = 'more' "
    assert mysql.rows(f"{found} AND table_name = '{shared}'") == [("utf8mb4_nopad_bin",)]
    require_whole(mysql)


def test_a_column_without_nulls_in_the_base_has_null_for_rows_from_before(mysql, tmp_path):
    series, _ = put_together(mysql, tmp_path)
    mysql.execute("ALTER TABLE orders ADD COLUMN more int NOT NULL DEFAULT 5")

    series.publish((DAYS[0], "a", row(10)))

    assert series.rows("id, more", "_timelabel")[1] == (1, None)
    require_whole(mysql)


def test_a_label_that_takes_more_events_keeps_what_its_columns_are(mysql):
    mysql.execute("CREATE TABLE events (number int NOT NULL DEFAULT 7, writer varchar(5) "
                  "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL)")  # fmt: skip
    access = access_to(mysql)
    mysql.execute("INSERT INTO events (writer) VALUES ('a')")
    access.rotate(Rotation(LABELS[0], now=5))
    mysql.execute(
        "ALTER TABLE events MODIFY number bigint NOT NULL DEFAULT 7, MODIFY writer varchar(50) "
        "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
        f"INSERT INTO events VALUES ({2**40}, 'much longer')",
    )

    assert access.rotate(Rotation(LABELS[0], now=6)).rows == 2

    made = mysql.rows(f"SHOW CREATE TABLE `_events_{LABELS[0]}`")[0][1]
    assert "`number` bigint(20) NOT NULL DEFAULT 7" in made
    assert "`writer` varchar(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL" in made


def test_a_wider_column_keeps_its_collation_on_postgresql(postgresql, tmp_path):
    postgresql.execute(
        'CREATE TABLE shop.orders (unit text, id int NOT NULL, note varchar(5) COLLATE "C")'
    )
    series, shared = put_together(postgresql, tmp_path)
    later = row(1, "longer than five")
    series.publish((DAYS[0], "a", later))

    found = "SELECT data_type, collation_name FROM information_schema.columns WHERE "
    where = f"table_name = '{shared}' AND column_name = 'note'"
    assert postgresql.rows(found + where) == [("text", "C")]
    require_whole(postgresql)


def test_the_view_and_the_rights_on_it_outlast_a_wider_column(labelled, tmp_path):
    series, _ = put_together(labelled, tmp_path)
    labelled.execute("GRANT SELECT ON shop.orders_view TO PUBLIC")
    series.publish((DAYS[0], "a", row(2**40)))

    may = "SELECT has_table_privilege('public', 'shop.orders_view', 'SELECT')"
    assert labelled.rows(may) == [(True,)]
    assert series.rows()[0] == (DAYS[0], 2**40)


def test_a_label_that_takes_more_events_gets_their_wider_type_on_postgresql(postgresql):
    postgresql.execute(
        "CREATE TABLE shop.events (number int)", "INSERT INTO shop.events VALUES (1)"
    )
    access = access_to(postgresql)
    access.rotate(Rotation(LABELS[0], now=5))
    postgresql.execute(
        "DROP VIEW shop.events_view", "ALTER TABLE shop.events ALTER number TYPE bigint",
        f"INSERT INTO shop.events VALUES ({2**40})",
    )  # fmt: skip

    assert access.rotate(Rotation(LABELS[0], now=6)).rows == 2

    found = postgresql.rows("SELECT number, _timelabel FROM shop.events_view ORDER BY 1")
    assert found == [(1, LABELS[0]), (2**40, LABELS[0])]


def test_columns_get_wider_where_every_label_is_gone(labelled, tmp_path):
    series = Series(labelled, tmp_path)
    series.publish((DAYS[0], "a", row(1)))
    labelled.execute("GRANT SELECT ON shop.orders_view TO PUBLIC")
    series.drop(DAYS[0])
    assert series.rows() == []

    series.publish((DAYS[1], "a", row(2**40)))

    assert series.rows() == [(DAYS[1], 2**40)]
    may = "SELECT has_table_privilege('public', 'shop.orders_view', 'SELECT')"
    assert labelled.rows(may) == [(True,)]
    require_whole(labelled)
