"""Columns that a source has and ``ms.output.schema`` leaves out: notes, preview and drift."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import cast

import duckdb
import pytest

from dil import config
from dil.cli.main import main
from dil.model.report import RunReport
from dil.observe.report import report_json
from tests.integration.jdbc_jobs import DatabaseJob
from tests.integration.local_jobs import FileJob, LocalJob

ID = [{"columnName": "id", "dataType": {"type": "integer"}}]
MEMBERS = [{"columnName": "a", "dataType": {"type": "integer"}}]
REC = [
    *ID,
    {"columnName": "rec", "dataType": {"type": "record", "name": "rec", "values": MEMBERS}},
]


def database_job(folder: Path) -> LocalJob:
    with closing(duckdb.connect(str(folder / "shop.duckdb"))) as connection:
        connection.execute("create table orders as select 1 id, 'x' note, 2.5 price")
    return DatabaseJob(
        folder / "job",
        f"jdbc:duckdb:{folder / 'shop.duckdb'}",
        "select * from orders",
        ms__output__schema=json.dumps(ID),
    )


def file_job(folder: Path, name: str, text: str, **properties: str) -> LocalJob:
    (folder / "in").mkdir()
    (folder / "in" / name).write_text(text)
    known = {
        "source__class": "HdfsSource",
        "ms__source__uri": f"file://{folder / 'in'}",
        "ms__output__schema": json.dumps(ID),
    }
    return FileJob(folder / "job", **{**known, **properties})


def xml_job(folder: Path) -> LocalJob:
    text = "<r><e><id>1</id><note>x</note><price>2.5</price></e></r>"
    return file_job(folder, "a.xml", text, ms__extractor__class="xml", ms__data__field="r.e")


def csv_job(folder: Path) -> LocalJob:
    header = json.dumps({"columnHeaderIndex": 0})
    text = "id,note,price\n1,x,2.5\n"
    return file_job(folder, "a.csv", text, ms__extractor__class="csv", ms__csv=header)


def nested_job(folder: Path) -> LocalJob:
    text = json.dumps([{"id": 1, "rec": {"a": 1, "note": "x", "price": 2.5}}])
    return file_job(folder, "a.json", text, ms__output__schema=json.dumps(REC))


def left_out(report: RunReport) -> list[str]:
    drift = cast("list[dict[str, str]]", report_json(report)["drift"])
    return [one["column"] for one in drift if one["change"] == "left out"]


def says(text: str, columns: str) -> bool:
    """Return whether a text names the columns, and the line of the job file to look at."""
    wanted = r"the source has columns that ms\.output\.schema \(.*:[0-9]+\) leaves out: "
    return re.search(wanted + re.escape(columns), " ".join(text.split())) is not None


JOBS = pytest.mark.parametrize(
    ("make", "prefix"),
    [(database_job, ""), (xml_job, ""), (csv_job, ""), (nested_job, "rec.")],
)


@JOBS
def test_a_run_names_them_in_notes_and_as_drift(make, prefix, tmp_path):
    job = make(tmp_path)
    report = job.run()
    assert report.rows == 1
    assert says("\n".join(report.notes), f"{prefix}note, {prefix}price (1 work unit)")
    assert left_out(report) == [f"{prefix}note", f"{prefix}price"]
    assert all(row.keys() == {"id"} or row == {"id": 1, "rec": {"a": 1}} for row in job.rows())


@JOBS
def test_a_preview_names_them(make, prefix, tmp_path, capsys):
    loaded = make(tmp_path).job()
    assert main(["preview", loaded.path, "--now", "2025-01-01T00:00:00Z"]) == 0
    assert says(capsys.readouterr().out, f"{prefix}note, {prefix}price")


def test_a_preview_of_fewer_rows_than_a_page_has_names_them(tmp_path, capsys):
    rows = json.dumps([{"id": number, "note": "x"} for number in range(50)])
    loaded = file_job(tmp_path, "a.json", rows).job()
    command = ["preview", loaded.path, "--rows", "3", "--now", "2025-01-01T00:00:00Z"]
    assert main(command) == 0
    assert says(capsys.readouterr().out, "note")


def test_without_a_schema_nothing_is_left_out(tmp_path):
    job = xml_job(tmp_path)
    job.properties.pop("ms.output.schema")
    assert left_out(job.run()) == []
    assert config.load(job.folder / "files.conf", environ={}).job.extraction.output_schema is None
