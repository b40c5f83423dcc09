"""XML documents as rows."""

import io

import pyarrow as pa
import pytest

from dil.errors import ConversionError, SourceContractError
from dil.extraction.xml.extractor import LOOKED_TOO_EARLY, NO_DATA_FIELD, XmlExtractor
from dil.model.arrow import raw_schema, type_word
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.schema import ArrayType, Column, MapType, Primitive, RecordType
from dil.model.settings import SchemaCleansing
from dil.spi.connector import Response

pytestmark = pytest.mark.slow

REF = ClassRef("m", "c")
FEED = """<?xml version="1.0"?>
<feed xmlns="http://a" xmlns:x="http://b">
  <x:total>2</x:total>
  <entry id="1"><title> One </title></entry>
  <entry id="2"><title>Two</title></entry>
  <link rel="next" href="/p2"/>
</feed>"""


def response(body, content_type="application/xml"):
    data = body.encode() if isinstance(body, str) else body
    return Response(
        io.BytesIO(data),
        content_type=content_type,
        checks_content_type=True,
        location="https://h/x",
    )


def extractor(*columns, path="r.e", **more):
    return XmlExtractor(ExtractionSpec(REF, output_schema=columns or None, data_field=path, **more))


def rows_of(page):
    return [row for batch in page.batches for row in batch.to_pylist(maps_as_pydicts="strict")]


def read(body, *columns, **more):
    return rows_of(extractor(*columns, **more).extract(response(body)))


def entries(inside, *columns, **more):
    return read(f"<r>{inside}</r>", *columns, **more)


def column(name, kind="string"):
    return Column(name, Primitive(kind) if isinstance(kind, str) else kind)


# From elements to values


def test_rows_are_the_elements_at_the_data_field_by_local_names():
    assert read(FEED, path="feed.entry") == [
        {"@id": "1", "title": "One"},
        {"@id": "2", "title": "Two"},
    ]


def test_without_a_data_field_the_root_element_is_the_one_row():
    assert read('<r a="1"><b>x</b></r>', path="") == [{"@a": "1", "b": "x"}]
    assert read("<r>x</r>", path="") == [{"#text": "x"}]


def test_rows_are_found_under_every_parent_of_the_path():
    body = "<r><g><e><a>1</a></e></g><x><e><a>no</a></e></x><g><e><a>2</a></e></g></r>"
    assert read(body, path="r.g.e") == [{"a": "1"}, {"a": "2"}]


def test_an_element_of_the_same_name_inside_of_a_row_is_no_row():
    assert entries("<e><r><e>x</e></r></e>") == [{"r": {"e": "x"}}]


def test_text_beside_attributes_or_children_has_a_name_of_its_own():
    assert entries('<e><p cur="EUR">5</p>a<b>c</b> d </e>') == [
        {"p": {"@cur": "EUR", "#text": "5"}, "b": "c", "#text": "a d"}
    ]


def test_an_empty_element_is_null_and_so_is_one_that_says_nil():
    xsi = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance"'
    assert entries(f"<e><a/><b></b><c {xsi} i:nil='true'>  </c><d>x</d></e>") == [
        {"a": None, "b": None, "c": None, "d": "x"}
    ]


def test_an_element_that_is_repeated_anywhere_is_an_array_everywhere():
    assert entries("<e><t>1</t></e><e><t>2</t><t>3</t></e><e/>") == [
        {"t": ["1"]},
        {"t": ["2", "3"]},
        {"t": None},
    ]


def test_an_element_that_has_attributes_anywhere_is_an_object_everywhere():
    assert entries('<e><t>1</t></e><e><t u="m">2</t></e>') == [
        {"t": {"#text": "1", "@u": None}},
        {"t": {"#text": "2", "@u": "m"}},
    ]


def test_character_references_sections_and_comments_are_read_as_xml_means_them():
    text = "<e><a>&lt;&#233;<!-- no --><![CDATA[ & <x> ]]></a></e>"
    assert entries(text) == [{"a": "<é & <x>"}]


def test_all_values_are_text_unless_a_default_type_is_given():
    body = "<e><a>007</a><b>true</b></e>"
    reader = extractor(default_types=(("a", "int"),))
    (batch,) = reader.extract(response(f"<r>{body}</r>")).batches
    assert batch.to_pylist() == [{"a": 7, "b": "true"}]
    assert [type_word(field) for field in batch.schema] == ["int", "string"]


def test_names_are_cleansed_attributes_and_text_as_well():
    cleansing = SchemaCleansing()
    assert entries('<e id="1">x</e>', cleansing=cleansing) == [{"_id": "1", "_text": "x"}]
    with pytest.raises(SourceContractError, match='both become "_id"'):
        entries('<e id="1"><_id>x</_id></e>', cleansing=cleansing)
    assert entries('<e id="1">x</e>', column("_id", "long"), cleansing=cleansing) == [{"_id": 1}]


# With a schema


def test_a_given_schema_types_the_values_and_drops_the_rest():
    columns = column("b", "boolean"), column("n", "long"), column("d", "double"), column("z")
    rows = entries("<e><n> 5 </n><b>1</b><d>1.5</d><x>no</x></e>", *columns)
    assert rows == [{"b": True, "n": 5, "d": 1.5, "z": None}]


def test_a_given_array_takes_single_elements_and_a_plain_column_the_text():
    columns = column("t", ArrayType(Primitive("int"))), column("p", "int")
    rows = entries('<e><t>1</t><p u="m">5</p></e><e><t>2</t><t>3</t></e>', *columns)
    assert rows == [{"t": [1], "p": 5}, {"t": [2, 3], "p": None}]


def test_given_records_and_maps_are_read_at_all_depths():
    inner = RecordType((column("x", ArrayType(Primitive("int"))), column("y")), "inner")
    rows = entries(
        "<e><a><x>1</x><q>no</q></a><m><k>1</k><l>2</l></m></e>",
        column("a", inner),
        column("m", MapType(Primitive("int"))),
    )
    assert rows == [{"a": {"x": [1], "y": None}, "m": {"k": 1, "l": 2}}]


@pytest.mark.parametrize("inside", ["<e><n>x</n></e>", "<e><n>1</n><n>2</n></e>"])
def test_a_value_that_does_not_fit_fails_with_its_row(inside):
    with pytest.raises(ConversionError, match='column "n", row 2 of page 1'):
        entries(f"<e><n>1</n></e>{inside}", column("n", "long"))


# Pages and look-ups


def test_what_stands_around_the_rows_can_be_looked_up():
    page = extractor(path="feed.entry").extract(response(FEED))
    assert len(rows_of(page)) == 2
    assert page.lookup("feed.total") == "2"
    assert page.lookup("feed.link.@href") == "/p2"
    assert page.lookup("feed.entry") is MISSING
    assert page.lookup("total") is MISSING
    assert page.notes == ()


def test_a_small_document_can_be_looked_up_whole_with_its_first_batch():
    page = extractor(path="feed.entry").extract(response(FEED))
    next(page.batches)
    assert page.lookup("feed.link.@href") == "/p2"


class Endless(io.RawIOBase):
    """A long document that is made while it is read."""

    def __init__(self, rows):
        self.left, self.end = rows, b"</list><last>9</last></r>"
        self.begin = b"<r><first>1</first><list>"
        self.taken = 0

    def read(self, size=-1):
        data, self.begin = self.begin, b""
        if not data and self.left:
            count = min(self.left, 10_000)
            self.left -= count
            data = b"<e>%b</e>\n" % (b"<a>some text</a>" + b" " * 300) * count
        if not data:
            data, self.end = self.end, b""
        self.taken += len(data)
        return data


def test_a_large_document_is_read_in_parts_and_what_is_behind_its_rows_is_noted():
    body = Endless(120_000)
    page = extractor(path="r.list.e").extract(Response(body))
    first = next(page.batches)
    assert first.num_rows <= 65_536
    assert body.left > 0
    assert page.lookup("r.first") == "1"
    assert page.notes == ()
    assert page.lookup("r.last") is MISSING
    assert page.notes == (LOOKED_TOO_EARLY,)
    assert first.num_rows + sum(batch.num_rows for batch in page.batches) == 120_000
    assert page.lookup("r.last") == "9"
    assert page.rows == 120_000
    assert body.closed


def test_columns_are_appended_and_arrays_stay_arrays_on_later_pages():
    reader = extractor()
    assert rows_of(reader.extract(response("<r><e><a>1</a><a>2</a></e></r>"))) == [
        {"a": ["1", "2"]}
    ]
    assert rows_of(reader.extract(response("<r><e><b>x</b><a>3</a></e></r>"))) == [
        {"a": ["3"], "b": "x"}
    ]


def test_a_place_without_rows_gives_none_and_a_missing_place_fails_on_the_first_page():
    assert read("<r><list/></r>", path="r.list.e") == []
    assert read("<r/>", path="r.e") == []
    for body, path in (("<r/>", "r.list.e"), ("<error/>", "r.e"), ("<error/>", "r")):
        with pytest.raises(SourceContractError, match=f'no place for "{path}"'):
            read(body, path=path)
    reader = extractor()
    assert rows_of(reader.extract(response("<r><e>1</e></r>"))) == [{"#text": "1"}]
    page = reader.extract(response("<error/>"))
    assert rows_of(page) == []
    assert page.notes == (NO_DATA_FIELD,)
    assert read("<r/>", path="r.list.e", data_field_optional=True) == []


def soap(inside):
    return f'<s:Envelope xmlns:s="urn:s"><s:Body>{inside}</s:Body></s:Envelope>'


@pytest.mark.parametrize(
    "fault",
    [
        "<faultcode>s:Server</faultcode><faultstring>Session expired</faultstring>",
        '<faultstring xml:lang="en">Session expired</faultstring>',
        '<s:Reason><s:Text xml:lang="en">Session expired</s:Text></s:Reason>',
        '<s:Reason><s:Text xml:lang="en">Session expired</s:Text><s:Text>x</s:Text></s:Reason>',
    ],
)
@pytest.mark.parametrize("path", ["Envelope.Body.list", "Envelope.Body.list.item"])
def test_a_soap_fault_is_no_page_without_rows(path, fault):
    reader = extractor(path=path, data_field_optional=True)
    assert rows_of(reader.extract(response(soap("<list><item><a>1</a></item></list>"))))
    with pytest.raises(SourceContractError, match="Session expired"):
        rows_of(reader.extract(response(soap(f"<s:Fault>{fault}</s:Fault>"))))


def test_soap_faults_can_be_rows_and_an_answer_without_rows_is_no_fault():
    fault = soap("<s:Fault><faultcode>a</faultcode></s:Fault>")
    assert read(fault, path="Envelope.Body.Fault") == [{"faultcode": "a"}]
    assert read(soap("<list/>"), path="Envelope.Body.list.item") == []


def test_rows_without_anything_in_them_are_null_in_all_columns_if_there_is_one():
    assert entries("<e/><e><a>1</a></e>") == [{"a": None}, {"a": "1"}]
    assert entries("<e/>", column("a")) == [{"a": None}]
    with pytest.raises(SourceContractError, match="neither members nor text"):
        entries("<e/>")


@pytest.mark.parametrize("body", ["", " \n "])
def test_an_empty_body_gives_no_row(body):
    assert read(body) == []
    assert rows_of(extractor().extract(Response(body=None))) == []


# What is refused


@pytest.mark.parametrize(
    "body",
    ["<r><e></r>", "<r><e>", "no", "<r/><r/>", '{"a":1}', b"<r>\xff</r>", "<r>&nbsp;</r>"],
)
def test_a_body_that_is_no_xml_fails_with_its_place(body):
    with pytest.raises(SourceContractError, match="https://h/x, page 1: the body is not XML: "):
        read(body)


def test_entities_are_refused_whatever_they_would_stand_for():
    bomb = (
        '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><r><e>&b;</e></r>'
    )
    outside = '<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd">]><r><e>&f;</e></r>'
    foreign = '<!DOCTYPE r SYSTEM "https://h/x.dtd"><r><e>&f;</e></r>'
    for body in (bomb, outside, foreign):
        with pytest.raises(SourceContractError, match="the entity"):
            read(body)
    assert read('<!DOCTYPE r SYSTEM "https://h/x.dtd"><r><e>x</e></r>') == [{"#text": "x"}]


def test_elements_that_are_nested_without_end_are_refused():
    with pytest.raises(SourceContractError, match="nested more than 100 deep"):
        read("<r><e>" + "<a>" * 200)


def test_more_elements_around_the_rows_than_can_be_kept_fail_the_look_up_only():
    page = extractor().extract(response("<r>" + "<x/>" * 100_001 + "<e>1</e></r>"))
    assert rows_of(page) == [{"#text": "1"}]
    with pytest.raises(SourceContractError, match="outside of the rows"):
        page.lookup("r.x")


def test_the_document_tells_its_character_set_unless_the_job_does():
    text = "<r><e>é€</e></r>"
    wanted = [{"#text": "é€"}]
    for encoding in ("utf-16", "windows-1252"):
        assert read(f'<?xml version="1.0" encoding="{encoding}"?>{text}'.encode(encoding)) == wanted
    assert read("\ufeff" + text) == wanted
    assert read(text.encode("cp1252"), charset="windows-1252") == wanted
    with pytest.raises(SourceContractError, match=r"ms\.source\.data|encoding"):
        read('<?xml version="1.0" encoding="gb2312"?><r/>')
    chinese = '<?xml version="1.0" encoding="gb2312"?><r><e>中</e></r>'.encode("gb2312")
    assert read(chinese, charset="gb2312") == [{"#text": "中"}]
    with pytest.raises(SourceContractError, match="is not gb2312 text"):
        read(b"<r>\xff</r>", charset="gb2312")


@pytest.mark.parametrize("kind", ["application/xml", "text/xml", "application/atom+xml", ""])
def test_content_types_of_xml_and_none_at_all_are_accepted(kind):
    reader = extractor()
    assert rows_of(reader.extract(response("<r><e>1</e></r>", kind))) == [{"#text": "1"}]


def test_other_content_types_fail_unless_the_job_names_them():
    with pytest.raises(SourceContractError, match="content type is text/html"):
        extractor().extract(response("<r/>", "text/html"))
    reader = extractor(extra_content_types=("text/plain",))
    assert rows_of(reader.extract(response("<r/>", "text/plain"))) == []


def test_batches_have_the_raw_schema_of_the_given_columns():
    given = column("a", "date")
    batch = next(extractor(given).extract(response("<r><e><a>2024</a></e></r>")).batches)
    assert batch.schema.equals(raw_schema((given,)), check_metadata=True)
    assert batch.schema.field("a").type == pa.string()
