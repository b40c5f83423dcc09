"""Whole runs that merge by key: upserts, deletes, snapshots, changed columns, operators' acts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec import Raw

from dil import config
from dil.cli.main import main
from dil.errors import ConfigError
from dil.execution.executor import Execution, Watch
from dil.model.report import MergedRows, RunStatus
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.task.group import run_group
from dil.testing.in_process import InProcessExecutor
from tests.integration.merge_jobs import SNAPSHOT, STRICT, Shop, declared
from tests.jobs import visible_files
from tests.servers.day_rows import DayRows
from tests.stories import day

OPS = {"ms__merge__op__field": "op"}
WHOLE = {name.replace(".", "__"): value for name, value in SNAPSHOT.items()}


def row(key: object, name: str, at: object = 1, **more: object) -> dict[str, object]:
    return {"id": key, "name": name, "at": at, **more}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows({day(0): [row(1, "a"), row(2, "b"), row(3, "c")]}) as server:
        yield server


@pytest.fixture
def shop(tmp_path: Path, source: DayRows) -> Shop:
    return Shop(tmp_path / "job", source)


def test_a_row_takes_the_place_of_the_earlier_one_of_its_key(shop: Shop) -> None:
    shop.run(1)
    shop.source.days[day(1)] = [row(2, "B", 2), row(4, "d")]

    report = shop.run(2)

    assert report.status is RunStatus.SUCCESS
    assert shop.brief() == {1: "a", 2: "B", 3: "c", 4: "d"}
    assert report.merged == MergedRows(inserted=1, updated=1)


def test_an_older_change_that_comes_late_changes_nothing(shop: Shop) -> None:
    shop.source.days[day(0)] = [row(1, "new", 5), row(1, "newest", 7), row(1, "newer", 6)]
    shop.run(1)
    files = shop.names()
    shop.source.days[day(1)] = [row(1, "late", 3)]

    report = shop.run(2)

    assert shop.brief() == {1: "newest"}
    assert report.merged == MergedRows()
    assert shop.names() == files


def test_of_equal_delta_fields_the_later_work_unit_wins(shop: Shop) -> None:
    shop.source.days[day(1)] = [row(1, "second day")]

    shop.run(2)

    assert shop.brief() == {1: "second day", 2: "b", 3: "c"}


def test_a_run_that_replaces_a_merged_dataset_merges_the_rows_that_it_reads(shop: Shop) -> None:
    """Advice of many messages: read everything again once with ms.publish.mode=replace."""
    shop.run(1, **OPS)
    shop.source.days[day(0)] += [row(2, "B", 2), row(3, "c", 2, op="d"), row(4, "d")]

    shop.run(1, {"ms.publish.mode": "replace"}, **OPS)

    assert shop.brief() == {1: "a", 2: "B", 4: "d"}
    assert sorted(each["id"] for each in shop.rows()) == [1, 2, 4]
    shop.source.days[day(1)] = [row(1, "A", 3)]
    assert shop.run(2, **OPS).merged == MergedRows(updated=1)


def test_files_without_a_changed_key_stay_as_they_are(shop: Shop) -> None:
    shop.source.days[day(1)] = [row(10, "x"), row(11, "y")]
    shop.run(2)
    before = shop.names()
    shop.source.days[day(2)] = [row(11, "Y", 2)]

    shop.run(3)

    assert len(before & shop.names()) == 1
    assert shop.brief() == {1: "a", 2: "b", 3: "c", 10: "x", 11: "Y"}


def test_rows_deleted_at_the_source_go(shop: Shop) -> None:
    shop.source.days[day(0)][0]["op"] = "i"
    shop.run(1, **OPS)
    shop.source.days[day(1)] = [
        row(1, "gone", 2, op="Delete"), row(2, "kept", 2, op="u"), row(9, "never", 1, op="d"),
    ]  # fmt: skip

    report = shop.run(2, **OPS)

    assert shop.brief() == {2: "kept", 3: "c"}
    assert report.merged == MergedRows(inserted=0, updated=1, deleted=1)


def test_soft_deletes_keep_the_row_with_the_time_and_an_upsert_brings_it_back(shop: Shop) -> None:
    soft = {**OPS, "ms__merge__deletes": "soft"}
    shop.source.days[day(0)][0]["op"] = "i"
    shop.run(1, **soft)
    shop.source.days[day(1)] = [row(1, "", 2, op="d")]
    assert shop.run(2, **soft).merged == MergedRows(deleted=1)

    marks = {each["id"]: each["_dil_deleted_at"] for each in shop.rows()}
    assert marks == {1: dt.datetime(2020, 1, 3, tzinfo=dt.UTC), 2: None, 3: None}
    assert shop.brief()[1] == "a"

    shop.source.days[day(2)] = [row(1, "back", 3, op="i")]
    assert shop.run(3, **soft).drift == ()
    assert [each["_dil_deleted_at"] for each in shop.rows()] == [None, None, None]
    assert shop.brief()[1] == "back"


def test_a_snapshot_takes_away_what_the_source_has_no_more(shop: Shop) -> None:
    rows = [row(number, "x") for number in range(20)]
    shop.source.days[0] = rows
    shop.run(1, **WHOLE)
    shop.source.days[0] = [*rows[1:], row(30, "new")]

    report = shop.run(2, **WHOLE)

    assert sorted(shop.brief()) == [*range(1, 20), 30]
    assert report.merged == MergedRows(inserted=1, updated=19, deleted=1)


@pytest.mark.parametrize("left", [0, 17])
def test_more_missing_rows_than_allowed_fail_the_run_before_anything_is_published(
    shop: Shop, left: int
) -> None:
    rows = [row(number, "x") for number in range(20)]
    shop.source.days[0] = rows
    shop.run(1, **WHOLE)
    files = shop.names()
    shop.source.days[0] = rows[:left]

    report = shop.run(2, **WHOLE)

    (failure,) = report.failures
    assert (report.status, failure.code) == (RunStatus.FAILED, "DIL-SRC-CONTRACT")
    assert f"{20 - left} of 20 rows" in failure.error
    assert "ms.merge.delete.limit.percent=10" in failure.error
    assert shop.names() == files

    shop.source.days[0] = rows[:19]
    assert shop.run(2, **WHOLE).status is RunStatus.SUCCESS
    assert sorted(shop.brief()) == [*range(19)]


def test_what_a_partial_reading_lacks_is_not_deleted(shop: Shop) -> None:
    """A day that was published before is not read again: its rows are not missing."""
    by_day = {**WHOLE, "ms__work__unit__partition": "daily"}
    shop.source.days[0] = [row(1, "a"), row(2, "b")]
    shop.run(1, **by_day)
    shop.source.days[0] = [row(2, "B", 2)]

    shop.run(2, **by_day)

    assert shop.brief() == {1: "a", 2: "B"}


def test_nothing_is_missing_where_rows_were_put_aside(shop: Shop) -> None:
    """The key of a row that broke the contract may be that of any live row."""
    strict = {**WHOLE, **STRICT}
    shop.source.days[0] = [row(number, "x") for number in range(20)]
    shop.run(1, **strict)
    shop.source.days[0] = [row(0, "x", "no number"), *(row(n, "y") for n in range(2, 20))]

    report = shop.run(2, **strict)

    assert (report.status, report.aside.rows) == (RunStatus.SUCCESS, 1)
    assert shop.brief() == {0: "x", 1: "x", **dict.fromkeys(range(2, 20), "y")}
    shop.source.days[0] = shop.source.days[0][1:]
    shop.run(3, **strict)
    assert sorted(shop.brief()) == [*range(2, 20)]


def test_a_widened_column_has_one_type_in_all_files(shop: Shop) -> None:
    shop.run(1)
    shop.source.days[day(1)] = [row(2, "B", 2.5), row(2**40, "big", 1)]

    shop.run(2)

    assert shop.brief() == {1: "a", 2: "B", 3: "c", 2**40: "big"}
    assert {type(each["at"]) for each in shop.rows()} == {float}


def test_records_where_plain_values_were_fail_with_column_types_and_work_unit(shop: Shop) -> None:
    shop.run(1)
    shop.source.days[day(1)] = [row(5, {"first": "e"})]

    report = shop.run(2)

    (failure,) = report.failures
    assert (report.status, failure.code) == (RunStatus.FAILED, "DIL-CONVERT")
    assert 'column "name" is struct<first: string> here, and string in the' in failure.error
    assert f"watermark.system.{day(1)}" in failure.error
    assert shop.brief() == {1: "a", 2: "b", 3: "c"}

    shop.source.days[day(1)] = [row(5, "e")]
    assert shop.run(2).status is RunStatus.SUCCESS
    assert shop.brief()[5] == "e"


def test_a_null_key_fails_with_column_row_and_work_unit_and_is_read_anew(shop: Shop) -> None:
    shop.source.days[day(0)] = [row(1, "a"), row(None, "b")]

    report = shop.run(1)

    (failure,) = report.failures
    assert failure.code == "DIL-CONVERT"
    assert 'column "id" is null in row 2' in failure.error
    assert f"watermark.system.{day(0)}" in failure.error
    assert shop.names() == set()
    shop.source.days[day(0)] = [row(1, "a")]
    assert shop.run(1).status is RunStatus.SUCCESS


class InOneTask(InProcessExecutor):
    """Runs all work units as one Spark task would, which stages them in one folder."""

    def execute(self, run: RunContext, units: Sequence[WorkUnit], watch: Watch) -> Execution:
        return Execution(tuple(run_group(run, units)), None)


def test_a_null_key_is_read_anew_where_work_units_share_a_task(shop: Shop) -> None:
    shop.executor = InOneTask()
    shop.source.days[day(1)] = [row(5, "e"), row(None, "?")]
    shop.source.days[day(2)] = [row(6, "f")]
    assert shop.run(3).status is RunStatus.FAILED
    shop.source.days[day(0)] = [row(1, "not read again")]
    shop.source.days[day(1)] = [row(5, "e")]

    assert shop.run(3).status is RunStatus.SUCCESS
    assert shop.brief() == {1: "a", 2: "b", 3: "c", 5: "e", 6: "f"}


SUCCESSFUL = {"job__commit__policy": "successful"}


def test_under_successful_a_null_key_fails_its_work_unit_alone(shop: Shop) -> None:
    shop.source.days[day(1)] = [row(5, "e"), row(None, "?")]
    shop.source.days[day(2)] = [row(6, "f")]

    report = shop.run(3, **SUCCESSFUL)

    (failure,) = report.failures
    assert (report.status, report.units.failed, report.rows) == (RunStatus.PARTIAL, 1, 4)
    assert f"watermark.system.{day(1)}" in (failure.signature or "")
    assert 'column "id" is null in row 2' in failure.error
    assert shop.brief() == {1: "a", 2: "b", 3: "c", 6: "f"}

    shop.source.days[day(1)] = [row(5, "e")]
    assert shop.run(3, **SUCCESSFUL).units.planned == 1
    assert shop.brief() == {1: "a", 2: "b", 3: "c", 5: "e", 6: "f"}


def test_under_successful_rows_of_another_kind_fail_their_work_units_alone(shop: Shop) -> None:
    append = {**SUCCESSFUL, "ms__publish__mode": "append"}
    for number in (1, 2):
        shop.source.days[day(number)] = [row(5, {"first": "e"})]
    shop.source.days[day(3)] = [row(6, "f")]

    report = shop.run(4, **append)

    assert (report.status, report.units.failed) == (RunStatus.PARTIAL, 2)
    assert shop.brief() == {1: "a", 2: "b", 3: "c", 6: "f"}


def test_under_successful_a_run_of_misfits_only_publishes_nothing(shop: Shop) -> None:
    shop.source.days[day(0)] = [row(None, "?")]

    report = shop.run(1, **SUCCESSFUL)

    assert (report.status, report.units.failed) == (RunStatus.FAILED, 1)
    assert shop.names() == set()
    shop.source.days[day(0)] = [row(1, "a")]
    assert shop.run(1, **SUCCESSFUL).status is RunStatus.SUCCESS
    assert shop.brief() == {1: "a"}


def test_nothing_is_missing_where_a_work_unit_failed_in_the_merge(shop: Shop) -> None:
    units = [{"name": "half", "type": "unit", "units": "0,1"}]
    halves = {
        **WHOLE,
        **SUCCESSFUL,
        "ms__watermark": json.dumps([*json.loads(WHOLE["ms__watermark"]), *units]),
        "ms__parameters": json.dumps([{"name": "since", "type": "list", "value": "{{half}}"}]),
    }
    shop.source.days = {n: [row(10 * n + each, "x") for each in range(10)] for n in (0, 1)}
    shop.run(1, **halves)
    shop.source.days[0] = [row(each, "y") for each in range(9)]
    shop.source.days[1] = [row(None, "?")]

    report = shop.run(2, **halves)

    assert (report.status, report.units.failed) == (RunStatus.PARTIAL, 1)
    assert shop.brief() == {**dict.fromkeys(range(9), "y"), **dict.fromkeys(range(9, 20), "x")}


FOLDERS = {"ms__table__partition__fields": "land", "extract__delta__fields": ""}


def apart(shop: Shop) -> dict[object, object]:
    """Return names and lands by key, of a dataset with folders by land."""
    there = [
        {**each, "land": path.parent.name.partition("=")[2]}
        for path in visible_files(shop.folder)
        for each in pq.read_table(path, partitioning=None).to_pylist()
    ]
    keys = [each["id"] for each in there]
    assert len(keys) == len(set(keys))
    return {each["id"]: (each["name"], each["land"]) for each in there}


def test_a_key_moves_from_folder_to_folder(shop: Shop) -> None:
    shop.source.days = {
        day(0): [row(1, "a", land="NO"), row(2, "b", land="SE")],
        day(1): [row(1, "A", land="SE")],
        day(2): [row(1, "AA", land="NO"), row(2, "B", land="NO")],
    }

    shop.run(3, **FOLDERS)

    assert apart(shop) == {1: ("AA", "NO"), 2: ("B", "NO")}


@pytest.mark.parametrize(
    "folders", [{}, {"extract__delta__fields": "at"}, {"job__commit__policy": "successful"}]
)
def test_a_work_unit_whose_last_row_of_a_key_is_not_known_fails(
    shop: Shop, folders: dict[str, str]
) -> None:
    """Rows of one folder keep their order, rows of two do not."""
    rows = [row(9, "x", land="NO"), row(1, "v1", land="SE"), row(1, "v2", land="NO")]
    shop.source.days[day(0)] = rows

    report = shop.run(1, **{**FOLDERS, **folders})

    (failure,) = report.failures
    assert (report.status, failure.code) == (RunStatus.FAILED, "DIL-CONVERT")
    assert f"watermark.system.{day(0)}" in failure.error
    assert "of 1 key there are rows with equal extract.delta.fields in several" in failure.error
    assert shop.names() == set()

    shop.source.days[day(0)] = [*rows[:2], row(1, "v2", 2, land="NO")]
    shop.run(1, **{**FOLDERS, "extract__delta__fields": "at"})
    assert apart(shop) == {1: ("v2", "NO"), 9: ("x", "NO")}


def test_a_deleted_key_needs_no_order(shop: Shop) -> None:
    shop.source.days[day(0)] = [
        row(1, "a", land="NO", op="d"),
        row(1, "b", land="SE", op="d"),
        row(2, "c", land="SE", op=""),
    ]

    shop.run(1, **FOLDERS, **OPS)

    assert apart(shop) == {2: ("c", "SE")}


def test_a_column_that_is_quoted_in_the_names_of_folders_stays_out_of_the_files(
    shop: Shop,
) -> None:
    quoted = {"ms__table__partition__fields": "the:land"}
    shop.source.days[day(0)] = [
        row(1, "a", **{"the:land": "NO"}),
        row(2, "b", **{"the:land": "NO"}),
    ]
    shop.run(1, **quoted)
    shop.source.days[day(1)] = [row(1, "A", 2, **{"the:land": "NO"})]

    shop.run(2, **quoted)

    files = visible_files(shop.folder)
    assert {path.parent.name for path in files} == {"the%3Aland=NO"}
    assert {tuple(pq.read_schema(path).names) for path in files} == {("id", "name", "at")}


def test_window_replace_is_refused_where_a_merge_put_rows_together(shop: Shop) -> None:
    shop.run(1)
    shop.source.days[day(1)] = [row(1, "A", 2)]
    shop.run(2)

    with pytest.raises(ConfigError) as caught:
        shop.run(3, ms__publish__mode="window_replace", ms__grace__period="P5D")

    assert [problem.key for problem in caught.value.problems] == ["ms.publish.mode"]
    assert shop.brief() == {1: "A", 2: "b", 3: "c"}


def test_csv_files_of_any_size_are_merged(shop: Shop) -> None:
    csv = {"writer__output__format": "CSV"}
    rows = [row(number, 'a "quoted"\nline' + "x" * 60) for number in range(20_000)]
    shop.source.days[day(0)] = rows
    shop.run(1, **csv)
    (file,) = visible_files(shop.folder)
    assert file.stat().st_size > 1 << 20
    shop.source.days[day(1)] = [row(7, "seven", 2, more=1)]

    report = shop.run(2, **csv)

    assert report.status is RunStatus.SUCCESS
    texts = [path.read_text() for path in visible_files(shop.folder)]
    assert sorted(text.count('"x') for text in texts) == [0, 0]
    assert sorted(text.count("quoted") for text in texts) == [0, 19_999]


def test_orc_timestamps_that_cannot_be_read_back_fail_with_what_to_do(shop: Shop) -> None:
    schema = declared(id="long", name="string", at="long", until="timestamp")
    orc = {"writer__output__format": "ORC", "ms__output__schema": schema}
    shop.source.days[day(0)] = [row(1, "a", until="9999-12-31 00:00:00")]

    report = shop.run(1, **orc)

    (failure,) = report.failures
    assert failure.code == "DIL-CONVERT"
    assert f"watermark.system.{day(0)}" in failure.error
    assert "after 2262-04-11 cannot be read back" in failure.error
    assert "writer.output.format=PARQUET (" in failure.fix


def test_a_key_that_is_no_column_is_told(shop: Shop) -> None:
    report = shop.run(1, extract__primary__key__fields="number")

    (failure,) = report.failures
    assert 'extract.primary.key.fields names "number"' in failure.error
    assert shop.run(1).status is RunStatus.SUCCESS


def test_an_op_field_that_no_row_has_is_told_before_anything_is_published(shop: Shop) -> None:
    shop.source.days[day(0)] = [row(1, "a", oper="d"), row(2, "b")]

    report = shop.run(1, ms__merge__op__field="opr")

    (failure,) = report.failures
    assert (report.status, failure.code) == (RunStatus.FAILED, "DIL-CONVERT")
    assert 'ms.merge.op.field names "opr", which is no column of the rows' in failure.error
    assert "Did you mean oper?" in failure.fix
    assert shop.names() == set()
    assert shop.run(1, ms__merge__op__field="oper").status is RunStatus.SUCCESS
    assert shop.brief() == {2: "b"}


def test_rows_without_an_op_are_upserts_and_a_run_may_have_none_or_no_rows(shop: Shop) -> None:
    shop.source.days[day(0)] = [row(1, "a", op="i"), row(2, "b")]
    shop.run(1, **OPS)
    shop.source.days |= {day(1): [row(2, "B", 2)], day(2): []}

    assert shop.run(2, **OPS).status is RunStatus.SUCCESS
    assert shop.run(3, **OPS).status is RunStatus.SUCCESS
    assert shop.brief() == {1: "a", 2: "B"}


def test_an_op_field_of_the_schema_may_be_in_no_row(shop: Shop) -> None:
    given = {"ms__output__schema": declared(id="long", name="string", at="long", op="string")}

    assert shop.run(1, **OPS, **given).status is RunStatus.SUCCESS
    assert shop.brief() == {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"extract__primary__key__fields": ""}, "extract.primary.key.fields"),
        ({"ms__merge__delete__missing": "true"}, "ms.merge.delete.missing"),
        (
            {"ms__table__partition__fields": "id", "writer__file__path__type": "tablename"},
            "extract.primary.key.fields",
        ),
        (
            {
                **OPS,
                "ms__table__partition__fields": "op",
                "writer__file__path__type": "tablename",
            },
            "ms.merge.op.field",
        ),
    ],
)
def test_a_merge_that_cannot_work_is_refused(shop: Shop, changes: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(shop.conf(**changes), environ={})

    assert [problem.key for problem in caught.value.problems] == [key]


def test_merge_properties_without_a_merge_are_told(shop: Shop) -> None:
    loaded = config.load(shop.conf(ms__publish__mode="append", **OPS), environ={})

    assert "ms.merge.op.field" in [notice.key for notice in loaded.notices]


def test_files_of_merged_rows_cannot_be_withdrawn_but_rows_read_again(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.run(1)
    forget = ["state", "forget", str(shop.conf()), "--all", "--reason", "again", "--yes"]

    assert main([*forget, "--withdraw-files"]) == 1

    assert "ms.publish.mode is merge" in capsys.readouterr().err
    assert main(forget) == 0
    assert shop.run(1).rows == 3
    assert shop.brief() == {1: "a", 2: "b", 3: "c"}


@pytest.mark.parametrize(
    ("first", "texts"),
    [(1.5, ["1.50", "1.5", "15E-1"]), (1, ["1.0", "01"]), (1.5, ["12345678901234567.1"])],
)
def test_texts_of_a_number_are_keys_of_their_own(
    shop: Shop, source: DayRows, first: float, texts: list[str]
) -> None:
    """What was inferred as numbers becomes text, and the run says so."""
    source.days[day(0)] = [row(first, "a")]
    shop.run(1)
    source.days[day(1)] = [row(text, text) for text in texts]
    second = shop.run(2)

    assert [(one.column, one.change, one.after) for one in second.drift] == [
        ("id", "widened", "string")
    ]
    assert shop.brief() == {str(first): "a"} | {text: text for text in texts}


def test_a_published_text_is_no_number_that_is_written_otherwise(
    shop: Shop, source: DayRows
) -> None:
    """Nobody knows whether a text in the dataset was a number: as one they would be one row."""
    source.days[day(0)] = [row("100.0", "text"), row("x", "other")]
    shop.run(1)
    source.days[day(1)] = [row(Raw(b"100.0"), "number", 2), row("100.00", "longer", 2)]
    shop.run(2)

    assert shop.brief() == {"100": "number", "100.0": "text", "100.00": "longer", "x": "other"}


@pytest.mark.parametrize(
    ("written", "again"),
    [
        ("100.0", "100"),
        ("1e2", "100.0"),
        ("-0.0", "0"),
        ("1.50", "15E-1"),
        ("1e-7", "0.00000010"),
        ("9007199254740993", "9007199254740993.0"),
        ("1e15", "1000000000000000"),
        ("12345678901234567890.5", "12345678901234567890.50"),
    ],
)
def test_a_number_in_a_key_of_texts_is_one_row_however_and_whenever_it_comes(
    shop: Shop, source: DayRows, written: str, again: str
) -> None:
    """Alone in its work unit, beside texts, with the first run and when the column is text."""
    source.days[day(0)] = [row(Raw(written.encode()), "alone"), row(Raw(b"0.25"), "b")]
    source.days[day(1)] = [row("x", "text")]
    shop.run(2)
    for number, texts in enumerate(([], ["x"], ["y"]), 2):
        source.days[day(number)] = [
            row(Raw((again if number % 2 else written).encode()), "again", number),
            row(Raw(b"0.25"), "b", number),
            *(row(text, "text", number) for text in texts),
        ]
        shop.run(number + 1)

    one = next(key for key, name in shop.brief().items() if name == "again")
    assert shop.brief() == {one: "again", "0.25": "b", "x": "text", "y": "text"}
    assert len(shop.rows()) == 4
