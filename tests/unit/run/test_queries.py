"""Runs of derived datasets: slices of their inputs, each row once, and what the chain says."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dil import config
from dil.errors import ConfigError, LeaseHeldError, StateError
from dil.run import job_run
from dil.run.job_run import run_job
from dil.run.queries.slices import plan_slices
from dil.state import open_store
from tests.derived import SCHEMA, Lake
from tests.unit.state.derived_store import counted_bodies

BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def test_each_run_takes_the_rows_that_are_new_and_each_row_once(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    first = lake.run(big)
    lake.feed(*range(10, 20))
    lake.feed(*range(20, 25))
    second = lake.run(big)

    assert (first.rows, second.rows) == (5, 15)
    assert (first.rows_read, second.rows_read) == (10, 15)
    assert lake.ids("big") == Counter(range(5, 25))
    taken = [event["queryInputs"][0] for event in lake.data(big)]
    assert [(each["prevOffset"], each["newOffset"]) for each in taken] == [(None, 9), (9, 24)]
    assert taken[1]["prevBlockHash"] == taken[0]["newBlockHash"]
    intervals = [event["newData"]["offsetInterval"] for event in lake.data(big)]
    assert intervals == [{"start": 0, "end": 4}, {"start": 5, "end": 19}]
    assert lake.verify(big).problems == ()


def test_a_run_without_anything_new_is_nothing_due_and_appends_no_block(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    before = lake.blocks(big)

    report = lake.run(big)

    assert (report.status, report.exit_code) == ("nothing_due", 0)
    assert "orders has nothing new" in report.notes[0]
    assert lake.blocks(big) == before


def test_an_input_that_has_published_nothing_is_waited_for_and_is_no_failure(lake):
    report = lake.run(lake.derive("big", BIG))

    assert report.exit_code == 0
    advice = f"(dil run {lake.orders})"
    assert report.notes == (f"nothing is due: orders has published no rows yet {advice}",)


def test_a_query_that_gives_no_row_moves_on_in_its_inputs(lake):
    big = lake.derive("big", BIG)
    lake.feed(1, 2)
    report = lake.run(big)

    assert (report.status, report.rows) == ("success", 0)
    (event,) = lake.data(big)
    assert event["newData"] is None
    assert event["queryInputs"][0]["newOffset"] == 1
    assert lake.run(big).status == "nothing_due"


def test_blocks_without_rows_are_passed_without_running_the_query(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    lake.feed()

    report = lake.run(big, executor=None)  # which would start Spark

    assert report.status == "success"
    taken = lake.data(big)[-1]["queryInputs"][0]
    assert taken["newOffset"] is None
    assert taken["newBlockHash"] is not None
    assert taken["prevOffset"] == 9
    assert lake.ids("big") == Counter(range(5, 10))


def test_the_watermark_is_that_of_the_input(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)

    assert lake.data(big)[0]["newWatermark"] == lake.data(lake.orders)[-1]["newWatermark"]


def test_a_limit_of_blocks_leaves_the_rest_to_the_next_run(lake):
    big = lake.derive("big", "SELECT * FROM orders", ms__query__input__max__blocks="4")
    for start in range(0, 15, 5):
        lake.feed(*range(start, start + 5))

    rows = [lake.run(big).rows for _ in range(4)]

    assert rows == [5, 10, 0, 0]
    assert lake.ids("big") == Counter(range(15))


def test_the_query_in_force_is_in_the_chain_and_a_new_one_goes_on_from_the_same_rows(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    lake.derive("big", "SELECT id, amount FROM orders WHERE amount < 120")
    lake.feed(*range(10, 15))
    lake.run(big)

    assert lake.ids("big") == Counter([*range(5, 10), 10, 11])
    transforms = [
        block["event"]["query"]
        for block in lake.blocks(big)
        if block["event"]["kind"] == "SetTransform"
    ]
    assert transforms == [BIG, "SELECT id, amount FROM orders WHERE amount < 120"]
    assert lake.verify(big).problems == ()


def test_an_input_that_is_added_later_is_read_from_its_beginning(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.run(big)
    lake.derive("more", "SELECT id + 100 AS id, amount FROM orders")
    lake.run(lake.folder / "more.conf")
    lake.derive(
        "big", "SELECT id, amount FROM orders UNION ALL SELECT * FROM more", "orders", "more"
    )
    lake.run(big)

    assert lake.ids("big") == Counter([*range(5, 10), *range(100, 110)])
    assert lake.verify(big).problems == ()


def test_an_input_that_was_left_out_and_is_named_again_is_refused_in_append(lake):
    both, inputs = "SELECT * FROM orders UNION ALL SELECT * FROM more", ("orders", "more")
    more = lake.derive("more", "SELECT id + 100 AS id, amount FROM orders")
    big = lake.derive("big", both, *inputs)
    lake.feed(1, 2)
    lake.run(more)
    lake.run(big)
    lake.derive("big", "SELECT * FROM orders")
    lake.feed(3)
    lake.run(big)
    lake.derive("big", both, *inputs)

    with pytest.raises(StateError, match=r'input "more" was read by an earlier query') as error:
        lake.run(big)
    assert "-D ms.query.mode=full -D ms.publish.mode=replace" in error.value.fix
    assert lake.ids("big") == Counter([1, 2, 3, 101, 102])
    given = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
    job = config.load(big, overrides=given, environ={}).job
    assert run_job(job, lake.options()).exit_code == 0
    lake.feed(4)
    lake.run(big)
    assert lake.ids("big") == Counter([1, 2, 3, 4, 101, 102])
    assert lake.verify(big).problems == ()


def test_an_input_that_full_left_out_may_be_added_again(lake):
    more = lake.derive("more", "SELECT id + 100 AS id, amount FROM orders")
    both, inputs = "SELECT * FROM orders UNION ALL SELECT * FROM more", ("orders", "more")
    big = lake.derive("big", both, *inputs)
    lake.feed(1)
    lake.run(more)
    lake.run(big)
    lake.derive("big", "SELECT * FROM orders", ms__query__mode="full")
    lake.run(big)
    lake.derive("big", both, *inputs)
    lake.run(big)

    assert lake.ids("big") == Counter([1, 101])
    assert lake.verify(big).problems == ()


def test_full_runs_over_the_whole_input_again_and_replaces_the_dataset(lake):
    total = lake.derive(
        "total", "SELECT count(*) AS id, sum(amount) AS amount FROM orders", ms__query__mode="full"
    )
    lake.feed(*range(10))
    lake.run(total)
    assert lake.ids("total") == Counter([10])
    lake.feed(*range(10, 12))
    lake.run(total)

    assert lake.ids("total") == Counter([12])
    assert lake.run(total).status == "nothing_due"
    removed = lake.data(total)[-1]["newData"]["removes"]
    assert [part["rows"] for part in removed] == [1]
    assert lake.verify(total).problems == ()


def test_full_reads_an_input_that_is_replaced_and_append_refuses_it(lake):
    latest = lake.derive("latest", "SELECT * FROM orders", ms__query__mode="full")
    copy = lake.derive("copy", "SELECT * FROM latest", "latest", ms__query__mode="full")
    lake.feed(1, 2, 3)
    lake.run(latest)
    lake.run(copy)
    lake.feed(4)
    lake.run(latest)
    lake.run(copy)
    assert lake.ids("copy") == Counter([1, 2, 3, 4])

    lake.derive("copy", "SELECT * FROM latest", "latest")
    with pytest.raises(ConfigError, match=r"publishes by ms\.publish\.mode=replace") as error:
        lake.job(copy)
    assert "ms.query.mode=full" in str(error.value)


def test_an_input_whose_chain_was_restored_from_an_older_copy_is_refused(lake):
    lake.feed(*range(10))
    state = (lake.folder / "state" / "state.db").read_bytes()
    lake.feed(*range(10, 20))
    far = lake.derive("far", BIG, state__store__dir=str(lake.folder / "elsewhere"))
    lake.run(far)
    for name in ("state.db-wal", "state.db-shm"):
        (lake.folder / "state" / name).unlink(missing_ok=True)
    (lake.folder / "state" / "state.db").write_bytes(state)

    with pytest.raises(StateError, match=r"V40: InvalidInputInterval") as error:
        lake.run(far)
    assert "restored from an older copy" in error.value.fix
    assert "Restore the input's state" in error.value.fix
    assert any(problem.startswith("V34") for problem in lake.verify(far).problems)


def test_an_input_that_is_restored_while_a_query_runs_makes_nothing_visible(lake, monkeypatch):
    lake.feed(*range(10))
    state = (lake.folder / "state" / "state.db").read_bytes()
    lake.feed(*range(10, 20))
    far = lake.derive("far", BIG, state__store__dir=str(lake.folder / "elsewhere"))
    publish = job_run.publish

    def restore_first(*given: object) -> object:
        for name in ("state.db-wal", "state.db-shm"):
            (lake.folder / "state" / name).unlink(missing_ok=True)
        (lake.folder / "state" / "state.db").write_bytes(state)
        return publish(*given)

    monkeypatch.setattr(job_run, "publish", restore_first)
    report = lake.run(far)

    assert [failure.code for failure in report.failures] == [StateError.code]
    assert lake.ids("far") == Counter()


def test_a_run_waits_for_an_input_no_longer_than_the_job_says(lake):
    big = lake.derive("big", BIG, ms__query__wait="PT12S")
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 2:
            lake.feed(*range(10))

    assert lake.run(big, sleep=sleep).rows == 5
    assert waited == [5, 5]
    assert lake.run(big, sleep=waited.append).status == "nothing_due"
    assert sum(waited) == 22


def test_a_schema_that_changes_ends_the_slice_before_it(lake):
    big = lake.derive("big", "SELECT * FROM orders")
    lake.feed(*range(3))
    lake.run(big)
    lake.feed(3)
    text = lake.orders.read_text()
    lake.orders.write_text(
        text.replace("]\n", ', {"columnName": "note", "dataType": {"type": "string"}}]\n', 1)
    )
    lake.feed(4)

    first, second = lake.run(big), lake.run(big)

    assert (first.rows, second.rows) == (1, 1)
    assert lake.ids("big") == Counter(range(5))
    assert lake.verify(big).problems == ()


def test_rows_of_several_formats_are_read_by_their_chain(lake):
    for name, kind in (("avro", "AVRO"), ("csv", "CSV"), ("json", "JSON"), ("orc", "ORC")):
        lake.derive(name, "SELECT * FROM orders", writer__output__format=kind)
        lake.derive(f"from_{name}", f"SELECT * FROM {name}", name)
    lake.feed(*range(10))
    for name in ("avro", "csv", "json", "orc"):
        lake.run(lake.folder / f"{name}.conf")
        assert lake.run(lake.folder / f"from_{name}.conf").rows == 10
        assert lake.ids(f"from_{name}") == Counter(range(10))
    hashes = {
        lake.data(lake.folder / f"{name}.conf")[0]["newData"]["logicalHash"]
        for name in ("avro", "csv", "json", "orc", "from_avro")
    }
    assert len(hashes) == 1


def test_the_logical_hash_can_be_switched_off(lake):
    big = lake.derive("big", BIG, ms__query__logical__hash="false")
    lake.feed(*range(10))
    lake.run(big)

    assert lake.data(big)[0]["newData"]["logicalHash"] is None


def test_planning_a_third_dataset_reads_one_block_of_its_own_however_many_there_are(lake):
    """Most runs give no row: the place in the input is carried by each block."""
    rare = lake.derive("rare", "SELECT * FROM orders WHERE id % 20 = 0")
    third = lake.derive("third", "SELECT * FROM rare", "rare")
    for number in range(40):
        lake.feed(number)
        lake.run(rare)
        lake.run(third)

    assert lake.ids("third") == Counter([0, 20])
    assert len(lake.data(third)) == 40
    job = lake.job(third)
    with counted_bodies() as bodies:
        plan_slices(job, job.query, lambda: lake.now)
    assert bodies["third"] == 1
    for path in (rare, third):
        assert lake.verify(path).problems == ()


def test_planning_a_full_reading_reads_each_block_of_its_input_once(lake):
    every = lake.derive("every", "SELECT * FROM orders", ms__query__mode="full")
    job, found = lake.job(every), []
    for number in range(2):
        for _ in range(5):
            lake.feed(number)
        with counted_bodies() as bodies:
            planned = plan_slices(job, job.query, lambda: lake.now)
        found.append(bodies["orders"])

    assert planned.rows == 10
    assert found[1] - found[0] == 5


def test_a_second_run_at_the_same_time_is_refused(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    job = lake.job(big)
    with open_store(job.state, job.name, clock=lambda: lake.now) as store:
        lease = store.acquire_lease("other", lease_s=600)
        with pytest.raises(LeaseHeldError):
            lake.run(big)
        store.release_lease(lease)

    assert lake.run(big).rows == 5


def test_a_dataset_is_read_by_its_name_and_the_store_of_its_state(lake):
    store = {"type": "sqlite", "dir": str(lake.folder / "state")}
    big = lake.derive(
        "big",
        "SELECT * FROM o",
        ms__query__inputs=json.dumps([{"dataset": "orders", "as": "o", "state.store": store}]),
        state__store__dir=str(lake.folder / "own"),
    )
    lake.feed(*range(4))

    assert lake.run(big).rows == 4
    assert lake.verify(big).problems == ()


def test_chains_in_file_logs_are_inputs_and_are_derived(lake):
    logs = {"state__store__type": "filelog", "state__store__dir": str(lake.folder / "logs")}
    first = lake.derive("first", BIG, **logs)
    store = {"type": "filelog", "dir": str(lake.folder / "logs")}
    second = lake.derive(
        "second",
        "SELECT * FROM f",
        ms__query__inputs=json.dumps([{"dataset": "first", "as": "f", "state.store": store}]),
    )
    for start in (0, 10):
        lake.feed(*range(start, start + 10))
        lake.run(first)
        lake.run(second)

    assert lake.ids("second") == lake.ids("first") == Counter(range(5, 20))
    assert lake.verify(first).problems == lake.verify(second).problems == ()


def test_a_compaction_of_an_input_brings_no_row_again(lake):
    big = lake.derive("big", BIG)
    lake.feed(*range(10))
    lake.feed(*range(10, 20))
    lake.run(big)
    lake.compact(lake.orders)

    report = lake.run(big, executor=None)  # which would start Spark

    assert (report.status, report.rows) == ("success", 0)
    lake.feed(*range(20, 30))
    assert lake.run(big).rows == 10
    assert lake.ids("big") == Counter(range(5, 30))
    assert lake.verify(big).problems == ()


@pytest.mark.parametrize("limit", ["2", "4", ""])
def test_a_compaction_before_the_first_read_is_taken_whole_whatever_cuts_the_slice(lake, limit):
    more = {"columnName": "note", "dataType": {"type": "string"}}
    every = lake.derive("every", "SELECT * FROM orders", ms__query__input__max__blocks=limit)
    lake.feed(1, 2)
    if not limit:  # then the new schema cuts it
        schema = json.dumps(SCHEMA)
        text = lake.orders.read_text()
        lake.orders.write_text(text.replace(schema, json.dumps([*SCHEMA, more])))
    lake.feed(3)
    lake.feed(4)
    lake.compact(lake.orders)
    lake.feed(5)
    while lake.run(every).status == "success":
        pass

    assert lake.ids("every") == Counter([1, 2, 3, 4, 5])
    assert lake.verify(every).problems == ()


def test_a_derived_dataset_is_compacted_as_others_are(lake):
    big = lake.derive("big", BIG)
    for start in (0, 10, 20):
        lake.feed(*range(start, start + 10))
        lake.run(big)
    lake.compact(big)

    assert lake.ids("big") == Counter(range(5, 30))
    assert lake.verify(big).problems == ()
    lake.feed(30)
    assert lake.run(big).rows == 1
    assert lake.ids("big") == Counter(range(5, 31))
    assert lake.verify(big).problems == ()


def test_a_block_that_only_takes_rows_away_is_refused_and_not_passed_over(lake):
    source = {
        "source.class": "file",
        "ms.extractor.class": "json",
        "ms.source.uri": str(lake.folder / "in"),
        "ms.output.schema": json.dumps(SCHEMA),
        "ms.publish.mode": "replace",
    }
    whole = lake.write("whole", source)
    store = {"type": "sqlite", "dir": str(lake.folder / "state")}
    read = json.dumps([{"dataset": "whole", "state.store": store, "as": "orders"}])
    big = lake.derive("big", BIG, ms__query__inputs=read)
    lake.add(5, 6)
    lake.run(whole)
    lake.run(big)
    file = lake.folder / "in" / "0001.json"
    kept = file.read_text()
    for rows in ("[]", kept):
        file.write_text(rows)
        lake.run(whole)
        with pytest.raises(StateError, match="takes rows away that were read before"):
            lake.run(big)

    assert lake.ids("big") == Counter((5, 6))


def test_rows_that_fail_hold_up_the_place_in_the_inputs_under_any_commit_policy(lake):
    year = {"type": "epoc", "source": "note", "format": "yyyy"}
    changes = {
        "ms__derived__fields": json.dumps([{"name": "year", "formula": year}]),
        "job__commit__policy": "successful",
    }
    query = "SELECT id, {} AS note FROM orders"
    lake.feed(1, 2)

    report = lake.run(lake.derive("big", query.format("'none'"), **changes))

    assert (report.status, report.exit_code) == ("failed", 1)
    assert lake.data(lake.folder / "big.conf") == []
    assert lake.run(lake.derive("big", query.format("'2024'"), **changes)).rows == 2


def test_an_input_that_takes_rows_away_is_refused_where_only_its_chain_tells(lake):
    latest = lake.derive("latest", "SELECT * FROM orders", ms__query__mode="full")
    store = {"type": "sqlite", "dir": str(lake.folder / "state")}
    copy = lake.derive(
        "copy",
        "SELECT * FROM l",
        ms__query__inputs=json.dumps([{"dataset": "latest", "as": "l", "state.store": store}]),
    )
    lake.feed(1, 2)
    lake.run(latest)
    lake.run(copy)
    lake.feed(3)
    lake.run(latest)

    with pytest.raises(StateError, match="takes rows away that were read before") as error:
        lake.run(copy)
    assert "ms.query.mode=full reads the whole input again" in error.value.fix
    assert lake.ids("copy") == Counter([1, 2])


def test_a_slice_whose_rows_were_replaced_goes_on_to_the_block_that_replaced_them(lake):
    """A limit, or the change of the input's query, would end the slice before that block."""
    copied = lake.derive("copied", "SELECT * FROM orders")
    anew = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
    lake.feed(1, 2)
    lake.run(copied)
    early = lake.derive("early", "SELECT * FROM copied", "copied")
    assert lake.run(early).rows == 2
    lake.feed(3)
    assert run_job(config.load(copied, overrides=anew, environ={}).job, lake.options()).rows == 3
    lake.feed(4)
    lake.run(copied)
    for name, limits in {"all": {}, "limited": {"ms__query__input__max__blocks": "1"}}.items():
        late = lake.derive(name, "SELECT * FROM copied", "copied", **limits)
        while lake.run(late).status == "success":
            pass
        assert lake.ids(name) == Counter([1, 2, 3, 4])
        assert lake.verify(late).problems == ()

    with pytest.raises(StateError, match="takes rows away that were read before") as error:
        lake.run(early)
    assert "ms.query.mode=full reads the whole input again" in error.value.fix


def test_full_that_gives_no_row_leaves_nothing(lake):
    few = lake.derive(
        "few",
        "SELECT max(id) AS id FROM orders HAVING count(*) < 4",
        ms__query__mode="full",
    )
    lake.feed(1, 2, 3)
    lake.run(few)
    assert lake.ids("few") == Counter([3])
    lake.feed(4)

    assert lake.run(few).rows == 0
    assert lake.ids("few") == Counter()
    assert lake.verify(few).problems == ()


@pytest.mark.parametrize("mode", ["append", "full"])
@pytest.mark.parametrize("place", ["delta", "sqlite"])
def test_rows_go_to_tables_and_databases_in_both_modes(lake, place, mode):
    where = {
        "delta": {"ms__table__format": "delta"},
        "sqlite": {"ms__warehouse__url": f"sqlite:///{lake.folder}/w.db"},
    }
    big = lake.derive("big", BIG, writer__file__path__type="", ms__query__mode=mode, **where[place])
    for start in (0, 10):
        lake.feed(*range(start, start + 10))
        assert lake.run(big).exit_code == 0

    if place == "delta":
        ids = DeltaTable(lake.folder / "lake" / "shop" / "big").to_pyarrow_table()["id"].to_pylist()
    else:
        with closing(sqlite3.connect(lake.folder / "w.db")) as connection:
            ids = [row[0] for row in connection.execute("SELECT id FROM big")]
    assert Counter(ids) == Counter(range(5, 20))
    assert lake.run(big).status == "nothing_due"
    assert lake.verify(big).problems == ()


def test_an_input_whose_first_run_only_removed_files_of_others_has_no_rows(lake):
    stock = lake.of_files(
        "stock", SCHEMA, {"ms.publish.mode": "replace", "ms.source.files.once": ""}
    )
    other = lake.folder / "lake/shop/stock/part-of-others.parquet"
    other.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [7], "amount": [70]}), other)
    every = lake.derive("every", "SELECT id FROM stock", "stock", ms__query__mode="full")

    assert (lake.run(stock).exit_code, lake.run(every).exit_code) == (0, 0)

    assert (lake.ids("stock"), other.exists()) == (Counter(), False)
    lake.add(1, 2)
    assert (lake.run(stock).exit_code, lake.run(every).exit_code) == (0, 0)
    assert lake.ids("stock") == lake.ids("every") == Counter([1, 2])
    assert lake.verify(stock).problems == lake.verify(every).problems == ()
