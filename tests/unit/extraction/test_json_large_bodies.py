"""Bodies longer than memory, from the response to the rows."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from dil.errors import ConversionError, SourceContractError, WriteError
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.json.spool import Spool, SpoolLimits
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.schema import Column, Primitive
from dil.spi.connector import Response


class SmallWindows(JsonExtractor):
    """Takes bodies of 100 bytes for long ones."""

    limits: ClassVar[SpoolLimits] = SpoolLimits(body=100, window=64, value=1000)


def extractor(*columns, **more):
    return SmallWindows(ExtractionSpec(ClassRef("m", "c"), output_schema=columns or None, **more))


def response(body, content_type="application/json"):
    data = body.encode() if isinstance(body, str) else body
    return Response(io.BytesIO(data), content_type=content_type, location="https://h/x")


def rows_of(page):
    return [row for batch in page.batches for row in batch.to_pylist()]


def body_of(rows, **around):
    return json.dumps({"data": rows, **around})


ROWS = [{"id": n, "name": f"n{n}"} for n in range(200)]
ID, NAME = Column("id", Primitive("long")), Column("name", Primitive("string"))


@pytest.mark.parametrize("columns", [(), (ID, NAME)])
def test_a_long_body_gives_the_rows_and_look_ups_of_a_short_one(columns):
    reader = extractor(*columns, data_field="data")
    page = reader.extract(response(body_of(ROWS, total=200, next="c")))
    assert (page.lookup("total"), page.lookup("next"), page.lookup("x")) == (200, "c", MISSING)
    assert rows_of(page) == ROWS
    assert page.rows == 200
    assert page.lookup("data.199.id") == 199


def test_long_root_arrays_and_lines_are_rows():
    assert rows_of(extractor().extract(response(json.dumps(ROWS)))) == ROWS
    lines = "\n".join(json.dumps(row) for row in ROWS)
    page = extractor().extract(response(lines, "application/x-ndjson"))
    assert rows_of(page) == ROWS
    assert page.lookup("3.name") == "n3"


def test_columns_that_come_later_in_a_long_body_widen_the_schema():
    reader = extractor(data_field="data")
    rows = [*({"a": n} for n in range(20)), *({"a": n + 0.5, "b": "x"} for n in range(20))]
    batches = list(reader.extract(response(body_of(rows))).batches)
    assert batches[0].schema.names == ["a"]
    found = [(each.name, each.type) for each in batches[-1].schema]
    assert found == [("a", pa.float64()), ("b", pa.string())]


@pytest.mark.parametrize("tail", [b"]}", b'],"x":}', b"", b'],"x":1} x', b"\xff]}"])
def test_what_is_wrong_behind_the_rows_fails_the_page(tail):
    body = body_of(ROWS).encode()[:-2]
    bad = body + (b"," if tail == b"]}" else b"") + tail
    with pytest.raises(SourceContractError) as caught:
        extractor(ID, data_field="data").extract(response(bad))
    assert "https://h/x" in caught.value.message


def test_a_bad_line_far_behind_fails_with_the_place_where_it_begins():
    lines = "\n".join(json.dumps(row) for row in ROWS)
    page = extractor(ID).extract(response(lines + "\n{]", "application/x-ndjson"))
    with pytest.raises(SourceContractError) as caught:
        rows_of(page)
    assert f"line that begins at byte {len(lines) + 1}" in caught.value.message


@pytest.mark.parametrize("columns", [(), (ID, NAME)])
def test_an_element_that_is_no_object_fails_with_its_number_in_the_page(columns):
    page = extractor(*columns, data_field="data").extract(response(body_of([*ROWS, 5])))
    with pytest.raises(SourceContractError) as caught:
        rows_of(page)
    assert "row 201 of page 1" in caught.value.message


def test_a_value_that_does_not_fit_fails_with_its_row_and_its_form_only():
    rows = [*ROWS, {"id": "Secret 12-34"}]
    page = extractor(ID, data_field="data").extract(response(body_of(rows)))
    with pytest.raises(ConversionError) as caught:
        rows_of(page)
    assert 'column "id", row 201 of page 1' in caught.value.message
    assert '("Aaaaaa 99-99")' in caught.value.message
    assert "Secret" not in str(caught.value)


def test_a_row_that_is_too_long_is_refused_with_what_to_do():
    with pytest.raises(SourceContractError) as caught:
        extractor(ID, data_field="data").extract(response(body_of([{"id": "x" * 2000}])))
    assert "1,000 bytes" in caught.value.message
    assert "ms.data.field" in caught.value.fix


def test_looking_up_what_is_too_long_is_refused():
    page = extractor(ID, data_field="data").extract(response(body_of(ROWS)))
    with pytest.raises(SourceContractError) as caught:
        page.lookup("data")
    assert "https://h/x" in caught.value.message


@pytest.mark.parametrize("charset", ["UTF-16", "windows-1252", "UTF-8", "Shift_JIS"])
def test_long_bodies_are_read_in_any_character_set(charset):
    rows = [{"name": "n é" if charset != "Shift_JIS" else "日本"}] * 100
    text = json.dumps(rows, ensure_ascii=False)
    page = extractor(NAME, charset=charset).extract(response(text.encode(charset)))
    assert rows_of(page) == rows
    assert rows_of(extractor(NAME).extract(response("\ufeff" + text))) == rows


def test_a_long_body_in_another_character_set_fails_with_the_place():
    with pytest.raises(SourceContractError) as caught:
        extractor(NAME, charset="ascii").extract(response(b'["' + b"x" * 200 + b"\xe9a" + b'"]'))
    assert "byte 202" in caught.value.message


@pytest.mark.parametrize("body", [" " * 500, "[" + " " * 500 + "]", '"' + "x" * 300 + '"'])
def test_long_bodies_without_rows_give_none(body):
    page = extractor(NAME).extract(response(body))
    assert rows_of(page) == []
    assert page.lookup("x") is MISSING


@pytest.mark.parametrize("levels", [3000, 600_000])
def test_a_body_that_is_nested_too_deeply_is_refused(levels):
    body = '[{"a":' + "[" * levels + "]" * levels + "}]"
    with pytest.raises(SourceContractError, match="nested too deeply"):
        rows_of(JsonExtractor(ExtractionSpec(ClassRef("m", "c"))).extract(response(body)))
    # Since Python 3.12, a window ends before the depth is too much.
    with pytest.raises(SourceContractError, match=r"nested too deeply|is too long"):
        rows_of(extractor().extract(response(body)))


def test_rows_that_are_too_deep_for_columns_are_refused():
    deep = '{"a":' * 450 + "1" + "}" * 450
    with pytest.raises(SourceContractError) as caught:
        rows_of(JsonExtractor(ExtractionSpec(ClassRef("m", "c"))).extract(response(f"[{deep}]")))
    assert "nested too deeply" in caught.value.message


def test_a_folder_of_temporary_files_that_is_gone_is_told_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(WriteError) as caught:
        Spool()
    assert str(tmp_path / "gone") in caught.value.message
    assert "TMPDIR" in caught.value.fix


def test_a_temporary_file_has_no_name_that_could_be_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page = extractor(NAME).extract(response(json.dumps(ROWS)))
    assert list(Path(tmp_path).iterdir()) == []
    assert len(rows_of(page)) == 200
