"""Tables of timelabels on each kind of database: what a commit does to labels, and to no other."""

from __future__ import annotations

import runpy
import threading
import time
from contextlib import nullcontext
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pytest

from dil.config import load
from dil.errors import ConfigError, ConversionError, WriteError
from dil.model.report import RunStatus
from dil.publishing.timeseries import engines, in_transaction
from dil.publishing.timeseries.access import open_access
from dil.publishing.timeseries.in_steps import StepLoader
from dil.publishing.timeseries.loading import TimeseriesTable
from dil.publishing.timeseries.registry import LabelState
from dil.publishing.warehouse import mysql
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.testing.in_process import InProcessExecutor
from tests.marks import all_long_but, some_long
from tests.servers.rows import DAY_MS, START_MS
from tests.timeseries import (
    DAYS,
    FILES,
    KINDS,
    Series,
    label_warehouse,
    labels_of,
    registry,
    require_whole,
    table,
    tables,
)
from tests.warehouses import ENGINES, Warehouse, new_warehouse

EXAMPLES = Path(__file__).parents[2] / "conf/examples"


@pytest.fixture(params=some_long(KINDS, "duckdb"))
def warehouse(request, tmp_path):
    with label_warehouse(request.param, tmp_path, request) as made:
        yield made


def test_rows_of_work_units_that_were_not_read_again_stay(warehouse, tmp_path):
    series = Series(warehouse, tmp_path)
    series.publish((DAYS[0], "a", table(1, 2)), (DAYS[0], "b", table(3)), (DAYS[1], "a", table(4)))

    intent = series.publish((DAYS[0], "a", table(1, 5, 6)))

    expected = [(DAYS[0], 1), (DAYS[0], 3), (DAYS[0], 5), (DAYS[0], 6), (DAYS[1], 4)]
    assert series.rows() == expected
    assert labels_of(warehouse) == {DAYS[0]: ("LOADED", 4), DAYS[1]: ("LOADED", 1)}
    assert {file.run_id for file in series.destination.live()} == {"run-1", "run-2"}
    require_whole(warehouse)

    series.destination.carry_out(intent)
    assert series.rows() == expected
    require_whole(warehouse)


def test_a_label_that_has_no_rows_any_more_is_empty(warehouse, tmp_path):
    series = Series(warehouse, tmp_path)
    series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))

    series.publish((DAYS[0], "a", table()))
    assert series.rows() == [(DAYS[1], 2)]
    series.publish((DAYS[1], "a", None))

    assert series.rows() == []
    assert labels_of(warehouse) == {DAYS[0]: ("LOADED", 0), DAYS[1]: ("LOADED", 0)}
    require_whole(warehouse)


def test_columns_that_come_later_are_null_before_and_wider_types_are_shown(warehouse, tmp_path):
    series = Series(warehouse, tmp_path)
    series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))

    note, wide = ["later"], pa.array([2**40], pa.int64())
    later = pa.table({"unit": ["u"], "id": wide, "note": note})
    series.publish((DAYS[1], "b", later), (DAYS[2], "a", table(3, note=["x"])))

    assert series.rows("_timelabel, id, note") == [
        (DAYS[0], 1, None), (DAYS[1], 2, None), (DAYS[1], 2**40, "later"), (DAYS[2], 3, "x"),
    ]  # fmt: skip
    require_whole(warehouse)


def test_labels_past_their_time_go_with_the_next_commit_and_stay_away(warehouse, tmp_path):
    series = Series(warehouse, tmp_path, retention_ms=3 * DAY_MS)
    series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))

    series.publish((DAYS[5], "a", table(6)), now=START_MS + 4 * DAY_MS + 1)
    assert series.rows() == [(DAYS[1], 2), (DAYS[5], 6)]
    series.publish((DAYS[0], "a", table(1)), (DAYS[6], "a", table(7)), now=START_MS + 5 * DAY_MS)

    assert series.rows() == [(DAYS[1], 2), (DAYS[5], 6), (DAYS[6], 7)]
    assert labels_of(warehouse)[DAYS[0]] == ("DROPPED", 0)
    assert {file.timelabel for file in series.destination.live()} == {DAYS[1], DAYS[5], DAYS[6]}
    require_whole(warehouse)


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_a_label_that_was_reopened_is_kept_as_long_again_from_when_it_was_loaded(
    warehouse, tmp_path
):
    series = Series(warehouse, tmp_path, retention_ms=3 * DAY_MS)
    series.publish((DAYS[0], "a", table(1)), (DAYS[5], "a", table(5)))
    reopened = frozenset({DAYS[0]})
    open_access(series.spec, FILES).set_state(reopened, LabelState.REOPENED)

    series.publish((DAYS[5], "a", table(6)), now=START_MS + 9 * DAY_MS)
    assert series.rows() == [(DAYS[0], 1), (DAYS[5], 6)]
    series.publish((DAYS[0], "a", table(2)), now=START_MS + 10 * DAY_MS)
    series.publish((DAYS[12], "a", table(12)), now=START_MS + 13 * DAY_MS)
    assert series.rows() == [(DAYS[0], 2), (DAYS[12], 12)]
    series.publish((DAYS[12], "a", table(13)), now=START_MS + 13 * DAY_MS + 1)

    assert series.rows() == [(DAYS[12], 13)]
    require_whole(warehouse)


def test_labels_without_rows_are_dropped_without_a_commit(warehouse, tmp_path):
    series = Series(warehouse, tmp_path)
    series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))
    series.publish((DAYS[0], "a", None))

    open_access(series.spec, FILES).drop_empty(frozenset({DAYS[0]}))

    assert series.rows() == [(DAYS[1], 2)]
    assert labels_of(warehouse)[DAYS[0]] == ("DROPPED", 0)
    require_whole(warehouse)


@pytest.mark.parametrize("state", list(LabelState))
@pytest.mark.parametrize("warehouse", some_long(ENGINES, "mysql", "duckdb"), indirect=True)
def test_a_label_of_each_state_is_loaded_again_unless_it_is_shut(warehouse, tmp_path, state):
    series, access = Series(warehouse, tmp_path), None
    series.publish((DAYS[0], "a", table(1)))
    access = open_access(series.spec, FILES)
    access.set_state(frozenset({DAYS[0]}), state)

    if state in {LabelState.CLOSED, LabelState.DROPPED}:
        with pytest.raises(WriteError, match="dil timelabels reopen"):
            series.publish((DAYS[0], "a", table(2)))
        access.set_state(frozenset({DAYS[0]}), LabelState.REOPENED)
    series.publish((DAYS[0], "a", table(2)))

    assert series.rows() == [(DAYS[0], 2)]
    require_whole(warehouse)


@pytest.mark.parametrize("warehouse", all_long_but(KINDS, "postgresql", "sqlite"), indirect=True)
def test_the_oldest_labels_share_a_table_where_there_are_too_many(warehouse, tmp_path):
    series = Series(warehouse, tmp_path, max_partitions=3)
    for number in range(5):
        series.publish((DAYS[number], "a", table(number)), (DAYS[number], "b", table(100 + number)))

    held = [name for _, _, _, name in registry(warehouse)]
    assert len(set(held)) <= 3 < len(held)
    assert f"_orders_{DAYS[0]}_" in held[0]
    require_whole(warehouse)

    series.publish((DAYS[0], "a", table(50, 51, note=["x", "y"])))

    assert [row for row in series.rows() if row[0] == DAYS[0]] == [
        (DAYS[0], 50), (DAYS[0], 51), (DAYS[0], 100),
    ]  # fmt: skip
    notes = [note for _, note in series.rows("id, note", "id") if note]
    assert notes == ["x", "y"]
    require_whole(warehouse)


def test_labels_that_share_a_table_stay_when_others_of_its_name_are_put_together(
    warehouse, tmp_path
):
    series = Series(warehouse, tmp_path, max_partitions=3)
    series.publish(*((DAYS[number], "a", table(number)) for number in range(5)))
    series.drop(DAYS[0], DAYS[2], DAYS[3])
    again = frozenset({DAYS[0], DAYS[2]})
    open_access(series.spec, FILES).set_state(again, LabelState.REOPENED)

    series.publish((DAYS[0], "a", table(0)))
    series.publish((DAYS[2], "a", table(2)))

    assert series.rows() == [(DAYS[number], number) for number in (0, 1, 2, 4)]
    require_whole(warehouse)


def test_what_a_run_put_in_place_and_did_not_record_is_taken_back_by_the_next(
    tmp_path, request, monkeypatch
):
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        series.publish((DAYS[0], "a", table(1)), (DAYS[0], "b", table(2)), (DAYS[1], "a", table(3)))
        cut_off = series.decide(
            (DAYS[0], "a", table(1, 10)), (DAYS[1], "a", table(3, 30)), (DAYS[2], "a", table(4))
        )
        with monkeypatch.context() as patched:
            patched.setattr(StepLoader, "_record", stop)
            with pytest.raises(KeyboardInterrupt):
                series.destination.carry_out(cut_off)

        series.publish((DAYS[0], "b", table(2, 20)))
        first = [(DAYS[0], 1), (DAYS[0], 2), (DAYS[0], 20), (DAYS[1], 3)]
        assert series.rows() == first
        series.destination.carry_out(cut_off)

        later = [(DAYS[0], 1), (DAYS[0], 2), (DAYS[0], 10), (DAYS[0], 20)]
        assert series.rows() == [*later, (DAYS[1], 3), (DAYS[1], 30), (DAYS[2], 4)]
        require_whole(warehouse)


def test_what_a_run_recorded_and_did_not_tidy_up_stays(tmp_path, request, monkeypatch):
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        series.publish((DAYS[0], "a", table(1)), (DAYS[0], "b", table(2)))
        with monkeypatch.context() as patched:
            patched.setattr(StepLoader, "_tidy", stop)
            with pytest.raises(KeyboardInterrupt):
                series.publish((DAYS[0], "a", table(10)))

        series.publish((DAYS[1], "a", table(3)))

        assert series.rows() == [(DAYS[0], 2), (DAYS[0], 10), (DAYS[1], 3)]
        require_whole(warehouse)


def stop(*_: object) -> None:
    """Stand for a process that ends here."""
    raise KeyboardInterrupt


def test_more_labels_than_sqlite_reads_in_one_view_can_come_in_one_commit(tmp_path, request):
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path, max_partitions=400)
        labels = [f"2020{1 + n // 480:02}{1 + n // 24 % 20:02}{n % 24:02}0000" for n in range(501)]
        series.publish(*((label, "a", table(n)) for n, label in enumerate(labels)))

        assert series.rows() == [(label, n) for n, label in enumerate(sorted(labels))]
        assert len(tables(warehouse)) < 400


@pytest.mark.parametrize("warehouse", some_long(ENGINES, "duckdb"), indirect=True)
def test_a_table_with_rows_of_its_own_is_no_timeseries(warehouse, tmp_path):
    series = Series(warehouse, tmp_path)
    series.publish((DAYS[0], "a", table(1)))
    warehouse.execute(f"INSERT INTO {warehouse.prefix}orders (unit, id) VALUES ('x', 1)")

    with pytest.raises(ConfigError, match="has rows of its own"):
        series.destination.check()


def test_a_column_that_does_not_fit_is_refused_before_anything_is_decided(warehouse, tmp_path):
    series = Series(warehouse, tmp_path)
    series.publish((DAYS[0], "a", table(1)))

    with pytest.raises(ConversionError):
        series.decide((DAYS[1], "a", pa.table({"unit": ["u"], "id": ["text"]})))
    assert series.rows() == [(DAYS[0], 1)]


def test_a_view_that_was_dropped_by_hand_is_created_again(warehouse, tmp_path):
    series = Series(warehouse, tmp_path)
    series.publish((DAYS[0], "a", table(1)))
    warehouse.execute(f"DROP VIEW {warehouse.prefix}orders_view")

    series.publish((DAYS[1], "a", table(2)))

    assert series.rows() == [(DAYS[0], 1), (DAYS[1], 2)]
    require_whole(warehouse)


@pytest.mark.parametrize("kind", some_long(ENGINES, "postgresql", "mysql"))
def test_no_publish_begins_if_the_table_of_a_label_was_dropped_by_hand(kind, tmp_path, request):
    with new_warehouse(kind, tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))
        (lost, *_) = [name for label, _, _, name in registry(warehouse) if label == DAYS[0]]
        cascade = " CASCADE" if kind == "postgresql" else ""
        warehouse.execute(f"DROP TABLE {warehouse.prefix}{lost}{cascade}")

        with pytest.raises(WriteError, match=lost):
            series.decide((DAYS[2], "a", table(3)))
        series.drop(DAYS[0])
        series.publish((DAYS[2], "a", table(3)))

        assert series.rows() == [(DAYS[1], 2), (DAYS[2], 3)]
        require_whole(warehouse)


@pytest.mark.parametrize("kind", ["postgresql", "native"])
def test_a_view_that_another_one_reads_can_only_have_more_columns(kind, tmp_path, request):
    with label_warehouse(kind, tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        series.publish((DAYS[0], "a", table(1)))
        warehouse.execute("GRANT SELECT ON shop.orders_view TO PUBLIC")
        warehouse.execute("CREATE VIEW shop.mine AS SELECT id FROM shop.orders_view")
        wide = pa.table({"unit": ["u"], "id": pa.array([2**40], pa.int64())})

        series.publish((DAYS[1], "a", table(2, note=["more"])))
        with pytest.raises(ConversionError, match=r"shop\.mine reads it"):
            series.publish((DAYS[2], "a", wide))
        assert series.rows() == [(DAYS[0], 1), (DAYS[1], 2)]

        warehouse.execute("DROP VIEW shop.mine")
        series.publish((DAYS[2], "a", wide))
        assert series.rows() == [(DAYS[0], 1), (DAYS[1], 2), (DAYS[2], 2**40)]
        may = "SELECT has_table_privilege('public', 'shop.orders_view', 'SELECT')"
        assert warehouse.rows(may) == [(True,)]


def test_a_table_that_the_view_of_others_reads_is_not_replaced(tmp_path, request):
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path, max_partitions=4)
        series.publish(*((day, "a", table(1)) for day in DAYS[:3]))
        warehouse.execute(f"CREATE VIEW shop.mine AS SELECT id FROM shop._orders_{DAYS[0]}")

        series.publish((DAYS[1], "a", table(1, 2)))
        for parts in ([(DAYS[0], "a", table(3))], [(day, "b", table(4)) for day in DAYS[3:6]]):
            with pytest.raises(WriteError, match=r"shop\.mine reads _orders_20200101"):
                series.decide(*parts)
        with pytest.raises(WriteError, match=r"shop\.mine reads _orders_20200101"):
            series.drop(DAYS[0])
        assert series.rows() == [(DAYS[0], 1), (DAYS[1], 1), (DAYS[1], 2), (DAYS[2], 1)]


def test_views_of_others_in_the_file_are_not_in_the_way(tmp_path, request):
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        warehouse.execute(
            "CREATE TABLE gone (x)", "CREATE VIEW broken AS SELECT x FROM gone", "DROP TABLE gone"
        )
        series = Series(warehouse, tmp_path)
        series.publish((DAYS[0], "a", table(1)))
        warehouse.execute("CREATE VIEW mine AS SELECT id FROM orders_view")
        series.publish((DAYS[0], "a", table(1, 2)), (DAYS[1], "a", table(3)))

        assert series.rows("id", "id") == warehouse.rows("SELECT id FROM mine ORDER BY id")
        assert series.rows() == [(DAYS[0], 1), (DAYS[0], 2), (DAYS[1], 3)]
        require_whole(warehouse)


@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
def test_labels_keep_columns_that_the_database_computes(engine, tmp_path, request):
    with new_warehouse(engine, tmp_path, request) as warehouse:
        if warehouse.schema:
            warehouse.execute(f"CREATE SCHEMA {warehouse.schema}")
        warehouse.execute(
            f"CREATE TABLE {warehouse.prefix}orders (unit varchar(9), id int, "
            f"twice int GENERATED ALWAYS AS (id * 2) STORED)"
        )
        series = Series(warehouse, tmp_path, max_partitions=2)
        series.publish((DAYS[0], "a", table(1)), (DAYS[0], "b", table(2)))
        series.publish((DAYS[0], "a", table(3)))
        series.publish(*((day, "a", table(4)) for day in DAYS[1:3]))

        assert series.rows("id, twice", "_timelabel, id") == [(2, 4), (3, 6), (4, 8), (4, 8)]


@pytest.mark.parametrize("kind", some_long(["postgresql", "mysql", "native"], "mysql", "native"))
def test_a_reader_sees_all_labels_of_a_commit_or_none(kind, tmp_path, request):
    with label_warehouse(kind, tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        units = [(day, unit) for day in DAYS[:3] for unit in ("a", "b")]
        series.publish(*((day, unit, table(1)) for day, unit in units))
        with Polled(warehouse) as seen:
            for size in range(2, 8):
                series.publish(*((day, unit, table(*range(size))) for day, unit in units))

    assert set(seen) <= {6 * size for size in range(1, 8)}
    assert all(before <= after for before, after in pairwise(seen))
    assert len(set(seen)) > 1


@pytest.mark.parametrize("kind", some_long(["postgresql", "native"], "native"))
@pytest.mark.parametrize("is_cut_off", [False, True], ids=["finished", "cut off"])
def test_a_switch_that_readers_blocked_is_repeated_as_a_whole(
    kind, is_cut_off, tmp_path, request, monkeypatch
):
    """Cut off before its record, the repeat leaves the labels as they were before it."""
    monkeypatch.setattr(engines, "_LOCK_S", 0.05)
    with label_warehouse(kind, tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))
        decided = series.decide((DAYS[0], "a", table(1, 10)), (DAYS[2], "a", table(3)))
        before = series.rows()
        with warehouse.reader() as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT id FROM shop.orders_view")
            pauses: list[float] = []

            def pause(seconds: float) -> None:
                """End the reader's transaction: what blocked the switch is gone."""
                reader.execute("ROLLBACK")
                if is_cut_off:
                    monkeypatch.setattr(TimeseriesTable, "record", stop)
                pauses.append(seconds)

            monkeypatch.setattr(in_transaction, "time", SimpleNamespace(sleep=pause))
            with pytest.raises(KeyboardInterrupt) if is_cut_off else nullcontext():
                series.destination.carry_out(decided)

        assert len(pauses) == 1
        loaded = [(DAYS[0], 1), (DAYS[0], 10), (DAYS[1], 2), (DAYS[2], 3)]
        assert series.rows() == (before if is_cut_off else loaded)
        if not is_cut_off:
            require_whole(warehouse)


def test_mysql_shows_new_and_replaced_labels_of_a_commit_at_one_moment(
    tmp_path, request, monkeypatch
):
    with new_warehouse("mysql", tmp_path, request) as warehouse:
        series = Series(warehouse, tmp_path)
        series.publish((DAYS[0], "a", table(1)), (DAYS[1], "a", table(2)))
        decided = series.decide((DAYS[0], "a", table(1, 10)), (DAYS[2], "a", table(3)))
        before, seen = series.rows(), []
        real = mysql._Connection.change

        def change(self, statement, *values):
            done = real(self, statement, *values)
            if "VIEW" in statement or "RENAME" in statement:
                seen.append(series.rows())
            return done

        with monkeypatch.context() as patched:
            patched.setattr(mysql._Connection, "change", change)
            series.destination.carry_out(decided)

    after = [(DAYS[0], 1), (DAYS[0], 10), (DAYS[1], 2), (DAYS[2], 3)]
    assert seen[0] == before
    assert seen[-1] == after
    assert all(each in (before, after) for each in seen)


class Polled:
    """Counts the rows of the view, again and again, in a thread of its own."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._is_over = threading.Event()
        self._seen: list[int] = []

    def __enter__(self) -> list[int]:
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        return self._seen

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _read(self) -> None:
        with self._warehouse.reader() as connection:
            cursor = connection.cursor()
            while not self._is_over.is_set():
                cursor.execute(f"SELECT COUNT(*) FROM {self._warehouse.prefix}orders_view")
                self._seen.append(cursor.fetchone()[0])


def test_the_example_has_a_table_for_each_day(tmp_path: Path) -> None:
    make = runpy.run_path(str(EXAMPLES / "database/make_database.py"))["make"]
    make(tmp_path / "orders.duckdb")
    changes = {
        "ms.warehouse.url": f"duckdb:///{tmp_path / 'warehouse.duckdb'}",
        "ms.source.uri": f"jdbc:duckdb:{tmp_path / 'orders.duckdb'}",
        "data.publisher.final.dir": str(tmp_path / "lake"),
        "state.store.dir": str(tmp_path / "state"),
    }
    job = load(EXAMPLES / "warehouse/timeseries.conf", overrides=changes, environ={})
    assert job.notices == ()
    for now in ("2024-05-04T00:10:00+00:00", "2024-05-05T00:10:00+00:00"):
        options = RunOptions(
            now_ms=int(datetime.fromisoformat(now).timestamp() * 1000),
            clock=lambda: time.time_ns() // 1_000_000,
            executor=InProcessExecutor(),
        )
        assert run_job(job.job, options).status is RunStatus.SUCCESS

    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
        connection.execute(f"ATTACH '{tmp_path / 'orders.duckdb'}' AS source (READ_ONLY)")
        shown = "SELECT _timelabel, count(*) FROM demo.orders_by_day_view GROUP BY 1 ORDER BY 1"
        held = (
            "SELECT strftime(updated, '%Y%m%d') || '000000', count(*) FROM source.orders "
            "WHERE updated < TIMESTAMP '2024-05-05' GROUP BY 1 ORDER BY 1"
        )
        assert connection.execute(shown).fetchall() == connection.execute(held).fetchall()
