"""The properties of derived datasets: what is read of them, and what is wrong at once."""

from __future__ import annotations

import json
import sys

import pytest

from dil import config
from dil.errors import ConfigError
from dil.model.job import PublishMode, QueryMode
from tests.derived import SCHEMA, Lake

OWN = """
from dil.model.job import PublishMode
from dil.spi.destination import Destination
from dil.spi.writer import FileWriter

class Shelf(Destination):
    modes = frozenset({PublishMode.APPEND})

    def uri(self, path): return "shelf:" + path
    def has_landed(self, intent): return False
    def carry_out(self, intent): pass

class Lines(FileWriter):
    extension = "lines"

    def write(self, batch): pass
    def close(self): pass
"""
DEDUPE = {
    "ms__dedupe__keys": "id",
    "ms__dedupe__column": "amount",
    "ms__dedupe__within": "PT1M",
}
ENCRYPTED = {"ms__encryption__fields": '["id"]', "encrypt__key__loc": "key"}
BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def problems(path) -> str:
    with pytest.raises(ConfigError) as error:
        config.load(path, environ={})
    return str(error.value)


def test_a_job_of_a_query_needs_nothing_of_a_source(lake):
    job = lake.job(lake.derive("big", BIG))

    assert job.query.mode is QueryMode.APPEND
    assert job.query.text == BIG
    (item,) = job.query.inputs
    assert (item.dataset, item.view, item.path) == ("orders", "orders", str(lake.orders))
    assert job.publishing.mode is PublishMode.APPEND


def test_all_that_is_wrong_is_said_at_once_with_its_line(lake):
    path = lake.write(
        "big",
        {
            "ms.query.inputs": '[{"job": "orders.conf", "as": "1"}, {"as": "b"},'
            ' {"dataset": "c", "as": "c"}]',
            "ms.source.uri": "/in",
            "ms.parameters": '[{"name": "a", "value": "b"}]',
            "ms.query.max.blocks": "4",
        },
    )
    text = problems(path)

    for part in (
        '[0].as is "1", which cannot name a view',
        "[1] names neither job nor dataset",
        '[2] lacks the member "state.store"',
        "ms.source.uri has no effect with ms.query.inputs",
        "ms.parameters has no effect with ms.query.inputs",
        "ms.query.max.blocks",
    ):
        assert part in text
    assert f"{path}:9: ms.query.inputs" in text


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"ms__query__sql": ""}, "needs a query, and has none"),
        ({"ms__query__function": "a:b"}, "is set, and ms.query.function too"),
        (
            {"ms__query__mode": "windowed"},
            "does not go with ms.query.mode=windowed: the windows are the query",
        ),
        (
            {"ms__query__mode": "windowed", "ms__query__sql": ""},
            "is windowed, and ms.window.aggs is not set",
        ),
        ({"ms__window__size": "PT1H"}, "ms.window.size has no effect here"),
        ({"ms__publish__mode": "replace"}, "ms.query.mode is append, and rows would be published"),
        ({"ms__publish__mode": "window_replace"}, "ms.query.mode is append, and rows would be"),
        (
            {"state__store__enabled": "false"},
            "a query keeps its progress through the inputs in the state",
        ),
        ({"ms__query__inputs": '[{"job": "no.conf", "as": "a"}]'}, "no.conf, which does not exist"),
        (
            {"ms__query__inputs": '[{"job": "big.conf", "as": "a"}]'},
            "the dataset of this job itself",
        ),
        (
            {
                "ms__query__inputs": '[{"job": "orders.conf", "as": "a"},'
                ' {"job": "orders.conf", "as": "b"}]'
            },
            "[1] is the dataset orders, which [0] names, too",
        ),
        (
            {
                "ms__query__inputs": '[{"job": "orders.conf", "as": "a"},'
                ' {"job": "orders.conf", "as": "A"}]'
            },
            'names the view "a" more than once',
        ),
        (
            {"ms__query__inputs": '[{"job": "s3://a/b.conf", "as": "a"}]'},
            "[0].job is on s3:, but must be on this machine",
        ),
        (
            {"ms__query__inputs": '[{"job": "orders.conf", "as": "a", "closed": true}]'},
            "which closes no timelabels",
        ),
        (
            {"ms__timelabel__close": "auto"},
            "rows of a query have the labels of ms.timelabel.column",
        ),
        (
            {"ms__timelabel__schedule": "@daily"},
            "ms.timelabel.column is not set, and rows of a query have no other time",
        ),
        ({"ms__dedupe__column": "amount"}, "ms.dedupe.column has no effect without ms.dedupe.keys"),
        ({"ms__dedupe__keys": "id"}, "ms.dedupe.keys is set, and ms.dedupe.column is not"),
        (
            {
                **DEDUPE,
                "ms__publish__mode": "merge",
                "extract__primary__key__fields": "id",
            },
            "does not go with ms.publish.mode=merge, which has keys of its own",
        ),
        (
            {**DEDUPE, "ms__warehouse__url": "sqlite:///w.db", "writer__file__path__type": ""},
            "looks for earlier rows among published files, and ms.warehouse.url publishes",
        ),
        ({**DEDUPE, **ENCRYPTED}, 'names "id", which ms.encryption.fields encrypts'),
        ({"ms__destination__class": "own:Shelf"}, "built-in classes write and publish the rows"),
        ({"ms__writer__class": "own:Lines"}, "built-in classes write and publish the rows"),
        ({"ms__target__schema__urn": "x"}, "the query names the columns, and CAST their types"),
        (
            {"ms__stream__mode": "stateful", "ms__query__mode": "full"},
            "ms.query.mode=full: each micro-batch would rebuild the dataset",
        ),
        (
            {"ms__stream__mode": "stateful", "ms__query__wait": "PT1M"},
            "ms.query.wait has no effect in a stream",
        ),
        (
            {"ms__stream__mode": "stateful", "ms__stream__max__rows": "3"},
            "Set ms.query.input.max.blocks or ms.query.input.max.rows",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(lake, changes, what):
    (lake.folder / "key").write_text("master\n")
    assert what in problems(lake.derive("big", BIG, **changes))


@pytest.mark.parametrize(
    ("store", "what"),
    [
        ({"type": "sqlite"}, "[0].state.store has no dir"),
        ({"type": "sqlite", "dir": "s3://x/y"}, "state.store.type=sqlite needs a folder of this"),
        ({"type": "postgresql"}, "[0]: state.store.db.url is needed"),
        (
            {"type": "postgresql", "url": "env:NONE"},
            "[0].state.store.url names the environment variable NONE, which is not set",
        ),
    ],
)
def test_an_input_of_a_state_store_that_cannot_be_opened_is_refused(lake, store, what):
    read = [{"dataset": "orders", "as": "orders", "state.store": store}]
    assert what in problems(lake.derive("big", BIG, ms__query__inputs=json.dumps(read)))


@pytest.mark.parametrize(
    ("of_input", "what"),
    [
        (
            {"ms.extractor.class": "filedump", "ms.extractor.target.file.name": "{{name}}"},
            "which publishes files as they are, and not rows",
        ),
        ({"state.store.enabled": "false"}, "keeps no state, so no query knows which rows are new"),
        (
            {
                "ms.destination.class": "own:Shelf",
                "ms.publish.mode": "append",
                "writer.output.format": "",
                "writer.file.path.type": "",
            },
            "publishes by own:Shelf, and not into files",
        ),
        (
            {"ms.writer.class": "own:Lines", "writer.output.format": ""},
            "writes files by own:Lines, which are not read here",
        ),
    ],
)
def test_an_input_without_rows_that_a_query_can_read_is_refused(lake, monkeypatch, of_input, what):
    monkeypatch.delitem(sys.modules, "own", raising=False)
    (lake.folder / "own.py").write_text(OWN)
    lake.of_files("orders", SCHEMA, of_input)
    assert what in problems(lake.derive("big", BIG))


def test_closed_timelabels_are_not_read_of_a_dataset_whose_files_mix_them(lake):
    labels = {
        "ms.source.files.once": "",
        "ms.watermark": '[{"name":"t","type":"datetime","range":{"from":"2020-01-01","to":"-"}}]',
        "ms.work.unit.partition": "daily",
        "ms.timelabel.schedule": "@daily",
        "ms.timelabel.close": "auto",
        "ms.publish.mode": "merge",
        "extract.primary.key.fields": "id",
    }
    lake.of_files("orders", SCHEMA, labels)
    read = '[{"job": "orders.conf", "as": "orders", "closed": true}]'
    text = problems(lake.derive("big", BIG, ms__query__inputs=read))
    assert "its files have rows of several timelabels" in text
    lake.of_files("orders", SCHEMA, {**labels, "ms.publish.mode": "window_replace"})
    assert lake.job(lake.derive("big", BIG, ms__query__inputs=read)).query.inputs[0].reads_closed


def test_inputs_that_cannot_be_read_are_not_called_missing_as_well(lake):
    changes = {"ms__query__inputs": "[{", "ms__stream__mode": "stateful"}
    with pytest.raises(ConfigError) as caught:
        config.load(lake.derive("big", BIG, **changes), environ={})
    assert {each.key for each in caught.value.problems} == {"ms.query.inputs"}


def test_properties_of_a_query_without_inputs_have_no_effect_and_are_refused(lake):
    text = lake.orders.read_text() + "ms.query.mode=full\n"
    lake.orders.write_text(text)

    assert "ms.query.mode has no effect without ms.query.inputs" in problems(lake.orders)


def test_an_input_that_is_wrong_is_named_with_its_first_problem(lake):
    lake.orders.write_text(lake.orders.read_text() + "ms.pagination={}x\n")
    text = problems(lake.derive("big", BIG))

    assert f"[0].job names {lake.orders}, which is wrong: ms.pagination" in text
    assert "dil validate orders.conf lists it all." in text


def test_an_input_that_goes_into_a_database_cannot_be_read(lake):
    text = lake.orders.read_text()
    lake.orders.write_text(
        f"{text}ms.warehouse.url=sqlite:///{lake.folder}/w.db\nextract.table.type=APPEND_ONLY\n"
    )

    assert "publishes into a database, as" in problems(lake.derive("big", BIG))


def test_a_file_of_sql_is_read_and_one_that_others_may_change_is_refused(lake):
    (lake.folder / "big.sql").write_text(BIG)
    path = lake.derive("big", "", ms__query__file="big.sql")
    assert lake.job(path).query.text == BIG

    (lake.folder / "big.sql").chmod(0o666)
    assert "would run the query in" in problems(path)
    assert "which does not exist" not in problems(path)
    (lake.folder / "big.sql").unlink()
    assert "which cannot be read" in problems(path)


@pytest.mark.parametrize(
    ("file", "content", "what"),
    [
        ("big.sql", b"", "big.sql, which is empty"),
        ("big.sql", b"\xff", "big.sql, which cannot be read: it is not UTF-8"),
        ("s3://lake/big.sql", b"", "ms.query.file is on s3:, but must be on this machine"),
    ],
)
def test_a_file_without_a_query_in_it_is_refused(lake, file, content, what):
    (lake.folder / "big.sql").write_bytes(content)
    assert what in problems(lake.derive("big", "", ms__query__file=file))


def test_a_function_is_found_without_being_imported(lake):
    (lake.folder / "lake_queries.py").write_text(
        "raise RuntimeError\ndef big(inputs):\n    return inputs['orders']\n"
    )
    path = lake.derive("big", "", ms__query__function="lake_queries:big")
    query = lake.job(path).query
    assert str(query.function) == "lake_queries:big"
    assert len(query.code) == 64

    lake.derive("big", "", ms__query__function="lake_queries:bik")
    assert "has no function bik" in problems(path)
    lake.derive("big", "", ms__query__function="lake_query:big")
    assert "there is no module lake_query" in problems(path)
    lake.derive("big", "", ms__query__function="big")
    assert "not of the form module:function" in problems(path)


@pytest.mark.parametrize(
    "text",
    [
        "from m import big",
        "import m as big",
        "from m import *",
        "big = len",
        "big: object = len",
        "small, big = min, max",
        "if 1 > 0:\n    def big(inputs): return inputs['orders']",
        "try:\n    import m\nexcept ImportError:\n    big = len\nelse:\n    big = m.big",
        "match 1:\n    case 1:\n        with m:\n            from m import big",
    ],
)
def test_a_function_may_be_imported_assigned_or_defined_in_a_block(lake, text):
    (lake.folder / "lake_imports.py").write_text(text)
    path = lake.derive("big", "", ms__query__function="lake_imports:big")
    assert str(lake.job(path).query.function) == "lake_imports:big"


def test_a_method_is_no_function_of_its_module(lake):
    (lake.folder / "lake_methods.py").write_text("class Query:\n    def big(self): return self")
    path = lake.derive("big", "", ms__query__function="lake_methods:big")
    assert "has no function big" in problems(path)


def test_a_module_that_is_no_python_is_named_with_its_line(lake):
    (lake.folder / "lake_broken.py").write_text("x = 1\ndef big(\n")
    text = problems(lake.derive("big", "", ms__query__function="lake_broken:big"))
    assert "which is no Python: '(' was never closed (lake_broken.py, line 2)" in text


def test_what_a_job_inherits_of_sources_is_passed_over(lake):
    (lake.folder / ".dil-project").touch()
    (lake.folder / "all.properties").write_text(
        "ms.http.retry.max=3\nms.event.column=amount\nms.timelabel.schedule=@daily\n"
    )

    job = lake.job(lake.derive("big", BIG))
    assert job.query is not None
    assert job.events is None


def test_full_replaces_and_warehouses_are_appended_to_as_files_are(lake):
    assert lake.job(lake.derive("big", BIG, ms__query__mode="full")).publishing.mode == "replace"
    url = f"sqlite:///{lake.folder}/w.db"
    job = lake.job(lake.derive("big", BIG, ms__warehouse__url=url, writer__file__path__type=""))
    assert job.publishing.mode is PublishMode.APPEND


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"ms.publish.mode": "append"}, "is true, and ms.publish.mode is append"),
        (
            {
                "ms.warehouse.url": "sqlite:////tmp/w.db",
                "extract.table.type": "SNAPSHOT_APPEND",
                "writer.file.path.type": "",
            },
            "is true, and rows go into a database, which merges them itself",
        ),
        (
            {"data.publisher.appendExtractToFinalDir": "false"},
            "is true, and the dataset has no folder of its own",
        ),
        (
            {"ms.merge.op.field": "op"},
            "is true, and the column of ms.merge.op.field is named op, as the one that it adds",
        ),
    ],
)
def test_a_changelog_is_refused_where_no_merge_here_knows_what_changed(lake, changes, what):
    merged = {
        "source.class": "file",
        "ms.extractor.class": "json",
        "ms.source.uri": str(lake.folder / "in"),
        "ms.publish.mode": "merge",
        "extract.primary.key.fields": "id",
        "ms.publish.changelog": "true",
    }
    lake.job(lake.write("merged", merged))
    assert f"ms.publish.changelog {what}" in problems(lake.write("merged", {**merged, **changes}))


def test_append_reads_a_merged_dataset_by_its_changelog_alone(lake):
    orders = lake.orders.read_text() + "ms.publish.mode=merge\nextract.primary.key.fields=id\n"
    lake.orders.write_text(orders)
    big = lake.derive("big", BIG)
    assert "Or set ms.publish.changelog=true there" in problems(big)

    lake.orders.write_text(f"{orders}ms.publish.changelog=true\n")
    assert lake.job(big).query.inputs[0].keeps_changelog
    windows = {
        "ms__window__column": "amount",
        "ms__window__size": "PT1H",
        "ms__window__aggs": '{"rows": "count(*)"}',
    }
    text = problems(lake.derive("big", "", ms__query__mode="windowed", **windows))
    assert "ms.query.mode=windowed cannot remove its results of them" in text


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        ("full", "ms.query.mode=full reads all rows again each time"),
        ("windowed", "ms.query.mode=windowed publishes each window once"),
    ],
)
def test_event_time_has_no_sense_where_no_row_of_the_result_comes_late(lake, mode, what):
    windows = {
        "ms__window__column": "amount",
        "ms__window__size": "PT1H",
        "ms__window__aggs": '{"rows": "count(*)"}',
    }
    changes = {"ms__query__mode": mode, "ms__event__column": "amount"}
    query, more = ("", windows) if mode == "windowed" else (BIG, {})
    path = lake.derive("big", query, **changes, **more)
    assert f"ms.event.column is set, and {what}" in problems(path)


def test_a_run_that_makes_it_anew_passes_over_event_time_and_changelog_and_says_so(lake):
    job = {
        "ms__publish__mode": "merge",
        "extract__primary__key__fields": "id",
        "ms__publish__changelog": "true",
        "ms__event__column": "amount",
        "ms__event__watermark": "source_180ms",
    }
    path = lake.derive("big", BIG, **job)
    anew = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
    loaded = config.load(path, overrides=anew, environ={})

    assert (loaded.job.events, loaded.job.publishing.keeps_changelog) == (None, False)
    said = {notice.key: notice.what for notice in loaded.infos}
    assert "has no effect in this run" in said["ms.event.column"]
    assert "has no effect in this run" in said["ms.publish.changelog"]
    with pytest.raises(ConfigError, match=r"ms\.event\.column is set, and ms\.query\.mode=full"):
        config.load(path, overrides={**anew, "ms.event.column": "amount"}, environ={})


def test_a_derived_dataset_is_no_stream(lake):
    text = problems(lake.derive("big", BIG, **{"ms.stream.mode": "ingest"}))
    assert "ms.stream.mode is ingest, and the job has ms.query.inputs" in text
