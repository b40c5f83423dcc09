"""Jobs that read files, from the file to the published row."""

import gzip
import io
import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from connectors.hdfs.connector import HdfsConnector
from connectors.hdfs.opening import LocalStore
from connectors.hdfs.session import FileSettings, FilesSession
from tests.jobs import visible_files
from tests.servers.rows import DAY_MS
from tests.servers.webhdfs import WebHdfs
from tests.stories import Story, day

NOW = day(0) + 3_600_000
SCHEMA = json.dumps(
    [
        {"columnName": "id", "isNullable": False, "dataType": {"type": "long"}},
        {"columnName": "name", "isNullable": True, "dataType": {"type": "string"}},
    ]
)
JOB = {
    "source.class": "hdfs",
    "ms.extractor.class": "csv",
    "ms.csv": '{"columnHeaderIndex": 0}',
    "ms.output.schema": SCHEMA,
    "ms.watermark": "",
    "ms.work.unit.partition": "",
    "ms.parameters": "",
    "ms.session.key.field": "",
    "ms.data.field": "",
    "extract.table.type": "SNAPSHOT_ONLY",
}


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "in"
    found.mkdir()
    return found


def story(folder, **changes):
    nobody = SimpleNamespace(url="")
    return Story(folder.parent, nobody, **{**JOB, "ms.source.uri": str(folder), **changes})


def csv_of(*ids):
    return "".join(["id,name\n", *(f"{number},name {number}\n" for number in ids)]).encode()


def put(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def published(told):
    """Return how often each id is published."""
    found = Counter()
    for file in visible_files(told.folder):
        found.update(pq.read_table(file)["id"].to_pylist())
    return found


def once(*ids):
    return Counter(ids)


def test_all_files_of_a_folder_are_read_without_paging_rules(folder):
    put(folder, "a.csv.gz", gzip.compress(csv_of(1, 2)) + gzip.compress(b"3,three\n"))
    put(folder, "b/c.csv", csv_of())
    put(folder, "b/d.csv", csv_of(4))
    put(folder, "e.csv", csv_of(5))
    put(folder, "_SUCCESS", b"")
    told = story(folder)
    report = told.run(NOW)
    assert (report.status, report.rows) == ("success", 5)
    assert published(told) == once(1, 2, 3, 4, 5)


def test_a_folder_without_files_has_no_rows_and_min_records_tells(folder):
    assert story(folder).run(NOW).rows == 0
    report = story(folder, **{"ms.work.unit.min.records": "1"}).run(NOW + DAY_MS)
    assert report.status == "failed"
    assert "asks for 1" in report.failures[0].error


def test_a_missing_folder_fails_the_run(folder):
    report = story(folder, **{"ms.source.uri": f"{folder}/no"}).run(NOW)
    assert report.status == "failed"
    assert "there is no such file or folder" in report.failures[0].error


def test_files_whose_names_have_percent_signs_are_read_by_a_file_address(folder):
    put(folder, "a%41.csv", csv_of(1))
    put(folder, "aA.csv", csv_of(2))
    units = {"name": "file", "type": "unit", "units": "a%41.csv,aA.csv"}
    told = story(
        folder,
        **{
            "ms.watermark": json.dumps([units]),
            "ms.parameters": '[{"name": "file"}]',
            "ms.source.uri": f"file://{folder}/{{{{file}}}}",
        },
    )
    assert told.run(NOW).rows == 2
    assert published(told) == once(1, 2)


def test_json_lines_and_text_of_files_are_read(folder):
    put(folder, "a.jsonl.gz", gzip.compress(b'{"id":1,"name":"x"}\n{"id":2}\n'))
    put(folder, "b.json", b'[{"id":3},{"id":4}]')
    told = story(folder, **{"ms.extractor.class": "json", "ms.csv": ""})
    assert told.run(NOW).rows == 4
    assert published(told) == once(1, 2, 3, 4)


def parquet_of(table):
    stream = io.BytesIO()
    pq.write_table(pa.table(table), stream)
    return stream.getvalue()


def orc_of(table):
    stream = io.BytesIO()
    orc.write_table(pa.table(table), stream)
    return stream.getvalue()


@pytest.mark.parametrize(("kind", "made"), [("parquet", parquet_of), ("orc", orc_of)])
def test_files_whose_schema_grew_are_read_into_one_table(folder, kind, made):
    put(folder, "1", made({"id": pa.array([1, 2], pa.int32()), "name": ["a", None]}))
    put(folder, "2", made({"name": ["c"], "id": pa.array([2**40], pa.int64()), "more": [0.5]}))
    put(folder, "3", made({"id": pa.array([4], pa.int32())}))
    told = story(folder, **{"ms.extractor.class": kind, "ms.csv": "", "ms.output.schema": ""})
    assert told.run(NOW).rows == 4
    rows = [row for file in visible_files(told.folder) for row in pq.read_table(file).to_pylist()]
    by_id = {row["id"]: (row.get("name"), row.get("more")) for row in rows}
    assert by_id == {1: ("a", None), 2: (None, None), 2**40: ("c", 0.5), 4: (None, None)}


def test_a_given_schema_projects_columnar_files(folder):
    put(folder, "1.parquet", parquet_of({"x": ["no"], "id": pa.array([7], pa.int32())}))
    told = story(folder, **{"ms.extractor.class": "parquet", "ms.csv": ""})
    told.run(NOW)
    (file,) = visible_files(told.folder)
    found = pq.read_table(file)
    assert found.to_pylist() == [{"id": 7, "name": None}]
    assert found.schema.field("id").type == pa.int64()


def test_a_value_that_a_given_type_cannot_hold_fails(folder):
    put(folder, "1.parquet", parquet_of({"id": ["seven"], "name": ["a"]}))
    report = story(folder, **{"ms.extractor.class": "parquet", "ms.csv": ""}).run(NOW)
    assert report.status == "failed"
    assert "id" in report.failures[0].error


UNITS = {
    "ms.watermark": json.dumps([{"name": "day", "type": "unit", "units": "mon,tue"}]),
    "ms.parameters": json.dumps([{"name": "day"}]),
}


def test_each_unit_reads_its_own_folder(folder):
    put(folder, "mon/a.csv", csv_of(1))
    put(folder, "tue/a.csv", csv_of(2, 3))
    put(folder, "wed/a.csv", csv_of(4))
    told = story(folder, **{**UNITS, "ms.source.uri": f"{folder}/{{{{day}}}}"})
    assert told.run(NOW).rows == 3
    assert published(told) == once(1, 2, 3)


def test_a_list_of_files_is_a_table_of_their_paths(folder):
    for name in ("a_1.csv", "a_2.csv", "b.csv"):
        put(folder, name, b"")
    schema = '[{"columnName":"file","dataType":{"type":"string"}}]'
    changes = {"ms.output.schema": schema, "ms.csv": "", "ms.source.uri": f"{folder}?RE=.*/a_.*"}
    told = story(folder, **changes)
    assert told.run(NOW).rows == 2
    (file,) = visible_files(told.folder)
    assert pq.read_table(file)["file"].to_pylist() == [f"{folder}/a_1.csv", f"{folder}/a_2.csv"]


DUMP = {
    **UNITS,
    "ms.source.uri": "",
    "ms.extractor.class": "filedump",
    "ms.extractor.target.file.name": "{{day}}/a.csv.gz",
    "ms.output.schema": "",
    "ms.csv": "",
}


@pytest.mark.parametrize("unpacks", [False, True])
def test_a_dump_is_a_copy_unless_the_job_wants_it_unpacked(folder, unpacks):
    packed = gzip.compress(csv_of(1))
    for day_of_week in ("mon", "tue"):
        put(folder, f"{day_of_week}/a.csv.gz", packed)
    changes = {"ms.source.files.decompress": "true"} if unpacks else {}
    told = story(folder, **{**DUMP, "ms.source.uri": f"{folder}/{{{{day}}}}", **changes})
    assert told.run(NOW).status == "success"
    found = {path.parent.name: path.read_bytes() for path in visible_files(told.folder)}
    assert found == dict.fromkeys(("mon", "tue"), csv_of(1) if unpacks else packed)


def test_hdfs_is_read_by_its_rest_interface(folder):
    put(folder, "in/a.csv.gz", gzip.compress(csv_of(*range(1_000))))
    put(folder, "in/b.csv", csv_of(1_000))
    with WebHdfs(folder) as hdfs:
        hdfs.cuts = [500]
        told = story(folder, **{"ms.source.uri": f"webhdfs://{hdfs.authority}/in"})
        assert told.run(NOW).rows == 1_001
    assert published(told) == once(*range(1_001))


# Faults: nothing is published of a work unit that failed, and the next run has every row once.


class FaultyStore(LocalStore):
    """Does something to the folder when the file ``b.csv`` is opened, once."""

    faults: list = []  # noqa: RUF012 - shared by all stores of a test

    def open(self, path, position):
        if path.endswith("/b.csv") and self.faults:
            self.faults.pop()(Path(path))
        return super().open(path, position)


class FaultyConnector(HdfsConnector):
    """Reads files of this machine that change at the worst moment."""

    def open(self, context):
        return FilesSession(
            FileSettings.of(context.job),
            opened=lambda place, user: FaultyStore(),
            sleep=lambda seconds: None,
        )


def grow(path):
    with path.open("ab") as file:
        file.write(b"9,nine\n")


def shrink(path):
    os.truncate(path, 10)


def vanish(path):
    path.unlink()


def rewrite(path):
    path.write_bytes(csv_of(7, 8))


@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        (grow, once(1, 2, 3, 4, 9)),
        (vanish, once(1, 4)),
        (rewrite, once(1, 7, 8, 4)),
        (shrink, None),
    ],
)
@pytest.mark.parametrize("retries", ["0", "1"])
def test_a_file_that_changes_while_it_is_read_fails_the_attempt(folder, fault, rows, retries):
    put(folder, "a.csv", csv_of(1))
    put(folder, "b.csv", csv_of(2, 3))
    put(folder, "c.csv", csv_of(4))
    FaultyStore.faults = [fault]
    connector = f"{FaultyConnector.__module__}:{FaultyConnector.__qualname__}"
    told = story(folder, **{"source.class": connector, "task.maxretries": retries})
    report = told.run(NOW)
    if fault is shrink:
        put(folder, "b.csv", csv_of(2, 3))
        rows = once(1, 2, 3, 4)
    if retries == "0":
        assert report.status == "failed"
        assert "/in/b.csv: " in report.failures[0].error
        assert visible_files(told.folder) == []
        report = told.run(NOW + 1)
    if fault is not shrink or retries == "0":
        assert report.status == "success"
        assert published(told) == rows


def test_a_cut_file_fails_the_work_unit_and_the_next_run_reads_the_whole(folder):
    whole = gzip.compress(csv_of(*range(10_000)))
    put(folder, "a.csv", csv_of(10_000))
    file = put(folder, "b.csv.gz", whole[: len(whole) // 2])
    told = story(folder)
    report = told.run(NOW)
    assert report.status == "failed"
    assert "/in/b.csv.gz: the gzip data ends too early" in report.failures[0].error
    assert visible_files(told.folder) == []
    file.write_bytes(whole)
    assert told.run(NOW + 1).rows == 10_001
    assert published(told) == once(*range(10_001))


PAGED = {
    "ms.pagination": '{"fields": ["", ""], "initialvalues": [0, 100]}',
    "ms.parameters": '[{"name": "offset", "type": "pagestart"}]',
}


def test_paging_rules_of_dils_jobs_change_nothing(folder):
    put(folder, "a.csv", csv_of(1))
    put(folder, "b.csv", csv_of())
    put(folder, "c.csv", csv_of(2, 3))
    told = story(folder, **PAGED)
    assert told.run(NOW).rows == 3
    assert published(told) == once(1, 2, 3)


@pytest.mark.parametrize("changes", [{}, PAGED])
def test_equal_files_are_read_each(folder, changes):
    for name in ("a.csv", "b.csv", "c.csv"):
        put(folder, name, csv_of(1, 2))
    report = story(folder, **changes).run(NOW)
    assert (report.status, report.rows, report.notes) == ("success", 6, ())


class ArrivingConnector(HdfsConnector):
    """Lists a folder into which a file comes while the job waits for it."""

    def open(self, context):
        looks = []

        def opened(place, user):
            class Store(LocalStore):
                def entries(self, path):
                    looks.append(path)
                    if len(looks) == 3:
                        put(Path(path), "sales.done", b"")
                    return super().entries(path)

            return Store()

        return FilesSession(FileSettings.of(context.job), opened=opened)


def test_a_job_waits_for_a_file_by_listing_until_it_is_there(folder):
    put(folder, "sales.csv", b"")
    condition = {"name": "values", "condition": {"regexp": "(.*[|])?[^|]*[.]done"}}
    changes = {
        "source.class": f"{__name__}:ArrivingConnector",
        "ms.source.uri": f"{folder}?RE=.*/sales[.].*",
        "ms.extractor.class": "json",
        "ms.csv": "",
        "ms.output.schema": '[{"columnName":"values","dataType":{"type":"string"}}]',
        "ms.session.key.field": json.dumps(condition),
    }
    report = story(folder, **changes).run(NOW)
    assert (report.status, report.rows) == ("success", 4)


def test_progress_inside_of_a_folder_is_not_taken_up_by_a_later_attempt(folder):
    put(folder, "a.csv", csv_of(1))
    file = put(folder, "b.csv.gz", gzip.compress(csv_of(2))[:-5])
    told = story(folder, **PAGED, **{"ms.state.cursor.commit": "page"})
    assert told.run(NOW).status == "failed"
    file.unlink()
    put(folder, "0.csv", csv_of(0))
    put(folder, "b.csv", csv_of(2))
    assert told.run(NOW + 1).status == "success"
    assert published(told) == once(0, 1, 2)
