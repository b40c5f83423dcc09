"""Tables of Parquet files: one transaction for each publish, at most once, beside other writers."""

from __future__ import annotations

import datetime as dt
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.transforms import BucketTransform

from dil.errors import CommitConflictError, CommitUnknownError, ConfigError, StateError, WriteError
from dil.model.dataset import Move, OperatorAct
from dil.model.destination import TableSpec
from dil.model.job import PublishMode
from dil.publishing import manifest, table_destination
from dil.publishing.destination import destination_for
from dil.publishing.manifest import live_files
from dil.publishing.publisher import untracked_files
from tests.servers.databases import new_database
from tests.servers.postgresql import PASSWORD
from tests.table_readers import FORMATS, delta_table, iceberg_table, listed_files, rows_by_polars
from tests.unit.publishing.tables import ORDERS, Shop, files, orders

pytestmark = pytest.mark.slow

LOGINS = {
    "postgresql_server": f"admin:{quote(PASSWORD, safe='')}",
    "mysql_server": "root",
}


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def shop(tmp_path: Path, kind: str) -> Shop:
    return Shop(tmp_path, kind)


def state_of(shop: Shop) -> object:
    return shop.versions(), shop.files(), manifest.newest(files, str(shop.dataset))


# One transaction


def test_a_commit_adds_and_takes_out_files_in_one_version(shop: Shop) -> None:
    shop.publish("r1", orders(1, 2), orders(3))
    before = shop.versions()
    shop.publish("r2", orders(4), removes=shop.destination().live())
    assert shop.versions() == before + 1
    assert shop.ids() == [4]
    assert rows_by_polars(shop.kind, shop.folder)["id"].to_list() == [4]


def test_files_that_were_taken_out_stay_for_readers_of_earlier_versions(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    old = shop.files()
    shop.publish("r2", orders(2), removes=shop.destination().live())
    assert [path.exists() for path in old] == [True]
    assert shop.files() != old


def test_a_table_says_which_run_published_what(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    if shop.kind == "delta":
        newest = delta_table(shop.folder).history(1)[0]
        assert (newest["dil.run"], newest["dil.source"]) == ("r1", "dil/orders")
    else:
        summary = iceberg_table(shop.folder).current_snapshot().summary
        assert (summary["dil.run"], summary["dil.source"]) == ("r1", "dil/orders")


def test_nothing_but_data_begins_without_an_underscore(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    visible = [path for path in shop.dataset.iterdir() if not path.name.startswith(("_", "."))]
    assert visible == shop.files()


# At most once


def test_a_commit_done_again_changes_nothing(shop: Shop) -> None:
    intent = shop.publish("r1", orders(1))
    before = state_of(shop)
    shop.destination().carry_out(intent)
    assert state_of(shop) == before
    assert shop.destination().lost(intent) == ()


def test_a_driver_that_wakes_up_after_later_runs_changes_nothing(shop: Shop) -> None:
    first = shop.publish("r1", orders(1))
    shop.publish("r2", orders(2), removes=shop.destination().live())
    shop.publish("r3", orders(3))
    rows, known = shop.rows(), live_files(files, str(shop.dataset))
    shop.destination().carry_out(first)
    assert shop.rows() == rows
    assert set(live_files(files, str(shop.dataset))) == set(known)


def test_drivers_that_finish_one_intent_at_once_publish_it_once(shop: Shop) -> None:
    for number in range(4):
        intent = shop.intent(f"r{number}", shop.move(f"r{number}", orders(number)))
        barrier, troubles = threading.Barrier(3), []

        def carry_out(intent=intent, barrier=barrier, troubles=troubles) -> None:
            try:
                barrier.wait(30)
                shop.destination().carry_out(intent)
            except WriteError as error:  # two of them move one file, and one comes too late
                troubles.append(error)

        threads = [threading.Thread(target=carry_out) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shop.destination().carry_out(intent)
        assert shop.ids() == list(range(number + 1)), troubles


def test_jobs_that_append_at_once_both_have_their_rows(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    mine = shop.intent("r2", shop.move("r2", orders(2)))
    other = shop.intent("x1", shop.move("x1", orders(3)), job="other")
    assert mine.sequence == other.sequence
    shop.destination().carry_out(other)
    shop.destination().carry_out(mine)
    assert shop.ids() == [1, 2, 3]
    assert listed_files(shop.folder) == shop.files()


def test_a_job_that_appends_while_another_writes_its_manifest_keeps_its_files_known(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.publish("r1", orders(1))
    mine = shop.intent("r2", shop.move("r2", orders(2)))
    write = table_destination.record_owners

    def write_later(*arguments: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(table_destination, "record_owners", write)
            shop.destination().carry_out(shop.intent("x1", shop.move("x1", orders(3)), job="other"))
        write(*arguments)

    monkeypatch.setattr(table_destination, "record_owners", write_later)
    shop.destination().carry_out(mine)
    assert sorted(shop.live()) == ["r1", "r2", "x1"]
    assert listed_files(shop.folder) == shop.files()


def test_a_commit_is_remembered_when_its_snapshot_is_expired(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "iceberg")
    intent = shop.publish("r1", orders(1))
    first = iceberg_table(tmp_path).current_snapshot()
    shop.append_elsewhere(orders(2))
    iceberg_table(tmp_path).maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    shop.destination().carry_out(intent)
    assert shop.ids() == [1, 2]


def test_what_is_lost_is_lost_until_the_table_has_it(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    move = shop.move("r2", orders(2))
    intent = shop.intent("r2", move)
    Path(move.source).unlink()
    assert shop.destination().lost(intent) == (move,)
    done = shop.publish("r3", orders(3))
    Path(files.path_of(done.commit.moves[0].target.uri)).unlink()
    assert shop.destination().lost(done) == ()


def test_manifests_do_not_become_more_and_more(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "iceberg")
    for number in range(20):
        older = [file for run, file in shop.live().items() if run == f"r{number - 3}"]
        shop.publish(f"r{number}", orders(number), removes=older)
    table = iceberg_table(tmp_path)
    assert len(table.current_snapshot().manifests(table.io)) < 17
    assert shop.ids() == [17, 18, 19]


# Other writers


def test_rows_are_appended_on_top_of_what_others_wrote_since(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    intent = shop.intent("r2", shop.move("r2", orders(2)))
    shop.append_elsewhere(orders(10))
    shop.destination().carry_out(intent)
    assert shop.ids() == [1, 2, 10]


def test_files_of_others_are_live_and_of_no_work_unit(shop: Shop) -> None:
    shop.publish("r1", orders(1), signature="mine")
    shop.append_elsewhere(orders(10, 11))
    live = shop.live()
    assert live["r1"].signature == "mine"
    assert (live[""].signature, live[""].rows, live[""].sha256) == ("", 2, "")


def test_a_replace_takes_out_what_others_wrote_too(tmp_path: Path, kind: str) -> None:
    shop = Shop(tmp_path, kind, PublishMode.REPLACE)
    shop.publish("r1", orders(1))
    intent = shop.intent("r2", shop.move("r2", orders(2)), removes=shop.destination().live())
    shop.append_elsewhere(orders(10))
    shop.destination().carry_out(intent)
    assert shop.ids() == [2]
    assert listed_files(tmp_path) == shop.files()


def test_an_operator_takes_out_only_what_was_decided_also_where_runs_replace(
    tmp_path: Path, kind: str
) -> None:
    shop = Shop(tmp_path, kind, PublishMode.REPLACE)
    shop.publish("r1", orders(1), orders(2))
    first = min(shop.destination().live(), key=lambda file: file.uri)
    intent = shop.intent("act", removes=[first], schema=None)
    acting = replace(intent, commit=replace(intent.commit, act=OperatorAct("forget", "why")))
    shop.destination().carry_out(acting)
    assert shop.ids() == [2]


def test_a_file_that_left_the_table_stops_the_publish_that_replaces_it(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    shop.publish("r2", orders(2))
    old = shop.live()["r1"]
    intent = shop.intent("r3", shop.move("r3", orders(3)), removes=[old])
    shop.remove_elsewhere(old)
    with pytest.raises(CommitUnknownError, match="was to be replaced, but another program"):
        shop.destination().carry_out(intent)
    assert shop.ids() == [2]
    shop.roll_back()
    shop.destination().carry_out(intent)
    assert shop.ids() == [2, 3]


def test_a_commit_that_replaces_what_is_gone_is_refused_before_it_is_decided(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    old = shop.live()["r1"]
    shop.remove_elsewhere(old)
    with pytest.raises(CommitConflictError, match="is no longer in the"):
        shop.require_fit(shop.intent("r2", shop.move("r2", orders(2)), removes=[old]))


def test_a_file_is_brought_back_where_it_still_lies(shop: Shop) -> None:
    done = shop.publish("r1", orders(1))
    shop.publish("r2", removes=shop.destination().live())
    target = done.commit.moves[0].target
    copy = shop.folder / "copy.parquet"
    copy.write_bytes(Path(files.path_of(target.uri)).read_bytes())
    shop.destination().carry_out(shop.intent("undo", Move(str(copy), target), schema=None))
    assert shop.ids() == [1]
    assert not copy.exists()
    assert [file.sha256 for file in shop.destination().live()] == [target.sha256]


def test_files_of_nobody_known_are_told_by_their_names_where_windows_are_replaced(
    tmp_path: Path, kind: str
) -> None:
    shop = Shop(tmp_path, kind, PublishMode.WINDOW_REPLACE)
    shop.publish("r1", orders(1), signature="mine")
    shop.publish("r2", removes=shop.destination().live())
    shop.publish("r3", orders(3), signature="mine")
    assert untracked_files(shop.spec, shop.destination().live(), files) == ()
    for path in (shop.dataset / "_dil").glob("*.json"):
        path.unlink()
    live = shop.destination().live()
    assert [file.signature for file in live] == [""]
    assert untracked_files(shop.spec, live, files) == live
    assert untracked_files(replace(shop.spec, mode=PublishMode.REPLACE), live, files) == ()


# Catalogs


@pytest.mark.parametrize("server", ["postgresql_server", "mysql_server"])
def test_a_catalog_may_be_in_a_database_of_a_server(
    tmp_path: Path, server: str, request: pytest.FixtureRequest
) -> None:
    with new_database(request.getfixturevalue(server)) as url:
        shop = Shop(tmp_path, "iceberg", catalog=url.replace("//", f"//{LOGINS[server]}@"))
        first = shop.publish("r1", orders(1))
        shop.publish("r2", orders(2), removes=shop.destination().live())
        shop.destination().carry_out(first)
        assert [file.run_id for file in shop.destination().live()] == ["r2"]


def test_a_catalog_that_does_not_answer_is_told_without_its_password(tmp_path: Path) -> None:
    secret = "postgresql://u:hidden@127.0.0.1:1/lake"
    with pytest.raises(StateError, match=r"ms\.iceberg\.catalog\.uri") as caught:
        Shop(tmp_path, "iceberg", catalog=secret).destination().check()
    assert "hidden" not in str(caught.value)


# Columns


def with_column(name: str, kind: pa.DataType, value: object) -> pa.Table:
    return orders(2).append_column(pa.field(name, kind), pa.array([value], kind))


def test_new_columns_are_added_and_are_null_in_older_rows(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    shop.publish("r2", with_column("note", pa.string(), "x"))
    shop.publish("r3", orders(3))
    assert [row["note"] for row in shop.rows()] == [None, "x", None]
    assert rows_by_polars(shop.kind, shop.folder).sort("id")["note"].to_list() == [None, "x", None]


def test_records_gain_members_at_any_depth(shop: Shop) -> None:
    one = pa.list_(pa.struct([("p", pa.int64())]))
    two = pa.list_(pa.struct([("p", pa.int64()), ("q", pa.map_(pa.string(), pa.float64()))]))
    shop.publish("r1", pa.table({"id": [1], "deep": pa.array([[{"p": 1}]], one)}))
    deep = pa.array([[{"p": 2, "q": [("k", 1.5)]}]], two)
    shop.publish("r2", pa.table({"id": [2], "deep": deep}))
    assert [row["deep"] for row in shop.rows()] == [
        [{"p": 1, "q": None}],
        [{"p": 2, "q": [("k", 1.5)]}],
    ]


def test_every_type_that_jobs_write_is_kept_exactly(shop: Shop) -> None:
    instant = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, dt.UTC)
    values = {
        "b": (pa.bool_(), True),
        "i": (pa.int32(), -(2**31)),
        "l": (pa.int64(), 2**63 - 1),
        "f": (pa.float32(), 0.5),
        "d": (pa.float64(), 0.1),
        "n": (pa.decimal128(38, 10), Decimal("1234567890123456789012345678.0123456789")),
        "s": (pa.string(), "é" * 100),
        "y": (pa.binary(), b"\x00\xff"),
        "day": (pa.date32(), dt.date(1, 1, 1)),
        "at": (pa.timestamp("us", "UTC"), instant),
        "m": (pa.map_(pa.string(), pa.int32()), [("k", None)]),
        "r": (pa.struct([("x", pa.list_(pa.string()))]), {"x": ["y", None]}),
    }
    if shop.kind == "iceberg":
        values["t"] = (pa.time64("us"), dt.time(23, 59, 59, 999_999))
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in values.items())])
    row = {"id": 1, **{name: value for name, (_, value) in values.items()}}
    nothing = {"id": 2, **dict.fromkeys(values)}
    shop.publish("r1", pa.Table.from_pylist([row, nothing], schema))
    assert shop.rows() == [row, nothing]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("delta", pa.time64("us")),
        *((kind, pa.uint32()) for kind in FORMATS),
        *((kind, pa.timestamp("ns", "UTC")) for kind in FORMATS),
        *((kind, pa.duration("us")) for kind in FORMATS),
        *((kind, pa.null()) for kind in FORMATS),
    ],
)
def test_values_that_no_type_holds_are_refused_before_anything_is_decided(
    tmp_path: Path, kind: str, column: pa.DataType
) -> None:
    shop = Shop(tmp_path, kind)
    rows = orders(1).append_column("x", pa.nulls(1, column))
    with pytest.raises(WriteError, match=r'column "x" is .* which no type of') as caught:
        shop.require_fit(shop.intent("r1", shop.move("r1", rows), schema=rows.schema))
    assert "ms.output.schema" in caught.value.fix
    assert not shop.dataset.exists()


def test_iceberg_columns_widen_as_the_format_knows(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "iceberg")
    narrow = {"i": pa.int32(), "f": pa.float32(), "n": pa.decimal128(5, 2)}
    wide = {"i": pa.int64(), "f": pa.float64(), "n": pa.decimal128(9, 2)}
    for number, kinds in enumerate((narrow, wide, narrow)):
        columns = {name: pa.array(["1"]).cast(kind) for name, kind in kinds.items()}
        shop.publish(f"r{number}", pa.table({"id": [number], **columns}))
    assert [(row["i"], row["f"], row["n"]) for row in shop.rows()] == [(1, 1.0, Decimal(1))] * 3


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("delta", pa.int32(), pa.int64()),
        ("delta", pa.int64(), pa.float64()),
        ("iceberg", pa.int64(), pa.float64()),
        ("iceberg", pa.decimal128(5, 2), pa.decimal128(9, 3)),
        ("iceberg", pa.int64(), pa.string()),
        ("iceberg", pa.string(), pa.binary()),
    ],
)
def test_another_type_is_refused_before_anything_is_decided(
    tmp_path: Path, kind: str, old: pa.DataType, new: pa.DataType
) -> None:
    shop = Shop(tmp_path, kind)
    shop.publish("r1", pa.table({"id": [1], "x": pa.array(["1"]).cast(old)}))
    before = state_of(shop)
    rows = pa.table({"id": [2], "x": pa.array(["1"]).cast(new)})
    with pytest.raises(WriteError, match=r'column "x" is .* and .* in the') as caught:
        shop.require_fit(shop.intent("r2", shop.move("r2", rows), schema=rows.schema))
    assert caught.value.fix.startswith("Nothing was published.")
    assert state_of(shop) == before


def test_a_file_unlike_the_dataset_is_refused_before_anything_is_decided(shop: Shop) -> None:
    stray = with_column("x", pa.string(), "y")
    with pytest.raises(WriteError, match="x"):
        shop.require_fit(shop.intent("r1", shop.move("r1", stray), schema=ORDERS))


def test_a_delta_column_changes_its_type_where_no_older_file_stays(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "delta")
    shop.publish("r1", pa.table({"id": [1], "x": [1], "old": ["o"]}))
    everything = shop.destination().live()
    shop.publish("r2", pa.table({"id": [2], "x": [1.5], "new": [True]}), removes=everything)
    assert shop.rows() == [{"id": 2, "x": 1.5, "old": None, "new": True}]


def test_columns_that_another_writer_needs_are_not_left_empty(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "delta")
    needed = pa.schema([pa.field("id", pa.int64(), nullable=False), ("unit", pa.string())])
    write_deltalake(str(shop.dataset), pa.table({"id": [1], "unit": ["a"]}, schema=needed))
    with pytest.raises(WriteError, match="NOT NULL"):
        shop.require_fit(shop.intent("r1", shop.move("r1", orders(2))))
    shop.publish("r1", orders(2).cast(needed))
    assert shop.ids() == [1, 2]


@pytest.mark.parametrize("name", ["a b", "a;b", "UNIT"])
def test_names_that_delta_cannot_tell_are_refused(tmp_path: Path, name: str) -> None:
    shop = Shop(tmp_path, "delta")
    rows = with_column(name, pa.string(), "y")
    with pytest.raises(WriteError, match="its name"):
        shop.require_fit(shop.intent("r1", shop.move("r1", rows), schema=rows.schema))


DEEP = pa.struct([("Note", pa.string())])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"x": pa.string()}, {"X": pa.string()}, ("X", "x")),
        ({"x": pa.string()}, {"X": pa.int64()}, ("X", "x")),
        ({"r": DEEP}, {"r": pa.struct([("note", pa.string())])}, ("r.note", "r.Note")),
    ],
)
@pytest.mark.parametrize("mode", [PublishMode.REPLACE, PublishMode.APPEND])
def test_a_delta_column_does_not_change_its_capital_letters(
    tmp_path: Path,
    old: dict[str, pa.DataType],
    new: dict[str, pa.DataType],
    told: tuple[str, str],
    mode: PublishMode,
) -> None:
    shop = Shop(tmp_path, "delta", mode)
    ((first, kind),), ((second, wanted),) = old.items(), new.items()
    shop.publish("r1", with_column(first, kind, None))
    rows = with_column(second, wanted, None)
    with pytest.raises(WriteError, match=f'column "{told[0]}" is "{told[1]}" in the') as caught:
        shop.require_fit(shop.intent("r2", shop.move("r2", rows), schema=rows.schema))
    assert f'Name the column "{told[1]}"' in caught.value.fix


def test_members_of_a_record_that_delta_cannot_tell_are_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "delta")
    rows = with_column("r", pa.struct([("a", pa.string()), ("A", pa.string())]), None)
    with pytest.raises(WriteError, match=r'column "r\.A" is its name'):
        shop.require_fit(shop.intent("r1", shop.move("r1", rows), schema=rows.schema))


@pytest.mark.parametrize(
    ("column", "number"),
    [
        (pa.date32(), 3_000_000),
        (pa.date32(), -800_000),
        (pa.timestamp("us", "UTC"), 300_000_000_000_000_000),
    ],
)
def test_dates_that_the_library_of_iceberg_does_not_know_are_refused(
    tmp_path: Path, column: pa.DataType, number: int
) -> None:
    shop = Shop(tmp_path, "iceberg")
    plain = pa.int32() if pa.types.is_date(column) else pa.int64()
    rows = orders(1).append_column("x", pa.array([number], plain).cast(column))
    with pytest.raises(WriteError, match=r'column "x" .* not in the years 1 to 9999') as caught:
        shop.require_fit(shop.intent("r1", shop.move("r1", rows), schema=rows.schema))
    assert "ms.output.schema" in caught.value.fix
    assert not shop.dataset.exists()


# Partitions


def by_shop(*values: object, kind: pa.DataType) -> pa.Table:
    return pa.table({"id": list(range(len(values))), "shop": pa.array(values, kind)})


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (pa.string(), "a/b =ü%", "a/b =ü%"),
        (pa.string(), None, None),
        (pa.int32(), -5, "-5"),
        (pa.bool_(), True, "true"),
        (pa.date32(), dt.date(2024, 2, 29), "2024-02-29"),
        (pa.decimal128(10, 2), Decimal("1.50"), "1.5"),
    ],
)
def test_rows_of_a_partition_have_its_value(
    tmp_path: Path, kind: str, column: pa.DataType, value: object, text: str | None
) -> None:
    shop = Shop(tmp_path, kind, fields=("shop",))
    rows = by_shop(value, value, kind=column)
    intent = shop.intent("r1", shop.move("r1", rows, values=[text]), schema=rows.schema)
    shop.require_fit(intent)
    shop.destination().carry_out(intent)
    shop.destination().check()
    assert shop.rows() == [{"id": 0, "shop": value}, {"id": 1, "shop": value}]
    found = rows_by_polars(kind, tmp_path).filter(pl_is("shop", value))
    assert found.height == 2
    assert [file.uri for file in shop.destination().live()] == [intent.commit.moves[0].target.uri]
    again = shop.intent("r2", removes=shop.destination().live(), schema=None)
    shop.require_fit(again)
    shop.destination().carry_out(again)
    assert shop.rows() == []


def pl_is(name: str, value: object):
    import polars as pl

    return pl.col(name).is_null() if value is None else pl.col(name) == value


def test_a_partition_value_that_would_make_the_table_unreadable_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "delta", fields=("shop",))
    rows = by_shop(Decimal("1.5"), kind=pa.decimal128(10, 1))
    move = shop.move("r1", rows, values=["1.55"])
    with pytest.raises(WriteError, match="cannot be distinguished"):
        shop.require_fit(shop.intent("r1", move, schema=rows.schema))


def test_a_table_that_is_partitioned_otherwise_is_refused(tmp_path: Path, kind: str) -> None:
    Shop(tmp_path, kind).publish("r1", orders(1))
    with pytest.raises(ConfigError) as caught:
        Shop(tmp_path, kind, fields=("unit",)).destination().check()
    (problem,) = caught.value.problems
    assert problem.key == "ms.table.partition.fields"


def test_a_table_that_is_partitioned_by_what_is_in_no_column_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "iceberg")
    shop.publish("r1", orders(1))
    with iceberg_table(tmp_path).update_spec() as spec:
        spec.add_field("id", BucketTransform(4))
    with pytest.raises(ConfigError, match=r"bucket\[4\]\(id\)"):
        shop.destination().check()
    with pytest.raises(ConfigError, match=r"bucket\[4\]\(id\)"):
        Shop(tmp_path, "iceberg", fields=("id",)).destination().check()


@pytest.mark.parametrize(
    "properties", [{"delta.appendOnly": "true"}, {"delta.constraints.positive": "id > 0"}]
)
def test_a_delta_table_whose_properties_would_be_broken_is_refused(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    shop = Shop(tmp_path, "delta", PublishMode.REPLACE)
    DeltaTable.create(
        str(shop.dataset), ORDERS, configuration=properties, raise_if_key_not_exists=False
    )
    with pytest.raises(ConfigError, match=next(iter(properties))):
        shop.destination().check()


def test_a_table_is_not_begun_among_plain_files(shop: Shop) -> None:
    shop.destination().check()
    intent = shop.intent("r1", shop.move("r1", orders(1)))
    manifest.advance(files, str(shop.dataset), intent.commit, 0)
    with pytest.raises(ConfigError) as caught:
        shop.destination().check()
    assert caught.value.problems[0].key == "ms.table.format"


def test_plain_files_are_not_published_into_the_folder_of_a_table(shop: Shop) -> None:
    shop.publish("r1", orders(1))
    plain = destination_for(replace(shop.spec, table=TableSpec()), files)
    with pytest.raises(ConfigError) as caught:
        plain.check()
    assert caught.value.problems[0].key == "ms.table.format"
    assert shop.kind in str(caught.value)
