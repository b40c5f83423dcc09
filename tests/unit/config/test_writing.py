"""System columns, rows kept apart, the lake layout: what is read and what is refused."""

from __future__ import annotations

import grp
import json
import os
import pwd

import pytest

from dil.model.destination import Layout

LABELS = {"ms.timelabel.schedule": "@daily"}
ONE_FOLDER = {"writer.file.path.type": "namespace_table"}
LAKE = {"ms.publish.layout": "timelabel", **LABELS, **ONE_FOLDER}


def schema(**columns: str) -> str:
    return json.dumps(
        [{"columnName": name, "dataType": {"type": word}} for name, word in columns.items()]
    )


def test_sizes_of_files_and_row_groups_are_read(job_file):
    written = job_file.load({}).job.writing
    assert (written.target_bytes, written.row_group_rows) == (128 * 1024 * 1024, 65_536)
    sizes = {"ms.writer.target.bytes": "1000000", "ms.writer.row.group.rows": "1000"}
    written = job_file.load(sizes).job.writing
    assert (written.target_bytes, written.row_group_rows) == (1_000_000, 1000)


def test_all_that_can_be_chosen_goes_together(job_file):
    loaded = job_file.load(
        {
            **LAKE,
            "ms.output.system.columns": "_dil_run_id,_dil_signature,_dil_extracted_at,_timelabel",
            "ms.table.partition.fields": "country, day",
            "ms.timelabel.column": "created",
            "ms.output.schema": schema(country="string", day="date", created="timestamp"),
        }
    )
    assert loaded.job.publishing.layout is Layout.TIMELABEL
    assert loaded.job.planning.timelabel.column == "created"


@pytest.mark.parametrize(
    ("properties", "key", "what"),
    [
        ({"ms.output.system.columns": "_dil_runid"}, "ms.output.system.columns", '"_dil_runid"'),
        (
            {"ms.output.system.columns": "_dil_run_id,_dil_run_id"},
            "ms.output.system.columns",
            "twice",
        ),
        ({"ms.output.system.columns": "_timelabel"}, "ms.output.system.columns", "no timelabels"),
        (
            {
                "ms.output.system.columns": "_dil_run_id",
                "ms.output.schema": schema(_DIL_RUN_ID="string"),
            },
            "ms.output.system.columns",
            "have a column of that name",
        ),
        ({"ms.table.partition.fields": "_day"}, "ms.table.partition.fields", "no published data"),
        ({"ms.table.partition.fields": "day,day"}, "ms.table.partition.fields", "twice"),
        (
            {"ms.table.partition.fields": "at", "ms.output.schema": schema(at="timestamp")},
            "ms.table.partition.fields",
            "cannot name folders",
        ),
        (
            {"ms.table.partition.fields": "day", "ms.state.cursor.commit": "page"},
            "ms.table.partition.fields",
            "ms.state.cursor.commit keeps progress",
        ),
        (
            {"ms.publish.layout": "timelabel", **ONE_FOLDER},
            "ms.publish.layout",
            "has no timelabels",
        ),
        (
            {
                "ms.publish.layout": "timelabel",
                "writer.file.path.type": "default",
                **LABELS,
            },
            "ms.publish.layout",
            "each run has a folder of its own",
        ),
        ({**LAKE, "ms.table.partition.fields": "m"}, "ms.table.partition.fields", '"m"'),
        (
            {**LAKE, "ms.timelabel.column": "at", "ms.state.cursor.commit": "page"},
            "ms.timelabel.column",
            "ms.state.cursor.commit keeps progress",
        ),
        (
            {**LAKE, "ms.table.format": "delta"},
            "ms.publish.layout",
            "a layout of plain files, and ms.table.format is set",
        ),
        (
            {"ms.table.partition.fields": "day", "ms.warehouse.url": "sqlite:///w.db"},
            "ms.table.partition.fields",
            "rows are loaded into a database",
        ),
        (
            {
                "ms.table.partition.fields": "tags",
                "ms.output.schema": json.dumps(
                    [{"columnName": "tags", "dataType": {"type": "array", "items": "int"}}]
                ),
            },
            "ms.table.partition.fields",
            "cannot name folders",
        ),
        (
            {"ms.output.file.per.work.unit": "false", "ms.warehouse.url": "sqlite:///w.db"},
            "ms.output.file.per.work.unit",
            "the rows go into a database",
        ),
        (
            {
                "ms.output.file.per.work.unit": "false",
                "ms.publish.mode": "merge",
                "extract.primary.key.fields": "id",
            },
            "ms.output.file.per.work.unit",
            "rewrites the files whose rows it replaces",
        ),
        (
            {"ms.output.file.per.work.unit": "false", "ms.backfill": "true"},
            "ms.output.file.per.work.unit",
            "a backfill has files of its own",
        ),
        (
            {"data.publisher.job.type": "org.apache.gobblin.publisher.NoopPublisher"},
            "data.publisher.job.type",
            "rows that are not published are lost",
        ),
        ({"writer.file.owner": "no-such-user"}, "writer.file.owner", "no user of this machine"),
        ({"writer.file.group": "no-such-group"}, "writer.file.group", "no group of this machine"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_line(job_file, properties, key, what):
    # Pages that are committed one by one are refused for more than this.
    (found,) = (each for each in job_file.problems(properties) if each.key == key)
    assert what in found.what
    assert found.origin is not None
    assert found.origin.line is not None


def test_a_file_dump_has_no_rows(job_file):
    found = job_file.problems(
        {
            "ms.extractor.class": "filedump",
            "ms.extractor.target.file.name": "x",
            "ms.output.system.columns": "_dil_run_id",
            "ms.table.partition.fields": "day",
        }
    )
    assert [problem.key for problem in found] == [
        "ms.output.system.columns",
        "ms.table.partition.fields",
    ]


DUMP = {"ms.extractor.class": "filedump", "ms.extractor.target.file.name": "{{id}}.csv"}


@pytest.mark.parametrize(
    ("more", "key", "what"),
    [
        ({"ms.warehouse.url": "sqlite:///w.db"}, "ms.warehouse.url", "dumps files as they are"),
        ({"ms.catalog.type": "hive"}, "ms.catalog.type", "dumps files as they are"),
        ({"ms.table.format": "delta"}, "ms.table.format", "dumps files as they are"),
        ({"ms.table.partition.fields": "day"}, "ms.table.partition.fields", "is about rows"),
        ({"ms.output.system.columns": "_dil_run_id"}, "ms.output.system.columns", "is about rows"),
        (
            {"ms.output.file.per.work.unit": "false"},
            "ms.output.file.per.work.unit",
            "two files cannot be combined",
        ),
        ({"ms.publish.mode": "merge"}, "ms.publish.mode", "only the file of the same name"),
        ({"ms.event.column": "at"}, "ms.event.column", "dumps files as they are"),
        ({"ms.stream.mode": "ingest"}, "ms.stream.mode", "copies whole files"),
        ({"ms.egress.resume": "true"}, "ms.egress.resume", "dumps files as they are"),
        (
            {"ms.extractor.target.file.name": None},
            "ms.extractor.target.file.name",
            "is required by a file dump",
        ),
    ],
)
def test_what_is_about_rows_is_refused_in_a_file_dump(job_file, more, key, what):
    units = {"ms.watermark": '[{"name":"id","type":"unit","units":"a"}]'}
    job_file.load({**units, **DUMP})
    (found,) = job_file.problems({**units, **DUMP, **more})
    assert (found.key, what in found.what) == (key, True)


def test_an_enum_names_folders(job_file):
    words = {"type": "enum", "name": "size", "symbols": ["S", "M"]}
    columns = json.dumps([{"columnName": "size", "dataType": words}])
    given = {"ms.table.partition.fields": "size", "ms.output.schema": columns}
    assert job_file.load(given).job.publishing.table.partition_fields == ("size",)


def test_files_may_be_given_to_oneself(job_file):
    own = {
        "writer.file.owner": pwd.getpwuid(os.geteuid()).pw_name,
        "writer.file.group": grp.getgrgid(os.getegid()).gr_name,
    }
    assert job_file.load(own).job.writing.owner == own["writer.file.owner"]


@pytest.mark.parametrize("name", ["_orders", "a/b", ".x"])
def test_a_file_name_that_would_hide_files_is_refused(job_file, name) -> None:
    problem = job_file.problem("writer.file.name", name)

    assert problem.what == f'is "{name}"'


def test_blocks_of_hdfs_hold_whole_checksums(job_file) -> None:
    problem = job_file.problem("writer.file.block.size", "1000000")

    assert problem.what == "is 1000000, and HDFS cuts files into blocks of a multiple of 512 bytes"
    assert job_file.load({"writer.file.block.size": "1048576"}).job.writing.blocks.bytes == 1048576
