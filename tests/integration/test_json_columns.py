"""Whole jobs with a column of type json."""

from __future__ import annotations

import json
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.integration.local_jobs import FileJob
from tests.jobs import visible_files

ROWS = """[
  {"id": 1, "ref": {"link": "https://h/1", "n": 1.50, "deep": [[1], {"b c": null}]}},
  {"id": 2, "ref": ""},
  {"id": 3, "ref": [123456789012345678901234567890]},
  {"id": 4, "ref": null}, {"id": 5}]"""
KEPT = [
    '{"link":"https://h/1","n":1.50,"deep":[[1],{"b c":null}]}',
    '""',
    "[123456789012345678901234567890]",
    None,
    None,
]


def schema(word: str) -> str:
    return json.dumps(
        [
            {"columnName": "id", "dataType": {"type": "long"}},
            {"columnName": "ref", "dataType": {"type": word}},
        ]
    )


def service_job(folder: Path, text: str = ROWS, **properties: str) -> FileJob:
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text(text)
    known = {
        "source__class": "HdfsSource",
        "ms__source__uri": f"file://{folder / 'in'}",
        "ms__output__schema": schema("json"),
    }
    return FileJob(folder / "job", **{**known, **properties})


@pytest.mark.parametrize("contract", ["evolve", "freeze", "discard_row"])
def test_values_of_any_shape_are_published_as_json_texts(tmp_path: Path, contract: str) -> None:
    job = service_job(tmp_path, ms__schema__contract=contract)
    report = job.run()
    assert report.failures == ()
    assert [row["ref"] for row in job.rows()] == KEPT
    (path,) = visible_files(job.folder)
    assert str(pq.read_schema(path).field("ref").type) == "string"


def test_avro_files_have_a_plain_text_field(tmp_path: Path) -> None:
    job = service_job(tmp_path, writer__output__format="AVRO")
    job.run()
    (path,) = visible_files(job.folder)
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        assert [row["ref"] for row in reader] == KEPT
        fields = reader.writer_schema["fields"]
    (ref,) = [field for field in fields if field["name"] == "ref"]
    assert ref["type"] == ["null", "string"]
    assert ref["source.type"] == "string"


def test_a_column_may_change_between_string_and_json(tmp_path: Path) -> None:
    texts = '[{"id": 1, "ref": "a"}]'
    job = service_job(tmp_path, texts, ms__output__schema=schema("string"))
    assert job.run().failures == ()
    job.now_ms += 86_400_000
    second = job.run(ms__output__schema=schema("json"))
    assert (second.failures, second.drift) == ((), ())
    assert {row["ref"] for row in job.rows()} == {"a", '"a"'}
