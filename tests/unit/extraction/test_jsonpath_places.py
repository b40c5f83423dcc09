"""JSONPath where properties name places of a response, or columns of secondary input."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import ClassVar

import pytest

from dil.errors import SourceContractError
from dil.extraction.content import NO_DATA_FIELD
from dil.extraction.json import large
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.json.spool import SpoolLimits
from dil.extraction.paging.answers import session_key
from dil.extraction.paging.walk import Walk, walk_pages
from dil.extraction.parameters import ParameterScope
from dil.extraction.preprocessing.aggregated_json import AggregatedJsonProcessor
from dil.extraction.secondary.entry import SecondaryAccess, SecondaryEntry
from dil.extraction.xml.extractor import XmlExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.json import compact
from dil.model.path import MISSING
from dil.model.secondary import SecondaryInput
from dil.model.secret import Secret
from dil.model.settings import Pagination, Parameter, SessionKeyField
from dil.spi.connector import ByteSession, Response
from dil.storage import LocalFilesystem
from tests.preprocessing import through
from tests.unit.extraction.clocks import Instant

REF = ClassRef("m", "c")
SHOP = {
    "total": 3,
    "shops": [
        {"name": "a", "orders": [{"id": 1, "paid": True}, {"id": 2, "paid": False}]},
        {"name": "b", "orders": [{"id": 3, "paid": True}]},
    ],
}
EVERY_ORDER = [{"id": 1, "paid": True}, {"id": 2, "paid": False}, {"id": 3, "paid": True}]


class SmallWindows(JsonExtractor):
    """Takes bodies of 20 bytes for long ones."""

    limits: ClassVar[SpoolLimits] = SpoolLimits(body=20, window=16, value=1000)


def response(value, content_type="application/json"):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Response(io.BytesIO(data), content_type=content_type, location="https://h/x")


def rows_of(page):
    return [row for batch in page.batches for row in batch.to_pylist()]


def rows(value, field, extractor=JsonExtractor, **more):
    return rows_of(
        extractor(ExtractionSpec(REF, data_field=field)).extract(response(value, **more))
    )


# ms.data.field


@pytest.mark.parametrize("extractor", [JsonExtractor, SmallWindows])
@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("$.shops[0].orders", EVERY_ORDER[:2]),
        ("$['shops'][-1]['orders']", EVERY_ORDER[2:]),
        ("$.shops[1].orders[0]", EVERY_ORDER[2:]),
        ("$.shops[0].orders[*]", EVERY_ORDER[:2]),
        ("$.shops[*].orders[*]", EVERY_ORDER),
        ("$..orders[?@.paid==true]", EVERY_ORDER[::2]),
        ("$..orders[?@.id>3]", []),
        ("$", [SHOP]),
    ],
)
def test_each_place_that_is_found_is_a_row(extractor, field, expected):
    if extractor is SmallWindows and "[-1]" in field:
        field = field.replace("[-1]", "[1]")  # rows of a long array are not counted from its end
    assert rows(SHOP, field, extractor) == expected


def test_the_members_of_an_object_can_be_rows():
    assert rows({"by": {"x": {"id": 1}, "y": {"id": 2}}}, "$.by[*]") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("extractor", [JsonExtractor, SmallWindows])
def test_lines_are_one_array_to_an_expression(extractor):
    body = b'{"a":[{"id":1}]}\n{"a":[{"id":2},{"id":3}]}\n'
    lines = {"content_type": "application/x-ndjson"}
    assert rows(body, "$[*].a[*]", extractor, **lines) == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert len(rows(body, "$[*]", extractor, **lines)) == 2
    assert rows(body, "$[1].a", extractor, **lines) == [{"id": 2}, {"id": 3}]


def test_rows_that_a_filter_finds_keep_all_their_digits():
    body = b'{"rows":[{"id":12345678901234567890123,"n":0.1},{"id":1,"n":2.5}]}'
    found = rows(body, "$.rows[?@.n<1]")
    assert [int(row["id"]) for row in found] == [12345678901234567890123]


def test_an_expression_that_finds_nothing_gives_no_rows_where_the_place_before_it_is_there():
    assert rows({"data": []}, "$.data[?@.a]") == []
    with pytest.raises(SourceContractError) as caught:
        rows({"date": []}, "$.data[?@.a]")
    assert 'there is no "$.data" in the response' in caught.value.message
    assert 'Did you mean "$.date"?' in caught.value.fix


def test_what_is_not_there_is_named_in_the_notation_of_the_job():
    with pytest.raises(SourceContractError) as caught:
        rows({"odata.value": {"row": []}}, "$['odata.value'].rows")
    assert """there is no "$['odata.value'].rows" in""" in caught.value.message
    assert """Did you mean "$['odata.value'].row"?""" in caught.value.fix


def test_a_later_page_without_the_place_is_noted():
    reader = JsonExtractor(ExtractionSpec(REF, data_field="$.data[?@.a]"))
    assert rows_of(reader.extract(response({"data": [{"a": 1}, {"b": 2}]}))) == [{"a": 1}]
    assert reader.extract(response({"x": 1})).notes == (NO_DATA_FIELD,)


def test_what_is_found_and_is_no_object_is_refused():
    with pytest.raises(SourceContractError):
        rows({"total": 5}, "$.total[*]")
    with pytest.raises(SourceContractError):
        rows(SHOP, "$.shops[*].name")


def test_a_body_too_long_to_be_searched_is_refused_and_a_place_in_it_is_not(monkeypatch):
    monkeypatch.setattr(large, "JSONPATH_SEARCHED_BYTES", 100)
    with pytest.raises(SourceContractError, match="can search 100 bytes at most"):
        rows(SHOP, "$..orders[*]", SmallWindows)
    reader = SmallWindows(ExtractionSpec(REF, data_field="$.shops[*]"))
    page = reader.extract(response(SHOP))
    assert page.lookup("$.total") == 3
    with pytest.raises(SourceContractError, match="can search 100 bytes at most"):
        page.lookup("$..total")
    assert len(rows_of(page)) == 2


# Formats that are followed and not searched

FEED = b'<feed><total>2</total><entry id="1"/><entry id="2"/></feed>'


def test_xml_takes_names_in_jsonpath_and_looks_up_what_stands_around_the_rows():
    reader = XmlExtractor(ExtractionSpec(REF, data_field="$.feed.entry"))
    page = reader.extract(response(FEED, "application/xml"))
    assert len(rows_of(page)) == 2
    assert page.lookup("$.feed.total") == "2"
    assert page.lookup("$..total") == "2"
    assert page.lookup("$.feed.none") is MISSING


def test_xml_is_not_searched_for_rows():
    reader = XmlExtractor(ExtractionSpec(REF, data_field="$..entry"))
    with pytest.raises(SourceContractError, match="may find several places"):
        reader.extract(response(FEED, "application/xml"))


# Paging


class Source(ByteSession):
    """Answers with its pages in turn."""

    def __init__(self, *pages, uri="https://h/rows"):
        self.pages = iter(pages)
        self.asked = []
        self.uri = uri

    def fetch(self, values):
        self.asked.append(values)
        body = json.dumps(next(self.pages)).encode()
        return Response(io.BytesIO(body), uri=self.uri, headers={"$.cursor": "header"})


def walked(source, **members):
    spec = ExtractionSpec(REF, **members)
    walk = Walk(spec, ParameterScope(0, 1, full_extract=True), Instant())
    pages = itertools.islice(walk_pages(source, JsonExtractor(spec), walk), 20)
    return [sum(batch.num_rows for batch in page.batches) for page, _ in pages]


def link(rel, href):
    return {"rel": rel, "href": href}


def test_the_next_address_can_be_found_by_its_relation():
    first = {"d": [{"id": 1}], "links": [link("self", "/1"), link("next", "/2")]}
    last = {"d": [{"id": 2}], "links": [link("self", "/2")]}
    source = Source(first, last)
    place = "$.links[?@.rel=='next'].href"
    assert walked(source, data_field="d", pagination=Pagination(next=place)) == [1, 1]
    assert source.asked[1].next_uri == "https://h/2"


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8000/inner/?c=%2B1&d=",
        "rows/rows?c=%2B1&d=",
        "//x?c=%2B1&d=#end",
        "?c=%2B1&d=",
    ],
)
def test_only_the_query_of_the_next_address_may_count(address):
    paged = Pagination(next="next", query_only=True)
    source = Source({"next": address, "d": [{"id": 1}]}, {"next": None, "d": [{"id": 2}]})
    assert walked(source, data_field="d", pagination=paged) == [1, 1]
    assert source.asked[1].next_uri == "https://h/rows?c=%2B1&d="


def test_an_address_without_a_query_is_refused_where_only_the_query_counts():
    paged = Pagination(next="next", query_only=True)
    with pytest.raises(SourceContractError, match="an address without a query"):
        walked(Source({"next": "/page/2", "d": [{"id": 1}]}), data_field="d", pagination=paged)


@pytest.mark.parametrize("query_only", [True, False])
@pytest.mark.parametrize(
    ("address", "what"),
    [("http://[bad?page=2", "is not an address"), ("page=2", 'is a query without "?" before it')],
)
def test_a_next_page_that_is_no_address_is_refused(address, what, query_only):
    paged = Pagination(next="next", query_only=query_only)
    source = Source({"next": address, "d": [{"id": 1}]}, {"d": []})
    if address == "page=2" and not query_only:  # this is a relative path
        assert walked(source, data_field="d", pagination=paged) == [1, 0]
        return
    with pytest.raises(SourceContractError) as refused:
        walked(source, data_field="d", pagination=paged)
    assert what in refused.value.message


def test_pages_that_differ_in_the_path_are_refused_where_only_the_query_counts():
    source = Source({"next": "https://h/rows/2?n=9", "d": [{"id": 1}]}, uri="https://h/rows?n=9")
    paged = Pagination(next="next", query_only=True, max_pages=2)
    with pytest.raises(SourceContractError, match="leads in circles") as refused:
        walked(source, data_field="d", pagination=paged)
    assert "leave `queryOnly` out" in refused.value.fix


def test_totals_flags_page_values_and_cursors_are_found_too():
    cursor = (Parameter(name="c", type="session"),)
    source = Source(
        {"a.b": {"d": [{"id": 1}]}, "x": [{"total": 2}, {"total": 2}], "cursor": "n"},
        {"a.b": {"d": [{"id": 2}]}, "x": [{"total": 2}], "cursor": None},
    )
    counts = walked(
        source,
        data_field="$['a.b'].d",
        parameters=cursor,
        session=SessionKeyField(name="$.cursor"),
        total_count_field="$.x[*].total",
    )
    assert counts == [1, 1]
    assert source.asked[1].parameters["c"] == "n"

    pages = [{"d": [{"id": n}], "p": {"more": n < 2, "at": n}} for n in (1, 2)]
    flagged = Pagination(fields=("$.p.at",), initial_values=(1,), more="$.p['more']")
    parameters = (Parameter(name="at", type="pagestart"),)
    assert walked(Source(*pages), data_field="d", pagination=flagged, parameters=parameters) == [
        1,
        1,
    ]


def test_different_totals_are_refused():
    with pytest.raises(SourceContractError, match=r"\$\.\.total.*2 different values"):
        walked(
            Source({"total": 1, "d": {"total": 2}}), data_field="d", total_count_field="$..total"
        )


def test_a_session_key_in_jsonpath_is_neither_a_header_nor_collected_from_elements():
    answer = Response(body=None, headers={"$.k": "header"})
    assert not session_key("$.k", answer, lambda path: MISSING).is_there
    asked = []
    session_key("$.k", answer, lambda path: asked.append(path) or MISSING)
    assert asked == ["$.k"]


# Preprocessor aggregated-json


def test_names_and_rows_can_be_searched_for():
    body = b'{"cols":[{"n":"a"},{"n":"b"}],"sheets":[{"r":[[1,2]]},{"r":[[3,4]]}],"m":{"a.b":7}}'
    parameters = {"header": "$.cols[*].n", "data": "$.sheets[*].r[*]", "fields": "$.m['a.b']"}
    assert through(AggregatedJsonProcessor, body, size=7, **parameters) == (
        b'{"count":2,"results":[{"a":1,"b":2},{"a":3,"b":4}],"a.b":7}'
    )


@pytest.mark.parametrize(
    ("parameters", "complaints"),
    [
        ({"header": "$.h", "data": "$..d[*]", "unwrap": "$.x", "fields": "$.a, b"}, 0),
        ({"header": "$.h[", "data": "$.d", "fields": "$.a["}, 2),
        ({"header": "h", "data": "d", "unwrap": "$..x", "fields": "$.a[*], $.b[0]"}, 3),
    ],
)
def test_paths_of_the_preprocessor_are_checked(parameters, complaints):
    assert len(list(AggregatedJsonProcessor.check(parameters))) == complaints


# Secondary input


def secondary(path: Path, *fields: str, parse_json: bool = False, **members) -> list[str]:
    source = SecondaryInput(path=str(path), fields=fields, **members)
    access = SecondaryAccess(
        lambda place: LocalFilesystem(), lambda files, folder: None, lambda text: Secret("plain")
    )
    return [compact(row) for row in SecondaryEntry(source, str(path), access, parse_json).rows()]


def test_fields_lead_into_columns_and_are_named_by_their_last_step(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    lines = [
        {"id": 1, "auth": {"token": "a", "scopes": [{"n": "r", "w": 1.5}, {"n": "w", "w": 9.5}]}},
        {"id": 2, "auth": {"token": "b", "scopes": []}},
        {"id": 3, "auth": None},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert secondary(path, "id", "$.auth.token") == [
        '{"id":1,"token":"a"}',
        '{"id":2,"token":"b"}',
        '{"id":3,"token":null}',
    ]
    assert secondary(path, "id", filters={"$.auth.scopes[?@.w<2.5].n": "r"}) == ['{"id":1}']


def test_a_text_that_is_json_is_looked_into_where_the_job_parses_such_texts(tmp_path) -> None:
    path = tmp_path / "part.json"
    path.write_text(json.dumps({"answer": '{"token":"t"}'}) + "\n")
    assert secondary(path, "$.answer.token", parse_json=True) == ['{"token":"t"}']
    assert secondary(path, "$.answer.token") == ['{"token":null}']
