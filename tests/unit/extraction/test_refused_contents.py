"""What is said of an answer that is not what was asked for: enough to mend it, no row's values."""

import io

import pytest

from dil.errors import SourceContractError
from dil.extraction.content import NO_END
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.dump_extractor import FileDumpExtractor
from dil.extraction.excerpt import glimpse
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.text_extractor import TextExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.spi.connector import Response

REF = ClassRef("m", "c")
JSON = "application/json"


def refusal(body, kind=JSON, extractor=JsonExtractor, **members):
    body_of = io.BytesIO(body)
    response = Response(body_of, {}, kind, checks_content_type=True, location="source")
    with pytest.raises(SourceContractError) as caught:
        extractor(ExtractionSpec(REF, **members)).extract(response)
    return caught.value


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"id,customer\n17,Zoe Smith\n", "aa,aaaaaaaa 99,Aaa Aaaaa"),
        (b'[["Zoe", 17]]', '[["Aaa", 99]]'),
        (b'[{"name": "Zoe"}]', '[{"name": ***}]'),
        (b'{"rows": [[1, "Zoe"], [2.5e3, "a, Zoe"', '"rows": [[***, ***], [***, ***'),
        (b'[{"a": ["\\"Zoe\\", 1"], "b": [true, null]}]', '"a": [***], "b": [true, null]'),
        (b'\xef\xbb\xbf<?xml version="1.0"?><r k="Zoe"><n>Zoe</n></r>', "<n>***</n>"),
        (b"<r><![CDATA[Zoe]]></r>", "<r>***"),
        (b"<!DOCTYPE html><title>Please log in</title>", "Please log in"),
        (b"x" * 99, "a" * 60 + "..."),
        (b"", ""),
    ],
)
def test_of_a_body_the_kind_is_shown_and_of_rows_no_value(body, shown):
    assert shown in glimpse(body)
    assert "Zoe" not in glimpse(body)


def test_of_rows_that_are_arrays_a_body_that_breaks_off_shows_no_value():
    assert "Zoe" not in refusal(b'[["Zoe", 17], ["Ada').message


@pytest.mark.parametrize(
    ("kind", "extractor", "fix"),
    [
        ("text/html", JsonExtractor, "A login or error page? Check the address"),
        ("application/xml", JsonExtractor, "write ms.extractor.class=xml. "),
        ("text/csv", JsonExtractor, "write ms.extractor.class=csv. "),
        ("text/plain", JsonExtractor, 'ms.http.response.type={"Content-Type": "text/plain"}'),
        ("text/html", CsvExtractor, "A login or error page?"),
    ],
)
def test_the_fix_for_another_content_type_fits_the_type(kind, extractor, fix):
    error = refusal(b"id,customer\n17,Zoe\n", kind, extractor)
    assert fix in error.fix
    assert "Zoe" not in error.message


def test_lines_that_come_as_one_value_are_met_with_how_to_read_lines():
    error = refusal(b'{"customer": "Zoe"}\n{"customer": "Ada"}\n')
    assert "a name that ends in .jsonl" in error.fix
    assert '{"Content-Type": "application/x-ndjson"}' in error.fix
    plain = refusal(b"{}\n{}\n", "text/plain", extra_content_types=("text/plain",))
    assert '{"Content-Type": "text/plain", "Lines": "application/x-ndjson"}' in plain.fix
    assert "error page" in refusal(b'{"customer": "Zo').fix


@pytest.mark.parametrize("extractor", [JsonExtractor, CsvExtractor])
def test_of_a_body_in_another_character_set_the_advice_names_the_one_that_the_source_names(
    extractor,
):
    body = '[{"name": "Zoë"}]'.encode("latin-1")
    headers = {"content-type": 'application/json; charset="ISO-8859-1"'}
    for known, told in ((headers, "says ISO-8859-1."), ({}, "Check ms.source.data.character.set.")):
        response = Response(io.BytesIO(body), known)
        with pytest.raises(SourceContractError) as caught:
            list(extractor(ExtractionSpec(REF)).extract(response).batches)
        assert caught.value.fix.endswith(told)


@pytest.mark.parametrize("extractor", [JsonExtractor, CsvExtractor])
@pytest.mark.parametrize("charset", ["UTF-16", "UTF-16LE", "UTF-16BE"])
def test_utf_16_is_recognized_also_where_it_is_valid_utf_8(extractor, charset):
    body = '[{"card": 4711081500}]'.encode(charset)
    with pytest.raises(SourceContractError, match="UTF-8") as caught:
        list(extractor(ExtractionSpec(REF)).extract(Response(io.BytesIO(body), {})).batches)
    assert caught.value.fix.endswith(f"set ms.source.data.character.set={charset}.")
    assert "7" not in caught.value.message.replace(" ", "")


@pytest.mark.parametrize("extractor", [CsvExtractor, TextExtractor])
@pytest.mark.parametrize("own", ["UTF-8", "ISO-8859-1", "windows-1252", "Shift_JIS", "cp037"])
@pytest.mark.parametrize("charset", ["UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32", "UTF-32BE"])
def test_null_characters_of_a_wide_character_set_are_not_published(extractor, own, charset):
    spec, wide = ExtractionSpec(REF, charset=own), ExtractionSpec(REF, charset=charset)
    body = "name\nZoe\n".encode(charset)
    with pytest.raises(SourceContractError, match=f"the body is not {own} text") as caught:
        list(extractor(spec).extract(Response(io.BytesIO(body), {})).batches)
    assert caught.value.fix.endswith(f"set ms.source.data.character.set={charset}.")
    found = list(extractor(wide).extract(Response(io.BytesIO(body), {})).batches)
    assert "Zoe" in str(found[0].to_pylist())
    assert "\\x00" not in str(found[0].to_pylist())


@pytest.mark.parametrize(
    ("extractor", "kind", "is_noted"),
    [
        (CsvExtractor, "text/csv", True),
        (CsvExtractor, "application/gzip", False),
        (JsonExtractor, "application/x-ndjson", True),
        (JsonExtractor, JSON, False),
        (TextExtractor, "", True),
        (FileDumpExtractor, "", True),
    ],
)
def test_an_answer_that_may_have_been_cut_between_two_rows_is_noted(extractor, kind, is_noted):
    for has_end in (True, False):
        response = Response(io.BytesIO(b"1\n"), {}, kind, has_end=has_end)
        page = extractor(ExtractionSpec(REF)).extract(response)
        assert (NO_END in page.notes) is (is_noted and not has_end)


@pytest.mark.parametrize("text", [r"\ud83d", r"\uDE00abcdefgh", r"\ud83d, and more text"])
def test_half_of_a_character_is_named_as_such(text):
    error = refusal(b'[{"a": "\\ud83d\\ude00"}, {"a": "%b"}]' % text.encode())
    assert f"half of a surrogate pair, {text[:6]})" in error.message
    assert "Have it corrected at the source" in error.fix


# A path to rows that leads to nothing


@pytest.mark.parametrize(
    ("field", "body", "there", "meant"),
    [
        ("Rows", b'{"rows": ["secret"], "n": 3}', "it has the members rows, n", '"rows"'),
        ("d.Row", b'{"d": {"rows": []}}', '"d" has the members rows', '"d.rows"'),
        ("dta.rows", b'{"data": {"rows": []}}', "it has the members data", '"data.rows"'),
        ("rows", b"[1, 2]", "it is an array", ""),
        ("rows", b"{}", "it has no members", ""),
        ("a.b", b'{"a": 1}', "", ""),
        (
            "data.a.b",
            b'{"data": null, "errors": ["secret"]}',
            '"data" is null; the response has the members data, errors',
            "",
        ),
    ],
)
def test_what_there_is_instead_of_the_rows_is_named(field, body, there, meant):
    error = refusal(body, data_field=field)
    assert f'there is no "{field}" in the response' in error.message
    assert there in error.message
    assert ("Did you mean" in error.fix, meant in error.fix) == (bool(meant), True)
    assert "secret" not in error.message


def test_at_most_ten_names_are_told():
    names = ", ".join(f'"n{number}": 0' for number in range(14))
    error = refusal(b"{%b}" % names.encode(), data_field="rows")
    assert error.message.endswith("n8, n9 and 4 more")


def test_an_empty_answer_of_json_may_be_cut_off_too():
    for has_end in (True, False):
        response = Response(io.BytesIO(), {}, "application/json", has_end=has_end)
        page = JsonExtractor(ExtractionSpec(REF)).extract(response)
        assert page.notes == (() if has_end else (NO_END,))
