import io
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.errors import ConversionError, SourceContractError
from dil.extraction.json.extractor import JsonExtractor
from dil.model.arrow import raw_schema, type_word
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.schema import ArrayType, Column, MapType, Primitive, RecordType
from dil.model.settings import SchemaCleansing
from dil.spi.connector import Response

REF = ClassRef("m", "c")


def response(body, content_type="application/json", *, checks=True):
    data = body.encode() if isinstance(body, str) else body
    return Response(
        io.BytesIO(data),
        content_type=content_type,
        checks_content_type=checks,
        location="https://h/x",
    )


def extractor(*columns, **more):
    return JsonExtractor(ExtractionSpec(REF, output_schema=columns or None, **more))


def rows_of(page):
    return [row for batch in page.batches for row in batch.to_pylist()]


def given_rows(body, *columns, **more):
    return rows_of(extractor(*columns, **more).extract(response(body)))


def column(name, kind="string", **more):
    return Column(name, kind if not isinstance(kind, str) else Primitive(kind, **more))


def one(value, kind, **more):
    """Read one column ``a`` of one row; ``value`` is JSON text."""
    return given_rows(f'{{"a":{value}}}', column("a", kind, **more))[0]["a"]


def inferred(*pages, **more):
    reader = extractor(**more)
    batches = [each for body in pages for each in reader.extract(response(body)).batches]
    rows = [row for batch in batches for row in batch.to_pylist()]
    return rows, {field.name: field.type for field in batches[-1].schema}


# Payload and root


def test_an_array_gives_a_row_for_each_element_and_an_object_gives_one():
    assert given_rows('[{"a":1},{"a":2}]', column("a", "int")) == [{"a": 1}, {"a": 2}]
    assert given_rows('{"a":1}', column("a", "int")) == [{"a": 1}]


@pytest.mark.parametrize("body", ["[]", "null", "5", '"text"', "", "  \n", "true"])
def test_empty_arrays_null_scalars_and_empty_bodies_give_no_row(body):
    page = extractor(column("a")).extract(response(body))
    assert rows_of(page) == []
    assert page.rows == 0


def test_the_data_field_may_lead_through_array_indexes():
    body = '{"result":{"details":[{"errors":[{"a":"x"}]}]}}'
    assert given_rows(body, column("a"), data_field="result.details.0.errors") == [{"a": "x"}]
    assert given_rows('[[{"a":"x"}]]', column("a"), data_field="0") == [{"a": "x"}]


def test_a_missing_data_field_fails_on_the_first_page_and_ends_later():
    reader = extractor(column("a"), data_field="data")
    with pytest.raises(SourceContractError):
        reader.extract(response('{"error":"no"}'))
    reader = extractor(column("a"), data_field="data")
    assert len(rows_of(reader.extract(response('{"data":[{"a":"x"}]}')))) == 1
    assert rows_of(reader.extract(response('{"error":"no"}'))) == []


def test_a_null_payload_gives_no_row_and_a_scalar_payload_fails():
    assert given_rows('{"data":null}', column("a"), data_field="data") == []
    with pytest.raises(SourceContractError):
        given_rows('{"data":5}', column("a"), data_field="data")


@pytest.mark.parametrize(
    "body",
    ['[{"a":1},5]', '[{"a":1},null]', "[null]", '[null,{"a":1}]', '[{"a":1},null,{"a":2}]', "[[1]]",
     '[{"a":1},"x"]'],
)  # fmt: skip
@pytest.mark.parametrize("columns", [(), (Column("a", Primitive("long")),)])
def test_elements_that_are_no_objects_fail_with_their_row(body, columns):
    with pytest.raises(SourceContractError) as caught:
        given_rows(body, *columns)
    assert "row 1 " in caught.value.message or "row 2 " in caught.value.message


@pytest.mark.parametrize(
    "body", ["<html>oops</html>", '{"a":1', '[{"a":1}] x', '{"a":NaN}', b'{"a":"\xff"}']
)
def test_a_body_that_is_not_json_fails_with_its_place_and_beginning(body):
    with pytest.raises(SourceContractError) as caught:
        given_rows(body, column("a"))
    assert caught.value.code == "DIL-SRC-CONTRACT"
    assert "https://h/x" in caught.value.message
    assert "application/json" in caught.value.message


def test_the_beginning_of_a_bad_body_shows_no_values():
    body = '{"token":"s3cret","id": 12345, "x":' + "y" * 500
    with pytest.raises(SourceContractError) as caught:
        given_rows(body, column("a"))
    assert "s3cret" not in caught.value.message
    assert "12345" not in caught.value.message
    assert len(caught.value.message) < 500


def test_new_line_separated_objects_are_rows_with_their_content_type():
    reader = extractor(column("a", "int"))
    page = reader.extract(response('{"a":1}\n\n{"a":2}\r\n', "application/x-ndjson"))
    assert rows_of(page) == [{"a": 1}, {"a": 2}]
    assert page.lookup("1.a") == 2


def test_other_character_sets_and_byte_order_marks_are_read():
    text = '{"a":"é€"}'
    reader = extractor(column("a"), charset="windows-1252")
    assert rows_of(reader.extract(response(text.encode("cp1252")))) == [{"a": "é€"}]
    assert given_rows("\ufeff" + text, column("a")) == [{"a": "é€"}]


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "", "application/vnd.api+json", "text/x-mine", "application/jsonlines"],
)
def test_accepted_content_types(content_type):
    reader = extractor(column("a"), extra_content_types=("text/x-Mine",))
    assert rows_of(reader.extract(response('{"a":"x"}', content_type))) == [{"a": "x"}]


def test_another_content_type_fails_where_it_is_checked():
    with pytest.raises(SourceContractError) as caught:
        extractor(column("a")).extract(response("<html>", "text/html"))
    assert "text/html" in caught.value.message
    unchecked = extractor(column("a")).extract(response('{"a":"x"}', "text/html", checks=False))
    assert rows_of(unchecked) == [{"a": "x"}]


def test_look_ups_see_the_whole_root_with_exact_numbers():
    body = '{"data":[{"a":"x"}],"n":{"k":[1,{"v":0.10}]},"big":12345678901234567890.125,"z":null}'
    page = extractor(column("a"), data_field="data").extract(response(body))
    assert page.lookup("n.k.1.v") == 0.1
    assert page.lookup("big") == Decimal("12345678901234567890.125")
    assert page.lookup("z") is None
    assert page.lookup("data.0") == {"a": "x"}
    assert page.lookup("n.k.2") is MISSING
    assert page.lookup("x.big") is MISSING
    assert page.lookup("n.k.-1.v") == 0.1
    assert page.lookup("n.k.-3") is MISSING
    assert page.lookup("big.x") is MISSING


@pytest.mark.parametrize("number", ["1" * 5000, "1e9999999999999999999", "-1e-9999999999999999999"])
def test_a_number_that_cannot_be_kept_breaks_the_contract(number):
    page = extractor(column("a"), data_field="data").extract(
        response(f'{{"data":[{{"a":"x"}}],"next":{number}}}')
    )
    with pytest.raises(SourceContractError):
        page.lookup("next")
    with pytest.raises(SourceContractError):
        rows_of(extractor().extract(response(f'[{{"a":{number}}}]')))


# Given columns


def test_only_columns_of_the_schema_pass_at_all_depths_and_missing_ones_are_null():
    columns = (
        column("id", "long"),
        column("who", RecordType((column("name"), column("age", "int")))),
        column("tags", ArrayType(RecordType((column("t"),)))),
    )
    body = '[{"x":1,"who":{"name":"n","y":2},"tags":[{"t":"a","u":0},null]},{"id":2,"tags":null}]'
    assert given_rows(body, *columns) == [
        {"id": None, "who": {"name": "n", "age": None}, "tags": [{"t": "a"}, None]},
        {"id": 2, "who": None, "tags": None},
    ]


def test_batches_have_exactly_the_raw_schema():
    columns = (column("d", "date"), column("m", MapType(Primitive("int"))), column("f", "float"))
    body = '[{"d":"2020-01-01","m":{"k":1},"f":0.5},{"m":{"k":"2","l":null}}]'
    page = extractor(*columns).extract(response(body))
    (batch,) = page.batches
    assert batch.schema.equals(raw_schema(columns), check_metadata=True)
    assert type_word(batch.schema.field("d")) == "date"
    assert batch.to_pylist()[1] == {"d": None, "m": [("k", 2), ("l", None)], "f": None}
    assert page.rows == 2


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("5", "string", "5"),
        ("1.50", "string", "1.50"),
        ("1E+2", "string", "1E+2"),
        ("12345678901234567890.12345678901234567890", "string",
         "12345678901234567890.12345678901234567890"),
        ("123456789012345678901234", "string", "123456789012345678901234"),
        ("true", "string", "true"),
        ("1577836800000", "timestamp", "1577836800000"),
        ('"12"', "int", 12),
        ("1.0", "int", 1),
        ("1e3", "int", 1000),
        ('"1.00"', "long", 1),
        ("9223372036854775807", "long", 2**63 - 1),
        ("-9223372036854775808", "long", -(2**63)),
        ("5", "double", 5.0),
        ('"0.1"', "double", 0.1),
        ("9007199254740993", "double", 9007199254740992.0),
        ("123456789012345678901234", "double", 1.2345678901234568e23),
        ("1e-999", "double", 0.0),
        ("0.5", "float", 0.5),
        ('"TRUE"', "boolean", True),
        ('"False"', "boolean", False),
        ("0e999999999", "long", 0),
        ("null", "int", None),
    ],
)  # fmt: skip
def test_values_are_coerced_without_loss(text, kind, value):
    assert one(text, kind) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", Decimal("1.50")),
        ('"1.5"', Decimal("1.50")),
        ("1.500", Decimal("1.50")),
        ("1e2", Decimal("100.00")),
        ("0e999", Decimal(0)),
        ("1234567890123456789012345678901234.78", Decimal("1234567890123456789012345678901234.78")),
    ],
)  # fmt: skip
def test_decimals_keep_all_their_digits(text, value):
    assert one(text, "decimal", precision=38, scale=2) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1.5", "int"), ("2147483648", "int"), ("9223372036854775808", "long"), ("true", "int"),
        ('"x"', "int"), ('" 1"', "int"), ('"0x1"', "long"), ("{}", "int"), ("[1]", "int"),
        ("true", "double"), ('"NaN"', "double"), ("1e400", "double"), ("1e300", "float"),
        ("1", "boolean"), ('"yes"', "boolean"), ("{}", "string"), ("[]", "string"),
        ("1e999999", "long"), ("1.555", "decimal"), ("true", "decimal"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_fail(text, kind):
    with pytest.raises(ConversionError):
        one(text, kind)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("5", RecordType((Column("x", Primitive("int")),))),
        ("[]", RecordType((Column("x", Primitive("int")),))),
        ('"ab"', ArrayType(Primitive("string"))),
        ("{}", ArrayType(Primitive("string"))),
        ("[1]", MapType(Primitive("int"))),
    ],
)
def test_nested_columns_refuse_other_kinds(text, kind):
    with pytest.raises(ConversionError):
        one(text, kind)


def test_the_error_names_column_row_and_page_and_hides_the_value():
    kind = RecordType((column("zip", "int"),))
    reader = extractor(Column("who", RecordType((Column("home", kind),))))
    rows_of(reader.extract(response('{"who":null}')))
    body = '[{"who":{"home":{"zip":1}}},{"who":{"home":{"zip":"hidden"}}}]'
    with pytest.raises(ConversionError) as caught:
        rows_of(reader.extract(response(body)))
    assert 'column "who.home.zip", row 2 of page 2' in caught.value.message
    assert "hidden" not in caught.value.message


def test_one_odd_value_does_not_change_the_other_rows():
    body = '[{"a":1,"b":0.1,"c":[1]},{"a":"2","b":3,"c":["4",null]},{"b":null}]'
    columns = (column("a", "long"), column("b", "double"), column("c", ArrayType(Primitive("int"))))
    assert given_rows(body, *columns) == [
        {"a": 1, "b": 0.1, "c": [1]},
        {"a": 2, "b": 3.0, "c": [4, None]},
        {"a": None, "b": None, "c": None},
    ]


def test_a_repeated_member_keeps_its_last_value():
    assert given_rows('{"a":1,"a":2}', column("a", "int")) == [{"a": 2}]


def test_texts_with_line_breaks_escapes_and_null_words_are_rows_like_others():
    body = '[{"a":"x\\ny"},\n{\n"a"\n:\nnull\n},{"a":"\\u0000\\ud83d\\ude00"}]'
    assert [row["a"] for row in given_rows(body, column("a"))] == ["x\ny", None, "\0😀"]


def test_large_pages_come_in_bounded_batches_and_keep_their_order():
    body = "[" + ",".join(f'{{"a":{n}}}' for n in range(70_000)) + "]"
    for columns in ((column("a", "int"),), ()):
        page = extractor(*columns).extract(response(body))
        batches = list(page.batches)
        assert [batch.num_rows for batch in batches] == [65_536, 4_464]
        assert pa.Table.from_batches(batches)["a"].to_pylist() == list(range(70_000))
        assert page.rows == 70_000


# Inference


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "null"], pa.int32()),
        (["2147483648"], pa.int64()),
        (["-2147483648"], pa.int32()),
        (["1", "9223372036854775808"], pa.decimal128(38, 0)),
        (["1" * 38], pa.decimal128(38, 0)),
        (["1" * 39], pa.string()),
        (["1.0"], pa.float64()),
        (["1e5"], pa.float64()),
        (["0.1", "0.10", "5"], pa.float64()),
        (["1.123456789012345678901"], pa.decimal128(38, 21)),
        (["1.25", "12345678901234567890.125"], pa.decimal128(38, 3)),
        (["0.5", "9007199254740993"], pa.decimal128(38, 1)),
        (["1e400"], pa.string()),
        (["1", '"x"'], pa.string()),
        (["true", "1"], pa.string()),
        (["true", "false"], pa.bool_()),
        (["null", "null"], pa.string()),
        (["[]"], pa.list_(pa.string())),
        (["[1]", "[2.5, null]"], pa.list_(pa.float64())),
        (["[[1]]", "[]"], pa.list_(pa.list_(pa.int32()))),
        (["{}"], pa.map_(pa.string(), pa.string())),
        (['{"x":1}', '{"y":"s"}', "{}"], pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ],
)
def test_inferred_types(values, kind):
    body = "[" + ",".join(f'{{"a":{value}}}' for value in values) + "]"
    _, types = inferred(body)
    assert types["a"].equals(kind) or str(types["a"]) == str(kind)


def test_mixed_values_become_their_exact_text():
    rows, _ = inferred('[{"a":1.50},{"a":"x"},{"a":true},{"a":null},{"a":12345678901234567890}]')
    assert [row["a"] for row in rows] == ["1.50", "x", "true", None, "12345678901234567890"]


def test_decimals_and_doubles_of_one_column_stay_exact():
    rows, _ = inferred('[{"a":0.5},{"a":12345678901234567890.125},{"a":7}]')
    assert [row["a"] for row in rows] == [
        Decimal("0.5"), Decimal("12345678901234567890.125"), Decimal(7)
    ]  # fmt: skip


def test_columns_come_in_order_of_first_appearance_and_all_are_nullable():
    rows, types = inferred('[{"b":1},{"a":"x","b":2}]')
    assert list(types) == ["b", "a"]
    assert rows == [{"b": 1, "a": None}, {"b": 2, "a": "x"}]


def test_later_pages_widen_types_and_append_columns():
    reader = extractor()
    schemas = []
    for body in ('[{"a":1}]', '[{"a":3000000000,"b":"x"}]', '[{"a":0.5}]', '[{"c":{"d":1}}]'):
        (batch,) = reader.extract(response(body)).batches
        schemas.append({field.name: str(field.type) for field in batch.schema})
    assert schemas == [
        {"a": "int32"},
        {"a": "int64", "b": "string"},
        {"a": "double", "b": "string"},
        {"a": "double", "b": "string", "c": "struct<d: int32>"},
    ]


def test_objects_and_other_values_in_one_column_fail_with_its_path():
    for other in ("1", '"x"', "[1]"):
        with pytest.raises(SourceContractError) as caught:
            inferred(f'[{{"o":{{"a":{{"b":1}}}}}},{{"o":{{"a":{other}}}}}]')
        assert '"o.a"' in caught.value.message


def test_default_types_replace_primitive_types_by_bare_name_at_any_depth():
    rows, types = inferred(
        '{"id":5,"in":{"id":6},"when":"2020-01-01","list":[1]}',
        default_types=(("id", "string"), ("when", "timestamp"), ("list", "string")),
    )
    assert rows == [{"id": "5", "in": {"id": "6"}, "when": "2020-01-01", "list": [1]}]
    assert types["in"].field("id").type == pa.string()


def test_rows_without_members_fail():
    with pytest.raises(SourceContractError):
        inferred("[{},{}]")


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
json_rows = st.dictionaries(st.sampled_from("abc"), scalars, min_size=1)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(numbers | st.none(), min_size=1, max_size=4), min_size=1, max_size=3))
def test_no_page_changes_the_value_of_any_number(pages):
    reader = extractor()
    for values in pages:
        body = json.dumps([{"a": value} for value in values])
        found = [row["a"] for row in rows_of(reader.extract(response(body)))]
        for value, got in zip(values, found, strict=True):
            if value is None or isinstance(got, str):
                assert (value is None) == (got is None)
                assert got is None or Decimal(got) == Decimal(json.dumps(value))
            else:
                exact = Decimal(repr(got)) if isinstance(got, float) else Decimal(got)
                assert exact == Decimal(json.dumps(value))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), scalars, min_size=1), min_size=1, max_size=5)
)
def test_every_row_and_value_survives_inference(rows):
    found, types = inferred(json.dumps(rows))
    assert len(found) == len(rows)
    assert set(types) == {name for row in rows for name in row}
    for row, got in zip(rows, found, strict=True):
        assert {name for name, value in got.items() if value is not None} == {
            name for name, value in row.items() if value is not None
        }


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.none(), max_size=6
    )
)
def test_the_common_path_and_the_careful_path_agree(values):
    body = json.dumps([{"a": value, "m": {}} for value in values])
    fast = given_rows(body, column("a", "double"))
    careful = given_rows(body, column("a", "double"), column("m", MapType(Primitive("int"))))
    assert [row["a"] for row in fast] == [row["a"] for row in careful]
    assert all(row["a"] is None or math.isfinite(row["a"]) for row in fast)


# Rows that are not filtered by their schema


def test_without_filter_given_columns_come_first_and_the_others_are_found():
    columns = (
        column("id", "string"),
        column("who", RecordType((column("age", "long"),))),
        column("list", ArrayType(RecordType((column("t"),)))),
        column("absent", "date"),
    )
    reader = extractor(*columns, filters_by_schema=False)
    body = '[{"x":1.5,"id":7,"who":{"n":true,"age":"3"},"list":[{"t":1,"u":2}]},{"y":null}]'
    (batch,) = reader.extract(response(body)).batches
    assert batch.to_pylist() == [
        {"id": "7", "who": {"age": 3, "n": True}, "list": [{"t": "1", "u": 2}],
         "absent": None, "x": 1.5, "y": None},
        {"id": None, "who": None, "list": None, "absent": None, "x": None, "y": None},
    ]  # fmt: skip
    assert type_word(batch.schema.field("absent")) == "date"


def test_without_filter_values_of_given_columns_must_fit_and_names_are_cleansed():
    with pytest.raises(ConversionError):
        given_rows('[{"a":"x","b":1}]', column("a", "int"), filters_by_schema=False)
    more = {"filters_by_schema": False, "cleansing": SchemaCleansing()}
    assert given_rows('[{"a b":"1","c d":2}]', column("a_b", "int"), **more) == [
        {"a_b": 1, "c_d": 2}
    ]


# Names


def test_names_are_cleansed_at_all_depths():
    rows, _ = inferred(
        '[{"first name":1,"$price":{"@cur":"x"},"l":[{"a b":1}]}]', cleansing=SchemaCleansing()
    )
    assert rows == [{"first_name": 1, "_price": {"_cur": "x"}, "l": [{"a_b": 1}]}]


def test_given_columns_have_cleansed_names():
    columns = (
        column("first_name"),
        column("n", "int"),
        column("o", RecordType((column("a_b", "int"),))),
        column("l", ArrayType(RecordType((column("c_d", "int"),)))),
        column("m", MapType(Primitive("int"))),
    )
    body = '[{"first name":"x","n":1,"o":{"a b":2},"l":[{"c$d":3}],"m":{"k @":4},"z z":0}]'
    assert given_rows(body, *columns, cleansing=SchemaCleansing()) == [
        {"first_name": "x", "n": 1, "o": {"a_b": 2}, "l": [{"c_d": 3}], "m": [("k__", 4)]}
    ]


@pytest.mark.parametrize("columns", [(), (Column("a_b", Primitive("int")),)])
@pytest.mark.parametrize(
    "body", ['[{"a b":1,"a_b":2}]', '[{"a b":1},{"a_b":2}]', '[{"a_b":1},{"a b":2}]']
)
def test_names_that_become_equal_fail(columns, body):
    with pytest.raises(SourceContractError):
        given_rows(body, *columns, cleansing=SchemaCleansing())


def test_names_of_different_levels_do_not_clash_when_they_are_cleansed():
    """A dot in a name is no step to another level, and the keys of a map are not its values'."""
    cleansing = SchemaCleansing(enabled=True)
    inner = RecordType((column("x_y", "int"),))
    outer = RecordType((Column("b", inner),))
    row = '[{"a.b":{"x y":1},"a":{"b":{"x_y":2}}}]'
    assert given_rows(row, Column("a.b", inner), Column("a", outer), cleansing=cleansing) == [
        {"a.b": {"x_y": 1}, "a": {"b": {"x_y": 2}}}
    ]
    row = '[{"m":{"x y":{"x_y":1}}}]'
    assert given_rows(row, Column("m", MapType(inner)), cleansing=cleansing) == [
        {"m": [("x_y", {"x_y": 1})]}
    ]


def test_without_cleansing_names_stay():
    assert inferred('[{"a b":1}]')[0] == [{"a b": 1}]
    found = given_rows('[{"a b":1,"c":2}]', column("a_b", "int"), column("c", "int"))
    assert found == [{"a_b": None, "c": 2}]


def test_pattern_and_replacement_are_the_users():
    cleansing = SchemaCleansing(pattern="-", replacement="")
    assert inferred('[{"a-b":1}]', cleansing=cleansing)[0] == [{"ab": 1}]
    assert given_rows('[{"a-b":1}]', column("ab", "int"), cleansing=cleansing) == [{"ab": 1}]


def test_a_job_that_names_a_type_of_lines_has_every_body_read_line_by_line():
    spec = ExtractionSpec(REF, extra_content_types=("application/x-ndjson", "text/plain"))
    answer = Response(
        io.BytesIO(b'{"id": 1}\n{"id": 2}\n'), content_type="text/plain", checks_content_type=True
    )
    page = JsonExtractor(spec).extract(answer)
    assert [batch.to_pylist() for batch in page.batches] == [[{"id": 1}, {"id": 2}]]


@pytest.mark.parametrize("number", ["1e0", "1.50", "7", "true"])
def test_a_column_that_the_dataset_has_as_text_keeps_the_text_of_its_numbers(number):
    known = frozenset({"a"})
    assert given_rows(f'[{{"a": {number}}}]', text_columns=known) == [{"a": number}]


@pytest.mark.parametrize(("keys", "text"), [({"a"}, "100"), (None, "100"), ({"b"}, "100.0")])
@pytest.mark.parametrize("known", [frozenset(), frozenset("a")])
def test_numbers_of_a_key_that_is_text_have_one_text(keys, text, known):
    """Rows of 100 and of 100.0 are one, in this run and in later ones."""
    spec = {"key_columns": keys if keys is None else frozenset(keys), "text_columns": known}
    rows = '[{"a": 100.0}, {"a": "x"}]'
    assert given_rows(rows, **spec) == [{"a": text}, {"a": "x"}]


def test_records_in_a_column_that_the_dataset_has_as_text_stay_records():
    assert given_rows('[{"a": {"b": 1}}]', text_columns=frozenset({"a"})) == [{"a": {"b": 1}}]
