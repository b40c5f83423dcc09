"""Labels as partitions of PostgreSQL: what only they do, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import pairwise
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pytest

from dil.errors import ConfigError, ConversionError
from dil.model.destination import Physical
from dil.model.report import RunStatus
from dil.publishing.timeseries import TimeseriesDestination
from dil.publishing.warehouse import postgresql
from tests.integration.test_timelabels_again import Days, timed
from tests.integration.test_timeseries import Polled
from tests.servers.day_rows import DayRows
from tests.servers.postgresql import PASSWORD
from tests.servers.rows import DAY_MS, START_MS
from tests.timeseries import (
    DAYS,
    FILES,
    Series,
    label_of,
    label_warehouse,
    labels_of,
    partitions,
    registry,
    require_whole,
    table,
    tables,
)

WIDE = pa.table({"unit": ["u"], "id": pa.array([2**40], pa.int64())})


@pytest.fixture
def warehouse(request, tmp_path):
    with label_warehouse("native", tmp_path, request) as made:
        yield made


@pytest.fixture
def series(warehouse, tmp_path) -> Series:
    return Series(warehouse, tmp_path)


def plan_of(warehouse, statement: str) -> str:
    return "\n".join(line for (line,) in warehouse.rows(f"EXPLAIN {statement}"))


def by(series: Series, physical: Physical) -> TimeseriesDestination:
    """Return the destination of a job that keeps labels apart in another way."""
    warehouse = replace(series.spec.warehouse, physical=physical)
    return TimeseriesDestination(replace(series.spec, warehouse=warehouse), FILES)


def test_each_label_is_a_partition_and_the_view_reads_the_table(warehouse, series):
    series.publish((DAYS[0], "a", table(1, 2)), (DAYS[1], "a", table(3)))

    assert partitions(warehouse) == {f"_orders_{day}": {day} for day in DAYS[:2]}
    assert list(warehouse.columns("orders").items())[-1] == ("_timelabel", "text")
    text = warehouse.rows("SELECT pg_get_viewdef('shop.orders_view'::regclass)")[0][0]
    assert "UNION" not in text
    assert "orders._timelabel" in text
    held = "SELECT _timelabel, id FROM shop.orders ORDER BY 1, 2"
    assert series.rows() == warehouse.rows(held) == [(DAYS[0], 1), (DAYS[0], 2), (DAYS[1], 3)]
    indexes = "SELECT COUNT(*) FROM pg_indexes WHERE tablename LIKE '\\_orders\\_%'"
    assert warehouse.rows(indexes) == [(2,)]
    checks = "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conname = '_dil_label'"
    assert warehouse.rows(checks) == []


@pytest.mark.parametrize("name", ["orders", "orders_view"])
def test_who_asks_for_labels_reads_their_partitions_only(warehouse, series, name):
    series.publish(*((day, "a", table(1)) for day in DAYS[:4]))

    for condition, expected in (
        (f"_timelabel = '{DAYS[2]}'", [2]),
        (f"_timelabel IN ('{DAYS[0]}', '{DAYS[3]}')", [0, 3]),
        (f"_timelabel >= '{DAYS[2]}'", [2, 3]),
    ):
        plan = plan_of(warehouse, f"SELECT id FROM shop.{name} WHERE {condition}")
        assert [day for day in range(4) if f"_orders_{DAYS[day]}" in plan] == expected


def test_who_asks_for_times_reads_the_partitions_that_can_hold_them(warehouse, tmp_path):
    rows = [{"id": day, "at": f"2020-01-{day + 1:02} 12:00:00"} for day in range(4)]
    with DayRows({START_MS: rows}) as source:
        days = Days(tmp_path / "job", source, warehouse, **timed("timestamp"))
        assert days.run(1).status is RunStatus.SUCCESS

    plan = plan_of(warehouse, "SELECT id FROM shop.orders WHERE at >= '2020-01-03'")
    assert [day for day in range(4) if f"_orders_{label_of(day)}" in plan] == [2, 3]
    require_whole(warehouse)


def test_a_new_label_comes_while_others_are_read(warehouse, series):
    series.publish((DAYS[0], "a", table(1)))
    with warehouse.reader() as reader, reader.transaction():
        assert reader.execute("SELECT id FROM shop.orders_view").fetchall() == [(1,)]
        series.publish((DAYS[1], "a", table(2)))

    assert series.rows() == [(DAYS[0], 1), (DAYS[1], 2)]


def test_readers_see_all_rows_while_a_type_gets_wider(warehouse, series):
    series.publish(*((day, "a", table(1, 2)) for day in DAYS[:3]))
    with Polled(warehouse) as seen:
        series.publish((DAYS[3], "a", table(3)))
        series.publish((DAYS[4], "a", WIDE))

    assert all(before <= after for before, after in pairwise(seen))
    assert set(seen) <= {6, 7, 8}
    assert warehouse.columns("orders")["id"] == warehouse.columns("orders_view")["id"] == "bigint"
    require_whole(warehouse)


def test_a_load_that_widens_a_column_and_is_cut_off_is_finished(warehouse, series, monkeypatch):
    """Cut off at several of its statements, each time with another column."""
    cuts = range(2, 22, 5)
    narrow = {f"n{at}": pa.array([1], pa.int32()) for at in cuts}
    series.publish((DAYS[0], "a", table(1, **narrow)), (DAYS[1], "a", table(2, **narrow)))
    real = postgresql._Connection.change
    for number, at in enumerate(cuts):
        wide = {**narrow, f"n{at}": pa.array([2**40], pa.int64())}
        decided = series.decide((DAYS[number % 2], "b", table(3, **wide)))
        before, left = series.rows(), [at]

        def change(self, statement, *values, left=left):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            return real(self, statement, *values)

        with monkeypatch.context() as patched:
            patched.setattr(postgresql._Connection, "change", change)
            with pytest.raises(KeyboardInterrupt):
                series.destination.carry_out(decided)
        assert series.rows() == before
        series.destination.carry_out(decided)

        label = DAYS[number % 2]
        shown = f"SELECT n{at} FROM shop.orders_view WHERE id = 3 AND _timelabel = '{label}'"
        assert warehouse.rows(shown) == [(2**40,)]
        require_whole(warehouse)


def test_the_label_that_is_loaded_counts_not_a_column_of_that_name(warehouse, series):
    odd = table(1, 2, _timelabel=["other", None])
    series.publish((DAYS[0], "a", odd))
    series.publish((DAYS[1], "a", table(3)), (DAYS[0], "b", odd))

    rows = [(DAYS[0], 1), (DAYS[0], 1), (DAYS[0], 2), (DAYS[0], 2), (DAYS[1], 3)]
    assert series.rows() == rows
    require_whole(warehouse)


@pytest.mark.parametrize("value", [date(2020, 1, 1), 1.5, True, b"x"])
def test_a_column_of_that_name_may_have_any_type(warehouse, series, value, monkeypatch):
    decided = series.decide((DAYS[0], "a", table(1, _timelabel=[value])))
    with monkeypatch.context() as patched:
        patched.setattr(postgresql._Connection, "load", _cut_off)
        with pytest.raises(KeyboardInterrupt):
            series.destination.carry_out(decided)
    series.destination.carry_out(decided)
    series.publish((DAYS[0], "b", table(2, _timelabel=[value])))

    assert series.rows() == [(DAYS[0], 1), (DAYS[0], 2)]
    require_whole(warehouse)


def _cut_off(*_: object) -> None:
    raise KeyboardInterrupt


def test_numbers_of_the_table_are_those_of_all_labels(warehouse, tmp_path):
    warehouse.execute(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.orders (unit text, id int, number bigint GENERATED ALWAYS AS IDENTITY, "
        "_timelabel text, PRIMARY KEY (number, _timelabel)) PARTITION BY LIST (_timelabel)",
    )
    series = Series(warehouse, tmp_path, max_partitions=2)
    series.publish((DAYS[0], "a", table(1)), (DAYS[0], "b", table(2)))
    series.publish((DAYS[0], "a", table(3, 4, 5)), (DAYS[1], "a", table(6)))
    series.publish((DAYS[0], "b", table(7, 8)), *((day, "a", table(9)) for day in DAYS[2:4]))
    series.publish((DAYS[0], "a", table(1, 2)))

    numbers = [number for (number,) in series.rows("number")]
    assert len(numbers) == len(set(numbers)) == 7
    require_whole(warehouse)


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("trigger watch", "CREATE TRIGGER watch BEFORE UPDATE OF id ON shop.orders FOR EACH ROW"
         " EXECUTE FUNCTION suppress_redundant_updates_trigger()"),
        ("policy own", "CREATE POLICY own ON shop.orders USING (id > 0)"),
        ("function newest", "CREATE FUNCTION newest() RETURNS int BEGIN ATOMIC"
         " SELECT max(id) FROM shop.orders; END"),
    ],
)  # fmt: skip
def test_what_keeps_a_type_as_it_is_is_told_before_anything_is_decided(
    warehouse, series, name, statement
):
    series.publish((DAYS[0], "a", table(1)))
    warehouse.execute(statement)
    with pytest.raises(ConversionError, match=f"column id .* {name}"):
        series.destination.require_fit(series.decide((DAYS[0], "b", WIDE)).commit)
    series.publish((DAYS[0], "b", table(2)))
    assert series.rows() == [(DAYS[0], 1), (DAYS[0], 2)]


def test_a_partition_that_was_moved_elsewhere_is_refused(warehouse, series):
    series.publish((DAYS[0], "a", table(1)))
    decided = series.decide((DAYS[1], "a", table(2)))
    warehouse.execute(
        "CREATE SCHEMA archive", f"ALTER TABLE shop._orders_{DAYS[0]} SET SCHEMA archive"
    )
    for act in (series.destination.check, lambda: series.destination.require_fit(decided.commit)):
        with pytest.raises(ConfigError, match=rf"has the partition archive\._orders_{DAYS[0]}"):
            act()


def test_a_table_of_ones_own_may_have_keys_numbers_and_computed_columns(warehouse, tmp_path):
    warehouse.execute(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.orders (unit text, id int, number bigint GENERATED ALWAYS AS IDENTITY, "
        "twice int GENERATED ALWAYS AS (id * 2) STORED, place text DEFAULT 'here', "
        "_timelabel text, PRIMARY KEY (id, _timelabel)) PARTITION BY LIST (_timelabel)",
    )
    series = Series(warehouse, tmp_path, max_partitions=2)
    series.publish((DAYS[0], "a", table(1)), (DAYS[0], "b", table(2)))
    series.publish((DAYS[0], "a", table(3)))
    warehouse.execute("ALTER TABLE shop.orders ADD COLUMN more int DEFAULT 5")
    series.publish(*((day, "a", table(4)) for day in DAYS[1:3]))

    shown = series.rows("id, twice, place, more", "_timelabel, id")
    assert shown == [(n, 2 * n, "here", 5) for n in (2, 3, 4, 4)]
    require_whole(warehouse)
    with pytest.raises(psycopg.errors.UniqueViolation):
        warehouse.execute(f"INSERT INTO shop.orders (id, _timelabel) VALUES (2, '{DAYS[0]}')")

    series.publish((DAYS[0], "b", table(9)))
    assert series.rows("id, twice", "_timelabel, id") == [(n, 2 * n) for n in (3, 9, 4, 4)]
    warehouse.execute(
        "CREATE TABLE shop.notes (id int, label text, "
        "FOREIGN KEY (id, label) REFERENCES shop.orders (id, _timelabel))"
    )
    with pytest.raises(ConfigError, match=r"a foreign key of shop\.notes refers to"):
        series.destination.check()


@pytest.mark.parametrize("first", list(Physical))
def test_labels_that_were_kept_apart_in_another_way_are_refused(warehouse, tmp_path, first):
    series = Series(warehouse, tmp_path, physical=first)
    series.publish((DAYS[0], "a", table(1)))
    (second,) = set(Physical) - {first}
    other = by(series, second)
    decided = series.decide((DAYS[1], "a", table(2)))
    before = tables(warehouse), registry(warehouse)

    for act in (other.check, lambda: other.require_fit(decided.commit),
                lambda: other.carry_out(decided)):  # fmt: skip
        with pytest.raises(ConfigError, match=rf'is "{second}", and .*\s+Set .*={first}'):
            act()
    assert (tables(warehouse), registry(warehouse)) == before

    series.destination.check()
    series.destination.carry_out(decided)
    assert series.rows() == [(DAYS[0], 1), (DAYS[1], 2)]
    require_whole(replace(warehouse, physical=first))


def test_a_run_of_a_job_that_was_changed_is_refused_before_anything_is_read(warehouse, tmp_path):
    with DayRows({START_MS + day * DAY_MS: [{"id": day, "unit": "a"}] for day in (0, 1)}) as source:
        assert Days(tmp_path / "job", source, warehouse).run(1).status is RunStatus.SUCCESS
        changed = Days(tmp_path / "job", source, replace(warehouse, physical=Physical.TABLES))
        with pytest.raises(ConfigError, match='is "tables", and'):
            changed.run(2)

    assert labels_of(warehouse) == {label_of(0): ("LOADED", 1)}
    require_whole(warehouse)


def test_partitions_of_others_and_labels_without_theirs_are_refused(warehouse, series):
    series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))
    warehouse.execute("CREATE TABLE shop.rest PARTITION OF shop.orders DEFAULT")
    with pytest.raises(ConfigError, match="has the partition rest, which no timelabel has"):
        series.destination.check()

    warehouse.execute(
        "DROP TABLE shop.rest", f"ALTER TABLE shop.orders DETACH PARTITION shop._orders_{DAYS[0]}"
    )
    with pytest.raises(ConfigError, match=f"_orders_{DAYS[0]}.* is not a partition of"):
        series.destination.check()


def test_a_column_that_others_read_does_not_get_wider(warehouse, series):
    series.publish((DAYS[0], "a", table(1)))
    for read in ("orders", f"_orders_{DAYS[0]}"):
        warehouse.execute(f"CREATE VIEW shop.mine AS SELECT id FROM shop.{read}")
        with pytest.raises(ConversionError, match=r"column id .*shop\.mine reads it") as caught:
            series.publish((DAYS[1], "a", WIDE))
        assert "Drop shop.mine first" in caught.value.fix
        warehouse.execute("DROP VIEW shop.mine")
    warehouse.execute("CREATE VIEW shop.mine AS SELECT unit FROM shop.orders")

    series.publish((DAYS[1], "a", WIDE))

    assert series.rows() == [(DAYS[0], 1), (DAYS[1], 2**40)]


def test_who_does_not_own_the_table_is_told_so(warehouse, series, tmp_path, request):
    series.publish((DAYS[0], "a", table(1)))
    server = request.getfixturevalue("postgresql_server")
    server.execute("CREATE USER poor WITH PASSWORD 'pw'")
    try:
        warehouse.execute(
            "GRANT USAGE, CREATE ON SCHEMA shop TO poor",
            "GRANT ALL ON ALL TABLES IN SCHEMA shop TO poor",
        )
        login = f"admin:{quote(PASSWORD, safe='')}@"
        poor = replace(warehouse, url=warehouse.url.replace(login, "poor:pw@"))
        with pytest.raises(ConfigError, match="belongs to admin"):
            Series(poor, tmp_path).destination.check()
    finally:
        warehouse.execute("DROP OWNED BY poor")
        server.execute("DROP USER poor")
