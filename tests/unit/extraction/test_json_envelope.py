"""A job that forgets ms.data.field learns where the rows are."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import SourceContractError
from dil.extraction.absent_columns import left_out_note
from dil.extraction.json.extractor import JsonExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import ArrayType, Column, Primitive
from dil.spi.connector import Response
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset

REF = ClassRef("m", "c")
ROWS = [{"id": 1}, {"id": 2}]
ID = (Column("id", Primitive("long")),)


def read(answer: object, **members: object) -> tuple[str, ...]:
    """Return the notes of one answer."""
    extractor = JsonExtractor(ExtractionSpec(REF, **members))  # type: ignore[arg-type]
    page = extractor.extract(Response(io.BytesIO(json.dumps(answer).encode())))
    for _ in page.batches:
        pass
    return (*page.notes, *left_out_note(page.left_out))


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ({"items": ROWS, "next": None}, "items"),
        ({"data": {"records": ROWS}, "meta": {}}, "data.records"),
        ({"orders": ROWS}, "orders"),
        ({"orders": ROWS, "total": 7, "nextPageToken": "x"}, "orders"),
    ],
)
def test_an_answer_around_its_rows_is_told_with_the_path_of_the_rows(
    answer: object, path: str
) -> None:
    [note] = read(answer)
    assert f"write ms.data.field={path} to make each object a row" in note


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 7, "customer": "Zoe", "lines": ROWS},
        {"items": ROWS, "data": ROWS},
        {"items": [1, 2]},
        {"items": []},
        ROWS,
        {"id": 7},
    ],
)
def test_an_answer_that_may_be_a_row_is_none(answer: object) -> None:
    assert read(answer) == ()


def test_an_optional_data_field_may_be_missing_in_every_answer_and_nothing_else_may_be() -> None:
    extractor = JsonExtractor(ExtractionSpec(REF, data_field="data", data_field_optional=True))
    for answer, rows in (({"fieldMask": "id"}, 0), ({"data": ROWS}, 2), ({}, 0)):
        page = extractor.extract(Response(io.BytesIO(json.dumps(answer).encode())))
        assert sum(batch.num_rows for batch in page.batches) == rows
        assert page.notes == ()
    with pytest.raises(SourceContractError, match="neither an object nor an array"):
        read({"data": 5}, data_field="data", data_field_optional=True)


def test_the_error_of_a_missing_data_field_names_the_property_for_sources_that_omit_it() -> None:
    for answer, is_named in (({"fieldMask": "id"}, True), ({"result": []}, False)):
        with pytest.raises(SourceContractError) as caught:
            read(answer, data_field="results")
        assert ("ms.data.field.optional=true" in caught.value.fix) is is_named


def test_nothing_is_said_where_the_job_knows() -> None:
    assert read({"items": ROWS, "next": None}, data_field="items") == ()
    items = (Column("items", ArrayType(Primitive("string"))),)
    assert read({"items": [], "next": None}, output_schema=items) == (
        "the source has columns that ms.output.schema leaves out: next",
    )


@pytest.mark.parametrize(
    "answer", [{"items": ROWS, "next": None}, {"number": 7, "lines": ROWS, "customer": "Zoe"}]
)
def test_rows_without_any_column_are_refused_with_the_path(answer: dict[str, object]) -> None:
    path = next(name for name, value in answer.items() if value is ROWS)
    with pytest.raises(SourceContractError) as caught:
        read(answer, output_schema=ID)
    assert f"write ms.data.field={path}. " in caught.value.fix
    assert "(id); they have " in caught.value.message


def test_a_preview_of_a_job_without_data_field_shows_where_its_rows_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with HttpServer(Dataset.generate(5, units=("a", "b"), step_ms=60_000)) as source:
        job = write_job(tmp_path, source.url, ms__data__field="", ms__output__schema="")
        assert main(["preview", str(job), "--now", "2020-01-03T00:00:00Z"]) == 0
        assert "write ms.data.field=data to make each object a row" in capsys.readouterr().out
        job = write_job(tmp_path, source.url, ms__data__field="")
        assert main(["preview", str(job), "--now", "2020-01-03T00:00:00Z"]) == 1
        assert "write ms.data.field=data." in capsys.readouterr().err
