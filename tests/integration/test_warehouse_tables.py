"""What is in a database's table after commits of each mode, read by another library."""

from __future__ import annotations

import datetime as dt
import json
import math
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from dil.errors import CommitUnknownError, ConfigError, ConversionError, WriteError
from dil.model.closed_labels import ClosedLabelChanges
from dil.model.dataset import Intent
from dil.model.destination import MergeSpec
from dil.model.job import PublishMode
from dil.publishing.warehouse import records
from dil.publishing.warehouse.records import LoadsFound
from tests.warehouses import ENGINES, Loads, Warehouse, made, new_warehouse

UTC = pa.timestamp("us", "UTC")
BY_ID = MergeSpec(("id",), ("version",), op_field="op", delete_words=("d",))
ODD = 'Odd "na`me %s?'


@pytest.fixture(params=ENGINES)
def warehouse(request, tmp_path):
    with new_warehouse(request.param, tmp_path, request) as made:
        yield made


@pytest.fixture
def loads(warehouse: Warehouse, tmp_path: Path) -> Loads:
    return Loads(warehouse, tmp_path)


def numbers(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def versions(*rows: tuple[int, int | None, str | None, str]) -> pa.Table:
    ids, numbers_, texts, ops = zip(*rows, strict=True)
    columns = {"id": ids, "version": pa.array(numbers_, pa.int64()), "text": texts, "op": ops}
    return pa.table(columns)


def test_a_dropped_table_is_told_from_an_emptied_one_and_from_lost_records(loads: Loads) -> None:
    name = f"{loads.warehouse.prefix}orders"
    intent = loads.intent("run-1", numbers(1, 2))
    loads.destination.carry_out(intent)
    uris = [move.target.uri for move in intent.commit.moves]
    assert loads.destination.loads(uris) == LoadsFound(are_listed=True, has_table=True)
    loads.warehouse.execute(f"DELETE FROM {name}")
    assert loads.destination.loads(uris) == LoadsFound(are_listed=True, has_table=True)
    assert loads.destination.not_loaded(uris) == []
    loads.warehouse.execute(f"DROP TABLE {name}")
    assert loads.destination.loads(uris) == LoadsFound(are_listed=True, has_table=False)
    assert loads.destination.not_loaded(uris) == uris
    loads.warehouse.execute(f"DELETE FROM {loads.warehouse.prefix}dil_part")
    assert not loads.destination.loads(uris).are_listed


# Values


def every_type() -> pa.Table:
    instant = dt.datetime.fromisoformat("2020-01-01 02:03:04.000005")
    early = dt.datetime.fromisoformat("1969-12-31 23:59:59.999999")
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "small": pa.array([-5, None, 2**31 - 1], pa.int32()),
            "flag": pa.array([True, False, None]),
            "fraction": pa.array([0.1, None, -1e300]),
            "single": pa.array([0.1, None, 1.5], pa.float32()),
            "amount": pa.array(
                [Decimal("12345678901234567890.123456"), Decimal("-0.000001"), None],
                pa.decimal128(38, 6),
            ),
            "big": pa.array([2**64 - 1, None, 0], pa.uint64()),
            "text": ["tab\t \"quotes\" \\N\r\n, 'é😀' %s", "", None],
            "word": pa.array(["a", None, "a"]).dictionary_encode(),
            "bytes": pa.array([bytes(range(256)), b"", None]),
            "day": pa.array([dt.date(2020, 2, 29), dt.date(1, 1, 1), None]),
            "time": pa.array([dt.time(23, 59, 59, 999_999), dt.time(0), None], pa.time64("us")),
            "local": pa.array([instant, early, None], pa.timestamp("us")),
            "instant": pa.array([instant, early, None], pa.timestamp("us")).cast(UTC),
            "list": pa.array([[1, 2], [], None]),
            "record": pa.array([{"x": Decimal("1.10"), "y": 'q"\n'}, {"x": None, "y": None}, None]),
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "nothing": pa.nulls(3),
            ODD: ["x", None, "y"],
        }
    )


def plain(value: Any) -> Any:
    """Return a value of any database in the form of all of them."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dt.timedelta):
        return (dt.datetime.fromisoformat("2000-01-01") + value).time()
    if isinstance(value, float) and not value.is_integer():
        return pytest.approx(value, rel=1e-7)
    return value


def parsed(name: str, value: Any) -> Any:
    """Return what SQLite keeps as text, and what is JSON, as values."""
    if value is None or not isinstance(value, str):
        return value
    if name in {"amount", "big"}:
        return Decimal(value)
    if name in {"list", "record", "map"}:
        return json.loads(value, parse_float=Decimal)
    kinds = {"day": dt.date, "time": dt.time, "local": dt.datetime, "instant": dt.datetime}
    return kinds[name].fromisoformat(value) if name in kinds else value


def test_every_type_arrives_as_it_was(loads: Loads) -> None:
    table = every_type()
    loads.load("run-1", table)
    names = list(loads.warehouse.columns("orders"))
    assert names == table.column_names
    expected = table.set_column(names.index("map"), "map", pa.array([None] * 3)).to_pylist()
    maps = [{"k": 1}, {}, None]
    for found, wanted, entries in zip(loads.rows(), expected, maps, strict=True):
        values = {name: parsed(name, value) for name, value in zip(names, found, strict=True)}
        # psycopg reads fractions of JSON as floats; the database keeps them as they were.
        if values["record"] and values["record"]["x"] is not None:
            assert Decimal(str(values["record"].pop("x"))) == wanted["record"].pop("x")
        assert values.pop("map") == entries
        wanted.pop("map")
        assert {name: plain(value) for name, value in values.items()} == {
            name: plain(value) for name, value in wanted.items()
        }


def test_not_a_number_and_the_infinities_arrive_or_are_refused_before_anything_is_decided(
    loads: Loads,
) -> None:
    table = pa.table({"id": [1, 2], "fraction": [math.nan, math.inf]})
    if loads.warehouse.engine in {"mysql", "sqlite"}:
        with pytest.raises(ConversionError, match="fraction holds NaN"):
            loads.intent("run-1", table)
        return
    loads.load("run-1", table)
    (_, first), (_, second) = loads.rows()
    assert math.isnan(first)
    assert second == math.inf


def test_text_with_nul_arrives_or_is_refused_before_anything_is_decided(loads: Loads) -> None:
    table = pa.table({"text": ["a\0b"], "nested": [["\0"]]})
    if loads.warehouse.engine == "postgresql":
        with pytest.raises(ConversionError, match="text holds text with the character NUL"):
            loads.intent("run-1", table.select(["text"]))
        with pytest.raises(ConversionError, match="nested holds text with the character NUL"):
            loads.intent("run-1", table.select(["nested"]))
        return
    loads.load("run-1", table)
    assert loads.rows("text") == [("a\0b",)]


# Modes


def test_each_run_adds_its_rows_once(loads: Loads) -> None:
    intent = loads.intent("run-1", numbers(1, 2), numbers(3))
    loads.destination.carry_out(intent)
    loads.destination.carry_out(intent)
    loads.load("run-2", numbers(3))
    assert loads.rows() == [(1,), (2,), (3,), (3,)]
    assert loads.runs() == [(1, "run-1"), (2, "run-2")]


def test_two_finishers_of_one_publish_load_its_rows_once(loads: Loads) -> None:
    intent = loads.intent("run-1", numbers(*range(1000)))
    finishers = [
        threading.Thread(target=loads.destination.carry_out, args=(intent,)) for _ in range(2)
    ]
    for each in finishers:
        each.start()
    for each in finishers:
        each.join()
    assert loads.rows("COUNT(*)") == [(1000,)]
    assert loads.runs() == [(1, "run-1")]


def test_two_jobs_that_load_into_one_table_take_numbers_of_their_own(
    loads: Loads, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Loads(loads.warehouse, tmp_path / "other")
    first, second = loads.intent("run-1", numbers(1)), other.intent("run-2", numbers(2))
    assert first.sequence == second.sequence == 1
    other.destination.carry_out(second)
    loads.destination.carry_out(first)
    assert loads.rows() == [(1,), (2,)]
    assert loads.runs() == [(1, "run-2"), (2, "run-1")]


def test_a_replace_leaves_the_rows_of_its_run_alone(loads: Loads) -> None:
    loads.load("run-1", numbers(7, 8))
    loads.mode = PublishMode.REPLACE
    intent = loads.intent("run-2", numbers(1, 2))
    loads.destination.carry_out(intent)
    assert loads.rows() == [(1,), (2,)]
    loads.load("run-3", numbers(3))
    loads.destination.carry_out(intent)
    assert loads.rows() == [(3,)]


def test_a_replace_by_no_rows_empties_the_table_of_others_too(loads: Loads) -> None:
    loads.load("run-1", numbers(7, 8))
    prefix = loads.warehouse.prefix
    loads.warehouse.execute(f"DROP TABLE {prefix}dil_commit", f"DROP TABLE {prefix}dil_part")
    loads.mode = PublishMode.REPLACE
    intent = loads.intent("run-2")
    assert intent.commit.removes
    loads.destination.carry_out(intent)
    assert loads.rows() == []
    assert loads.intent("run-3").commit.removes == ()


def test_a_window_replace_replaces_what_it_read_again(loads: Loads) -> None:
    loads.mode = PublishMode.WINDOW_REPLACE
    loads.load("run-1", numbers(1, 2), numbers(3), numbers(4), units=["a", "b", "c"])
    loads.load("run-2", numbers(9), units=["a", "b"])
    assert loads.rows("id, _dil_signature") == [(4, "c"), (9, "a")]
    assert {file.signature for file in loads.destination.live()} == {"a", "c"}


def test_a_window_replace_of_more_units_than_one_statement_names_replaces_all(
    tmp_path: Path, request, monkeypatch
) -> None:
    monkeypatch.setattr(records, "_IN_A_STATEMENT", 2)
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path, PublishMode.WINDOW_REPLACE)
        for run, first in (("r1", 0), ("r2", 10)):
            loads.load(run, *(pa.table({"id": [first + number]}) for number in range(5)))
        assert loads.rows("id") == [(number,) for number in range(10, 15)]
        assert {file.run_id for file in loads.destination.live()} == {"r2"}


def test_a_unit_that_keeps_rows_of_a_closed_label_replaces_those_of_its_other_labels(
    tmp_path: Path, request
) -> None:
    closed, other = "20200101000000", "20200102000000"

    def labelled(intent: Intent, *labels: str, **changes: object) -> Intent:
        moves = tuple(
            replace(move, target=structs.replace(move.target, timelabel=label))
            for move, label in zip(intent.commit.moves, labels, strict=True)
        )
        return replace(intent, commit=replace(intent.commit, moves=moves, **changes))

    def of(label: str, number: int) -> pa.Table:
        return pa.table({"id": [number], "_timelabel": [label]})

    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path, PublishMode.WINDOW_REPLACE)
        first = loads.intent("r1", of(closed, 1), of(other, 2), units=["a", "a"])
        loads.destination.carry_out(labelled(first, closed, other))
        gone = tuple(file for file in loads.destination.live() if file.timelabel == other)
        second = loads.intent("r2", of(other, 3), units=["a"])
        changes = ClosedLabelChanges()
        loads.destination.carry_out(labelled(second, other, closed_labels=changes, removes=gone))

        assert loads.rows("id") == [(1,), (3,)]
        live = {(file.run_id, file.timelabel) for file in loads.destination.live()}
        assert live == {("r1", closed), ("r2", other)}


def test_newer_rows_take_the_place_of_those_of_their_keys(loads: Loads) -> None:
    loads.mode, loads.merge = PublishMode.MERGE, BY_ID
    loads.load(
        "run-1",
        versions((1, 5, "first", "i"), (2, 5, "two", "i"), (4, 1, "four", "i")),
        versions((1, 5, "later of equals", "u"), (3, None, "no version", "i"), (2, 4, "old", "u")),
    )
    assert loads.rows("id, text") == [
        (1, "later of equals"), (2, "two"), (3, "no version"), (4, "four"),
    ]  # fmt: skip
    intent = loads.intent(
        "run-2",
        versions((1, 4, "older", "u"), (2, 6, "", "D"), (3, None, "again", "u"), (4, 0, "", "d")),
        versions((5, 1, "", "d"), (6, 1, "new", "i")),
    )
    for _ in range(2):
        loads.destination.carry_out(intent)
        assert loads.rows("id, text") == [
            (1, "later of equals"), (3, "again"), (4, "four"), (6, "new"),
        ]  # fmt: skip


def test_rows_deleted_softly_stay_with_the_time(loads: Loads) -> None:
    loads.mode = PublishMode.MERGE
    loads.merge = MergeSpec(("id",), ("version",), "op", ("d",), is_soft=True)
    loads.load("run-1", versions((1, 1, "one", "i"), (2, 1, "two", "i")))
    loads.load("run-2", versions((1, 2, None, "d"), (3, 1, None, "d")))
    deleted, other, unknown = loads.rows("id, version, text, _dil_deleted_at")
    assert deleted[:3] == (1, 2, "one")
    assert str(deleted[3]).startswith("2023-11-14 22:13:20")
    assert other == (2, 1, "two", None)
    assert unknown[:3] == (3, 1, None)
    loads.load("run-3", versions((1, 3, "back", "u"), (3, 2, "new", "i")))
    assert loads.rows("id, text, _dil_deleted_at") == [
        (1, "back", None), (2, "two", None), (3, "new", None),
    ]  # fmt: skip


def test_a_deleted_row_may_lack_values_that_a_column_needs(
    warehouse: Warehouse, loads: Loads
) -> None:
    loads.mode, loads.merge = PublishMode.MERGE, replace(BY_ID, delta_fields=())
    if warehouse.engine == "postgresql":
        warehouse.execute("CREATE SCHEMA shop")
    needed = "version BIGINT NOT NULL, text VARCHAR(9) NOT NULL"
    made(warehouse, f"id BIGINT PRIMARY KEY, {needed}, op VARCHAR(9)")
    loads.load("run-1", versions((1, 1, "one", "i"), (2, 1, "two", "i")))
    loads.load("run-2", versions((1, None, None, "d"), (3, None, None, "d"), (4, 1, "four", "i")))
    assert loads.rows("id, text") == [(2, "two"), (4, "four")]
    with pytest.raises(ConversionError):
        loads.intent("run-3", versions((2, None, None, "d"), (5, 1, None, "i")))
    # A source without a schema gives no columns of values if all its rows are deletes.
    with pytest.raises(ConversionError):
        loads.intent("run-4", pa.table({"id": [2, 5], "op": ["d", "i"]}))
    with pytest.raises(ConversionError):
        loads.intent("run-5", pa.table({"id": [2]}))
    loads.load("run-6", pa.table({"id": [2, 3], "op": ["d", "d"]}))
    assert loads.rows("id, text") == [(4, "four")]


@pytest.mark.parametrize("words", ["DATE", "{} DEFAULT '2020-01-01 00:00:00' NOT NULL"])
def test_a_hard_merge_leaves_a_column_of_others_that_is_named_like_the_mark(
    warehouse: Warehouse, loads: Loads, words: str
) -> None:
    loads.mode, loads.merge = PublishMode.MERGE, BY_ID
    if warehouse.engine == "postgresql":
        warehouse.execute("CREATE SCHEMA shop")
    instant = "DATETIME(6)" if warehouse.engine == "mysql" else "TIMESTAMPTZ"
    column = f"_dil_deleted_at {words.format(instant)}"
    made(
        warehouse,
        f"id BIGINT PRIMARY KEY, version BIGINT, text VARCHAR(9), op VARCHAR(9), {column}",
    )
    loads.load("run-1", versions((1, 1, "one", "i"), (2, 1, "two", "i")))
    had = loads.rows("_dil_deleted_at")[0][0]
    loads.load("run-2", versions((1, 2, "new", "u"), (2, 2, None, "d")))
    assert loads.rows("id, text, _dil_deleted_at") == [(1, "new", had)]


@pytest.mark.parametrize("name", ["_dil_order", "_dil_gone"])
def test_a_column_that_a_merge_uses_itself_can_be_inserted_but_not_merged(
    loads: Loads, name: str
) -> None:
    rows = pa.table({"id": [1, 2], name: [7, 8]})
    loads.load("run-1", rows)
    assert loads.rows() == [(1, 7), (2, 8)]
    loads.mode, loads.merge, loads.table = PublishMode.MERGE, BY_ID, "merged"
    with pytest.raises(ConversionError):
        loads.intent("run-2", rows.append_column("version", pa.array([1, 1])))


def test_a_row_that_a_hard_merge_writes_again_is_no_longer_marked_as_deleted(loads: Loads) -> None:
    loads.mode = PublishMode.MERGE
    loads.merge = MergeSpec(("id",), (), "op", ("d",), is_soft=True)
    loads.load("run-1", versions((1, 1, "one", "i"), (2, 1, "two", "i"), (3, 1, "three", "i")))
    loads.load("run-2", versions((1, 2, None, "d"), (2, 2, None, "d"), (3, 2, None, "d")))
    loads.merge = replace(loads.merge, is_soft=False)
    loads.load("run-3", versions((1, 3, "back", "u"), (2, 3, None, "d"), (4, 1, "four", "i")))
    assert loads.rows("id, text, _dil_deleted_at IS NULL") == [
        (1, "back", True), (3, "three", False), (4, "four", True),
    ]  # fmt: skip


def test_keys_of_several_columns_and_of_text_are_told_apart_exactly(loads: Loads) -> None:
    loads.mode, loads.merge = PublishMode.MERGE, MergeSpec(("unit", "id"))
    units = ["a", "A", "a ", "á", "a"]
    table = pa.table({"unit": units, "id": [1, 1, 1, 1, 2], ODD: units})
    loads.load("run-1", table)
    loads.load("run-2", table)
    assert loads.rows("COUNT(*)") == [(5,)]


def test_a_merge_of_keys_alone_keeps_one_row_of_each(loads: Loads) -> None:
    loads.mode, loads.merge = PublishMode.MERGE, MergeSpec(("id",))
    loads.load("run-1", numbers(1, 1, 2))
    loads.load("run-2", numbers(2, 3))
    assert loads.rows() == [(1,), (2,), (3,)]


def test_keys_that_are_null_are_refused(loads: Loads) -> None:
    loads.mode, loads.merge = PublishMode.MERGE, MergeSpec(("id",))
    with pytest.raises(ConversionError, match="id holds nulls"):
        loads.intent("run-1", numbers(1, None))


# Shapes


def test_a_table_grows_with_its_rows(loads: Loads) -> None:
    loads.load(
        "run-1",
        pa.table({"id": pa.array([1], pa.int32()), "amount": pa.array([1], pa.decimal128(5, 2))}),
    )
    loads.load(
        "run-2",
        pa.table(
            {
                "text": ["new"],
                "id": pa.array([2**40], pa.int64()),
                "amount": pa.array([Decimal("1234567.125")], pa.decimal128(12, 3)),
            }
        ),
    )
    loads.load("run-3", pa.table({"id": pa.array([7], pa.int16())}))
    found = [(row[0], row[1], row[2] and Decimal(row[2])) for row in loads.rows("id, text, amount")]
    assert found == [
        (1, None, 1), (7, None, None), (2**40, "new", Decimal("1234567.125")),
    ]  # fmt: skip


def test_a_key_of_small_numbers_takes_larger_ones(loads: Loads) -> None:
    loads.mode, loads.merge = PublishMode.MERGE, MergeSpec(("id",))
    for run, (kind, value) in enumerate([(pa.int32(), 1), (pa.int64(), 2**40), (pa.int16(), 1)]):
        many = pa.array([value], pa.int64() if run else pa.int32())
        loads.load(f"run-{run}", pa.table({"id": pa.array([value], kind), "many": many}))
    assert loads.rows("id, many") == [(1, 1), (2**40, 2**40)]


@pytest.mark.parametrize("then", [pa.string(), pa.float64(), pa.date32(), pa.bool_()])
def test_another_type_is_refused_before_anything_is_decided(loads: Loads, then) -> None:
    loads.load("run-1", numbers(1))
    with pytest.raises(ConversionError) as caught:
        loads.intent("run-2", pa.table({"id": pa.nulls(1, then)}))
    assert "column id of the table orders has the type" in caught.value.message
    assert loads.rows() == [(1,)]


def test_a_type_that_no_column_can_hold_is_refused_with_the_name_of_the_table(loads: Loads) -> None:
    with pytest.raises(ConversionError, match="which no column of orders can hold exactly"):
        loads.intent("run-1", pa.table({"id": pa.nulls(1, pa.duration("s"))}))


def test_columns_that_differ_in_case_are_two_columns_or_refused(loads: Loads) -> None:
    table = pa.table({"id": [1], "ID": [2]})
    if loads.warehouse.engine == "postgresql":
        loads.load("run-1", table)
        assert loads.rows() == [(1, 2)]
        return
    with pytest.raises(ConversionError, match="differ only in case"):
        loads.intent("run-1", table)


def test_a_table_of_others_takes_rows_by_the_names_of_its_columns(loads: Loads) -> None:
    prefix, engine = loads.warehouse.prefix, loads.warehouse.engine
    if prefix:
        loads.warehouse.execute(f"CREATE SCHEMA {loads.warehouse.schema}")
    loads.warehouse.execute(
        f"CREATE TABLE {prefix}orders (number DECIMAL(20, 4) DEFAULT 7, text VARCHAR(3), "
        "id BIGINT NOT NULL)"
        if engine != "sqlite"
        else "CREATE TABLE orders (number INT DEFAULT 7, text VARCHAR(3), id BIGINT NOT NULL)"
    )
    loads.load("run-1", pa.table({"id": [1], "text": ["a longer text"]}))
    assert [(number, text, one) for number, text, one in loads.rows("number, text, id")] == [
        (7, "a longer text", 1)
    ]
    with pytest.raises(ConversionError, match="column id of the table orders must not be null"):
        loads.intent("run-2", pa.table({"text": ["a"]}))


def test_a_merge_needs_a_key_and_says_how_to_make_it(loads: Loads) -> None:
    loads.load("run-1", numbers(1))
    loads.mode, loads.merge = PublishMode.MERGE, MergeSpec(("id",))
    with pytest.raises(ConfigError) as caught:
        loads.destination.check()
    statement = caught.value.problems[0].fix.removeprefix("Add one: ").removesuffix(";")
    loads.warehouse.execute(statement)
    loads.destination.check()
    loads.load("run-2", numbers(1, 2))
    assert loads.rows() == [(1,), (2,)]


def test_the_key_of_a_merge_may_be_an_index_beside_another_primary_key(
    tmp_path: Path, request
) -> None:
    with new_warehouse("postgresql", tmp_path, request) as warehouse:
        loads = Loads(warehouse, tmp_path)
        loads.load("run-1", numbers(1))
        warehouse.execute("ALTER TABLE shop.orders ADD COLUMN number serial PRIMARY KEY")
        loads.mode, loads.merge = PublishMode.MERGE, MergeSpec(("id",))
        with pytest.raises(ConfigError) as caught:
            loads.destination.check()
        warehouse.execute(caught.value.problems[0].fix.removeprefix("Add one: "))
        loads.destination.check()
        loads.load("run-2", numbers(1, 2))
        assert loads.rows("id") == [(1,), (2,)]


def test_views_are_refused(loads: Loads) -> None:
    loads.load("run-1", numbers(1))
    prefix = loads.warehouse.prefix
    loads.warehouse.execute(f"CREATE VIEW {prefix}seen AS SELECT * FROM {prefix}orders")
    loads.table = "seen"
    with pytest.raises(ConfigError, match="no table that rows can be loaded into"):
        loads.destination.check()


# Crashes and changed configurations


def test_staged_files_that_are_gone_are_lost_unless_the_database_has_their_rows(
    loads: Loads, tmp_path: Path
) -> None:
    intent = loads.intent("run-1", numbers(1))
    kept = (tmp_path / "run-1-0.parquet").rename(tmp_path / "kept")
    assert loads.destination.lost(intent) == intent.commit.moves
    with pytest.raises(WriteError, match="does not exist"):
        loads.destination.carry_out(intent)
    kept.rename(tmp_path / "run-1-0.parquet")
    loads.destination.carry_out(intent)
    (tmp_path / "run-1-0.parquet").unlink()
    assert loads.destination.lost(intent) == ()
    loads.destination.carry_out(intent)
    assert loads.rows() == [(1,)]


def test_what_was_decided_is_not_finished_under_another_mode_or_table(loads: Loads) -> None:
    loads.load("run-1", numbers(1))
    intent = loads.intent("run-2", numbers(2))
    for change in ({"mode": PublishMode.REPLACE}, {"table": "others"}):
        changed = Loads(loads.warehouse, loads.folder, **change)
        with pytest.raises(CommitUnknownError, match="run-2 began to publish"):
            changed.destination.carry_out(intent)
    loads.destination.carry_out(intent)
    assert loads.rows() == [(1,), (2,)]


def test_readers_see_whole_runs_only(loads: Loads) -> None:
    """A thread polls while runs of a thousand rows each take the place of one another."""
    if loads.warehouse.engine == "duckdb":
        pytest.skip("DuckDB lets no other process read while one writes")
    loads.mode = PublishMode.REPLACE
    loads.load("run-0", pa.table({"run": [0] * 1000}))
    seen: list[tuple] = []
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            seen.extend(loads.rows("COUNT(*), MIN(run), MAX(run)"))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for number in range(1, 6):
            loads.load(f"run-{number}", pa.table({"run": [number] * 1000}))
    finally:
        is_over.set()
        reader.join()
    assert seen
    assert all(count == 1000 and low == high for count, low, high in seen)
