from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dil.errors import ConfigError, ConversionError
from dil.model.arrow import type_word
from dil.text.joda import compile_pattern
from tests.unit.conversion.conversion_jobs import NOW, chain, convert, derived, facts

DAY = 86_400_000


def one(
    formula: dict[str, str], rows: dict[str, list[Any]] | pa.RecordBatch, **more: Any
) -> list[Any]:
    """Return the values of one derived field named x over the rows."""
    batch = rows if isinstance(rows, pa.RecordBatch) else pa.record_batch(rows)
    return convert(batch, derived_fields=[derived("x", **formula)], **more).column("x").to_pylist()


@pytest.mark.parametrize(
    ("form", "zone", "expected"),
    [
        ("yyyy-MM-dd", "UTC", 1577836800000),
        ("iso", "", 1577865600000),
        ("ISO", "UTC", 1577865600000),
        ("", "", 0),
    ],
)
def test_the_examples_of_the_specification_for_epoc(form: str, zone: str, expected: int) -> None:
    formula = {"type": "epoc", "source": "t", "format": form, "timezone": zone}
    assert one(formula, {"t": ["2020-01-01T08:00:00Z"]}) == [expected]


def test_iso_reads_an_offset_without_colon() -> None:
    formula = {"type": "epoc", "source": "t", "format": "iso"}
    assert one(formula, {"t": ["2020-01-01 00:00:00+0100"]}) == [1577833200000]


def test_iso_reads_the_epoch_itself_as_zero_and_not_as_unreadable() -> None:
    formula = {"type": "epoc", "source": "t", "format": "iso"}
    assert one(formula, {"t": ["1970-01-01T00:00:00 UTC", "1970-01-01T00:00:00Z"]}) == [28800000, 0]
    assert one(formula, {"t": ["1970-01-01T00:00:00UTC"]}) == [0]


def test_iso_cuts_digits_after_the_third_before_1970_too() -> None:
    formula = {"type": "epoc", "source": "t", "format": "iso"}
    texts = ["2020-01-01T00:00:00.123999Z", "1969-12-31T23:59:59.999900Z"]
    assert one(formula, {"t": texts}) == [1577836800123, -1]


def test_iso_uses_the_formulas_zone_only_where_the_text_has_none() -> None:
    formula = {"type": "epoc", "source": "t", "format": "iso", "timezone": "Asia/Kolkata"}
    texts = ["2020-01-01T00:00:00", "2020-01-01T00:00:00+00:00", "2020-01-01"]
    assert one(formula, {"t": texts}) == [1577817000000, 1577836800000, 1577817000000]


def test_digits_that_fill_no_long_are_no_time() -> None:
    assert one({"type": "epoc", "source": "t"}, {"t": ["1" * 5000, "5"]}) == [0, 5]


def test_iso_takes_the_earlier_instant_of_an_overlap() -> None:
    formula = {"type": "epoc", "source": "t", "format": "iso"}
    assert one(formula, {"t": ["2021-11-07 01:30:00"]}) == [1636273800000]


def test_iso_falls_back_to_the_date_of_the_first_ten_characters() -> None:
    formula = {"type": "epoc", "source": "t", "format": "iso", "timezone": "UTC"}
    assert one(formula, {"t": ["2020-01-01 about noon", "2020-01-02"]}) == [
        1577836800000,
        1577923200000,
    ]


def test_iso_refuses_durations_and_says_where_without_the_value() -> None:
    formula = {"type": "epoc", "source": "t", "format": "iso"}
    with pytest.raises(ConversionError) as caught:
        one(formula, {"t": ["2020-01-01", "P12D"]})
    assert '"x", row 2' in caught.value.message
    assert "P12D" not in caught.value.message
    assert '"a99a"' in caught.value.message


def test_a_pattern_sees_the_text_cut_to_its_own_length_with_quotes_counted() -> None:
    formula = {"type": "epoc", "source": "t", "format": "yyyy-MM-dd'T'HH:mm:ss", "timezone": "UTC"}
    # 21 characters are kept: the fraction does not fit, so the text is read as iso.
    assert one(formula, {"t": ["2020-01-01T08:00:00.5"]}) == [1577865600500]
    assert one(formula, {"t": ["2020-01-01T08:00:00"]}) == [1577865600000]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("d/M/yyyy", "31/12/2024"),
        ("M/d/yyyy", "12/31/2024 1:00"),
        ("yyyy-MM-d", "2024-12-31"),
        ("MMMM d, yyyy", "December 31, 2024"),
        ("MMM d y", "Dec 31 2024, a Tuesday"),
    ],
)
def test_a_field_of_a_pattern_is_never_cut(form: str, text: str) -> None:
    formula = {"type": "epoc", "source": "t", "format": form, "timezone": "UTC"}
    assert one(formula, {"t": [text, None]}) == [1735603200000, None]


def test_a_pattern_that_fails_is_tried_as_iso() -> None:
    formula = {"type": "epoc", "source": "t", "format": "dd.MM.yyyy", "timezone": "UTC"}
    assert one(formula, {"t": ["01.01.2020", "2020-01-01T00:00:00Z"]}) == [1577836800000] * 2


@pytest.mark.parametrize("text", ["2020-02-30 00:00:00", "2020-13-01 00:00:00"])
def test_a_date_that_does_not_exist_is_refused_not_moved(text: str) -> None:
    formula = {"type": "epoc", "source": "t", "format": "yyyy-MM-dd HH:mm:ss", "timezone": "UTC"}
    with pytest.raises(ConversionError):
        one(formula, {"t": ["2020-02-28 00:00:00", text]})


def test_epoc_without_a_format_takes_integers_and_gives_zero_otherwise_with_a_warning() -> None:
    texts = ["1577836800000", "+5", "-7", "1.5", "", "9223372036854775808", "0"]
    job = chain(derived_fields=[derived("x", type="epoc", source="t")])
    (batch,) = job.convert(pa.record_batch({"t": texts}), facts())
    assert batch.column("x").to_pylist() == [1577836800000, 5, -7, 0, 0, 0, 0]
    assert job.warnings == 3


def test_epoc_takes_numbers_and_instants_of_databases_as_they_are() -> None:
    instant = pa.array([1577836800123456, -1], pa.timestamp("us", tz="UTC"))
    assert one({"type": "epoc", "source": "t"}, {"t": [12, -3]}) == [12, -3]
    for form in ("", "iso", "yyyy-MM-dd"):
        formula = {"type": "epoc", "source": "t", "format": form}
        assert one(formula, pa.record_batch({"t": instant})) == [1577836800123, -1]


def test_a_pattern_that_reads_no_text_says_why() -> None:
    formula = {"type": "epoc", "source": "t", "format": "xxxx-'W'ww"}
    assert one({**formula, "timezone": "UTC"}, {"t": ["2020-01-01"]}) == [1577836800000]
    with pytest.raises(ConversionError) as caught:
        one(formula, {"t": ["2020-W01"]})
    assert compile_pattern("xxxx-'W'ww").unreadable in caught.value.message


def test_a_two_digit_year_has_the_century_that_the_runs_now_gives_it() -> None:
    formula = {"type": "epoc", "source": "t", "format": "MM/dd/yy", "timezone": "UTC"}
    texts = ["01/01/39 08:30", "01/01/40", "1/1/2040"]
    assert one(formula, {"t": texts}) == [2177452800000, -946771200000, 2208988800000]


def test_current_date_is_the_runs_now_and_days_ago_is_midnight_of_the_zone() -> None:
    rows = {"a": [1, 2]}
    assert one({"type": "epoc", "source": "CurrentDate"}, rows) == [NOW, NOW]
    # 2020-01-15T10:30:00Z is 02:30 in Los Angeles.
    assert one({"type": "epoc", "source": "P0D"}, rows) == [1579075200000] * 2
    assert one({"type": "epoc", "source": "P1D", "timezone": "UTC"}, rows) == [1578960000000] * 2


@pytest.mark.parametrize("source", ["CURRENTDATE", "P1D"])
@pytest.mark.parametrize("form", ["yyyy-MM-dd", "iso"])
def test_a_format_does_not_change_a_point_in_time(source: str, form: str) -> None:
    formula = {"type": "epoc", "source": source}
    rows = {"t": [1, 2]}
    assert one({**formula, "format": form}, rows) == one(formula, rows)


def test_a_format_reads_the_text_that_a_response_has_under_the_name_of_a_point_in_time() -> None:
    formula = {"type": "epoc", "source": "currentDate", "format": "d.M.yyyy", "timezone": "UTC"}
    root = {"currentDate": "1.1.2020"}
    assert one(formula, {"a": [1, 2]}, root=root, data_field="items") == [1577836800000] * 2
    assert one(formula, {"a": [1, 2]}, root={}, data_field="items") == [NOW, NOW]


@pytest.mark.parametrize("source", ["CURRENTDATE", "P1D"])
@pytest.mark.parametrize("kind", ["string", "regexp", "int", "number", "boolean"])
def test_a_point_in_time_can_only_be_epoc(source: str, kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chain(derived_fields=[derived("x", type=kind, source=source)])
    assert caught.value.problems[0].key == "ms.derived.fields"


def test_a_variable_gives_its_value_and_one_without_value_the_literal_text() -> None:
    variables = {"id": "17", "flag": True, "list": [1, Decimal("2.50")], "n": 3}
    rows = {"a": [1, 2]}
    for name, expected in (("id", "17"), ("flag", "true"), ("list", "[1,2.50]"), ("n", "3")):
        formula = {"type": "string", "source": "{{" + name + "}}"}
        assert one(formula, rows, variables=variables) == [expected] * 2
    assert one({"type": "string", "source": "{{gone}}"}, rows) == ["{{gone}}"] * 2
    assert one({"type": "int", "source": "{{id}}"}, rows, variables=variables) == [17, 17]


def test_a_constant_needs_no_source() -> None:
    assert one({"type": "string", "value": "eu"}, {"a": [1, 2]}) == ["eu", "eu"]
    assert one({"type": "boolean", "value": "TRUE"}, {"a": [1]}) == [True]


def test_text_of_numbers_booleans_records_and_lists() -> None:
    nested = pa.array(
        [{"b": [1, None], "c": "é"}], pa.struct([("b", pa.list_(pa.int32())), ("c", pa.string())])
    )
    batch = pa.record_batch(
        {
            "i": [7],
            "d": [2.0],
            "f": [0.1],
            "t": [True],
            "n": nested,
            "e": pa.array([Decimal("1.50")]),
        }
    )
    expected = {
        "i": "7",
        "d": "2",
        "f": "0.1",
        "t": "true",
        "n": '{"b":[1,null],"c":"é"}',
        "e": "1.50",
    }
    for column, text in expected.items():
        assert one({"type": "string", "source": column}, batch) == [text]


def test_paths_reach_into_records_lists_and_maps() -> None:
    records = pa.array(
        [{"b": [{"c": "x"}]}, {"b": []}, None],
        pa.struct([("b", pa.list_(pa.struct([("c", pa.string())])))]),
    )
    maps = pa.array([[("k", "1")], [], None], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch({"a": records, "m": maps})
    assert one({"type": "string", "source": "a.b.0.c"}, batch) == ["x", None, None]
    assert one({"type": "string", "source": "m.k"}, batch) == ["1", None, None]
    for missing in ("a.z", "a.b.c", "nope", "a.b.0.c.d"):
        assert one({"type": "string", "source": missing}, batch) == [None, None, None]


def test_a_null_source_gives_null_or_the_formulas_value() -> None:
    rows = pa.record_batch({"s": pa.array(["5", None])})
    assert one({"type": "int", "source": "s"}, rows) == [5, None]
    assert one({"type": "int", "source": "s", "value": "-1"}, rows) == [5, -1]
    assert one({"type": "string", "source": "gone", "value": "none"}, rows) == ["none"] * 2


def test_a_regular_expression_is_searched_anywhere_and_gives_group_one() -> None:
    rows = {"s": ["/exports/ab12", "nothing", "/exports/ab12"]}
    formula = {"type": "regexp", "source": "s", "format": "/exports/([0-9a-f-]+)$"}
    assert one(formula, rows) == ["ab12", "no match", "ab12"]
    assert one({"type": "regexp", "source": "s", "format": "[a-z]+"}, rows)[:2] == [
        "exports",
        "nothing",
    ]
    assert one({"type": "regexp", "source": "s"}, rows) == rows["s"]


def test_booleans_are_true_in_any_case_and_empty_text_fails() -> None:
    assert one({"type": "boolean", "source": "s"}, {"s": ["TrUe", "yes", "false"]}) == [
        True,
        False,
        False,
    ]
    with pytest.raises(ConversionError, match="row 2"):
        one({"type": "boolean", "source": "s"}, {"s": ["true", ""]})


@pytest.mark.parametrize("kind", ["int", "integer"])
def test_integers_have_32_bits(kind: str) -> None:
    texts = ["+5", "-2147483648", "2147483647"]
    assert one({"type": kind, "source": "s"}, {"s": texts}) == [5, -(2**31), 2**31 - 1]
    for bad in ("2147483648", "5.0", "0x1F", " 5", ""):
        with pytest.raises(ConversionError):
            one({"type": kind, "source": "s"}, {"s": ["1", bad]})


def test_numbers_are_doubles() -> None:
    assert one({"type": "number", "source": "s"}, {"s": ["1e5", "+.5", " 7 "]}) == [1e5, 0.5, 7.0]
    with pytest.raises(ConversionError):
        one({"type": "number", "source": "s"}, {"s": ["1", "seven"]})


def test_the_root_of_the_response_wins_only_when_a_data_field_is_set() -> None:
    root = {"meta": "root", "a": None}
    rows = {"meta": ["row"], "a": ["own"]}
    formula = {"type": "string", "source": "meta"}
    assert one(formula, rows, root=root) == ["row"]
    assert one(formula, rows, root=root, data_field="items") == ["root"]
    null = {"type": "string", "source": "a"}
    assert one(null, rows, root=root, data_field="items") == [None]
    assert one({**null, "value": "v"}, rows, root=root, data_field="items") == ["v"]
    assert one({"type": "string", "source": "b"}, rows, root={}, data_field="items") == [None]


def test_columns_are_appended_in_list_order_with_their_types() -> None:
    fields = [
        derived("e", type="epoc", source="CURRENTDATE"),
        derived("n", type="number", source="s"),
        derived("b", type="boolean", source="s", value="false"),
        derived("i", type="integer", value="1"),
        derived("r", type="regexp", source="{{v}}"),
    ]
    batch = convert(pa.record_batch({"s": ["1"]}), derived_fields=fields)
    assert [(f.name, f.type, type_word(f), f.nullable) for f in batch.schema][1:] == [
        ("e", pa.int64(), "long", False),
        ("n", pa.float64(), "double", True),
        ("b", pa.bool_(), "boolean", False),
        ("i", pa.int32(), "int", False),
        ("r", pa.string(), "string", False),
    ]


def test_a_field_does_not_see_another_derived_field() -> None:
    fields = [derived("a", type="string", value="new"), derived("b", type="string", source="a")]
    assert convert(pa.record_batch({"a": ["old"]}), derived_fields=fields).to_pylist() == [
        {"a": "new", "b": "old"}
    ]
    assert convert(pa.record_batch({"z": ["old"]}), derived_fields=fields).to_pylist() == [
        {"z": "old", "a": "new", "b": None}
    ]


def test_a_declared_column_keeps_its_place_and_type_and_takes_the_derived_value() -> None:
    from dil.model.schema import Column, Primitive

    schema = (
        Column("at", Primitive("timestamp"), nullable=False),
        Column("id", Primitive("string")),
    )
    fields = [derived("AT", type="epoc", source="CURRENTDATE")]
    batch = convert([{"at": None, "id": "1"}], schema=schema, derived_fields=fields)
    assert batch.schema.names == ["at", "id"]
    assert batch.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert batch.column("at").cast(pa.int64()).to_pylist() == [NOW * 1000]


def test_a_regular_expression_java_would_refuse_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        chain(derived_fields=[derived("x", type="regexp", source="s", format="(")])
    with pytest.raises(ConfigError):
        chain(derived_fields=[derived("x", type="epoc", source="s", format="bbb")])
