"""CSV as rows (docs/formats.md)."""

import gzip
import io
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest

from dil.errors import ConversionError, SourceContractError
from dil.extraction.csv.columns import BECAME_TEXT, RAGGED, SHORT
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.csv.failures import DROPPED
from dil.model.arrow import raw_schema, type_word
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.schema import Column, EnumType, Primitive
from dil.model.settings import SchemaCleansing
from dil.spi.connector import Response

REF = ClassRef("m", "c")


def response(body, content_type="text/csv", *, checks=True):
    data = body.encode() if isinstance(body, str) else body
    return Response(
        io.BytesIO(data),
        content_type=content_type,
        checks_content_type=checks,
        location="https://h/x",
    )


def extractor(*columns, made_up=(), order=(), spec=None, **csv):
    settings = CsvSpec(CsvSettings(**csv), frozenset(made_up), tuple(order))
    return CsvExtractor(
        ExtractionSpec(REF, output_schema=columns or None, csv=settings, **(spec or {}))
    )


def rows_of(page):
    return [row for batch in page.batches for row in batch.to_pylist()]


def read(body, *columns, **more):
    return rows_of(extractor(*columns, **more).extract(response(body)))


def cells(body, **more):
    """Read text without header and types: the cells of each row."""
    return [list(row.values()) for row in read(body, default_field_type="string", **more)]


def column(name, kind="string", *, nullable=True, **more):
    return Column(name, kind if not isinstance(kind, str) else Primitive(kind, **more), nullable)


def one(cell, kind, **more):
    return read(f"{cell}\n", column("a", kind, **more))[0]["a"]


def types_of(body, **more):
    *_, last = extractor(**more).extract(response(body)).batches
    return {field.name: type_word(field) for field in last.schema}


# Decoding


def test_a_quoted_cell_may_hold_separators_line_breaks_and_doubled_quotes():
    assert cells('"a,b","c\r\nd","e""f"\n') == [["a,b", "c\r\nd", 'e"f']]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"a\b", ["ab"]),
        (r"a\\b", [r"a\b"]),
        (r'"a\nb"', ["anb"]),
        (r"\,x", [None, "x"]),
        (r'"a\"b"', ['a"b']),
        (r"\"a,b\"", ['"a', 'b"']),
        ("a\\", ["a"]),
    ],
)
def test_an_escape_makes_quotes_and_escapes_literal_and_is_dropped_before_others(text, wanted):
    assert cells(f"{text}") == [wanted]


def test_blanks_around_cells_are_kept():
    assert cells(" a , b\n") == [[" a ", " b"]]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_cr_lf_and_crlf_end_a_record_and_the_last_one_needs_no_end(end):
    assert cells(f"a,b{end}c,d") == [["a", "b"], ["c", "d"]]
    assert cells(f"a,b{end}c,d{end}") == [["a", "b"], ["c", "d"]]


def test_a_blank_line_is_a_row_with_one_empty_cell():
    assert cells("a\n\nb\n") == [["a"], [None], ["b"]]
    rows = read("x,y\n1,2\n\n3,4\n", column("x", "int"), column("y", "int"), column_header_index=0)
    assert rows == [{"x": 1, "y": 2}, {"x": None, "y": None}, {"x": 3, "y": 4}]


def test_a_quote_that_is_never_closed_fails():
    with pytest.raises(SourceContractError, match=r"https://h/x, page 1: a quote .* never closed"):
        cells('a,b\nc,"d\ne,f\n')


def test_a_quote_inside_a_cell_is_a_character_like_others():
    assert cells('5" pipe,a"b"c\n') == [['5" pipe', 'a"b"c']]


def test_separator_quote_and_escape_can_be_any_characters_or_none():
    tab = {"field_separator": "\t", "quote_character": "'", "escape_character": "^"}
    assert cells("'a\tb'\tc^'d\n", **tab) == [["a\tb", "c'd"]]
    wide = {"field_separator": "§", "quote_character": "«", "escape_character": ""}
    assert cells("«a§b«§«c««d«§\\\n", **wide) == [["a§b", "c«d", "\\"]]
    bare = {"field_separator": ";", "quote_character": "", "escape_character": ""}
    assert cells('"a;b";c\\\n', **bare) == [['"a', 'b"', "c\\"]]


def test_byte_order_marks_and_other_character_sets_are_read():
    assert cells("\ufeffé,b\n") == [["é", "b"]]
    for charset in ("windows-1252", "utf-16"):
        reader = extractor(default_field_type="string", spec={"charset": charset})
        page = reader.extract(response("é;€,b\n".encode(charset)))
        assert rows_of(page) == [{"col0": "é;€", "col1": "b"}]


@pytest.mark.parametrize("body", [b"a,\xe9\n", b"a,\xff\n", b"a,\\\xfc\n", b'"a\xff\n"\n'])
def test_text_in_another_character_set_fails(body):
    with pytest.raises(SourceContractError, match="is not UTF-8 text"):
        cells(body)


@pytest.mark.parametrize("kind", ["text/csv", ""])
@pytest.mark.parametrize("body", ["<html><body>Log in</body>", "\ufeff \n<!DOCTYPE HTML>\n<p>"])
def test_a_web_page_is_no_header_without_rows(kind, body):
    reader = extractor(column_header_index=0)
    with pytest.raises(SourceContractError):
        rows_of(reader.extract(response(body, kind)))
    assert rows_of(extractor().extract(response(body, kind, checks=False)))  # a file


# Lines at the top


def test_the_lines_to_skip_and_the_header_are_skipped_in_every_response():
    reader = extractor(lines_to_skip=3, column_header_index=1)
    body = "report\nid,name\n---\n1,a\n"
    for _ in range(2):
        assert rows_of(reader.extract(response(body))) == [{"id": 1, "name": "a"}]


def test_skipped_lines_are_records_with_their_quotes():
    assert read('"a\nb"\nid\n7\n', column_header_index=1) == [{"id": 7}]


@pytest.mark.parametrize("body", ["", "id,name", "id,name\n"])
def test_a_response_without_rows_gives_none(body):
    page = extractor(column_header_index=0).extract(response(body))
    assert rows_of(page) == []
    assert page.rows == 0


# Without a schema


@pytest.mark.parametrize(
    ("cell", "word", "value"),
    [
        ("007", "int", 7),
        ("-5", "int", -5),
        ("2147483648", "long", 2147483648),
        ("9223372036854775808", "decimal", Decimal(9223372036854775808)),
        ("1e5", "double", 1e5),
        ("1.0", "double", 1.0),
        ("+5", "double", 5.0),
        ("12345678901234567.25", "decimal", Decimal("12345678901234567.25")),
        ("1" * 39, "string", "1" * 39),
        ("TRUE", "boolean", True),
        ("12d", "string", "12d"),
        ("NaN", "string", "NaN"),
        ("0x1p3", "string", "0x1p3"),
        ("0x1A", "string", "0x1A"),
        ('"1,234"', "string", "1,234"),
        (" 5", "string", " 5"),
        ("", "string", None),
        ("null", "string", None),
    ],
)
def test_a_cell_gives_the_first_type_that_it_parses_as(cell, word, value):
    assert types_of(f"{cell}\n") == {"col0": word}
    assert read(f"{cell}\n") == [{"col0": value}]


def test_types_widen_over_the_rows_and_an_empty_cell_says_nothing():
    assert types_of("1,1,1,true,\n2.5,x,,false,7\n") == {
        "col0": "double",
        "col1": "string",
        "col2": "int",
        "col3": "boolean",
        "col4": "int",
    }


def test_a_column_of_booleans_may_have_empty_cells_anywhere():
    assert types_of("true,1\n,2\nFALSE,3\n") == {"col0": "boolean", "col1": "int"}
    assert types_of(",1\n" * 100 + "true,\n2,x\n") == {"col0": "string", "col1": "string"}


def test_text_keeps_its_digits_when_another_cell_of_the_page_is_no_number():
    assert read("007\nx\n") == [{"col0": "007"}, {"col0": "x"}]


def test_types_widen_over_pages_and_columns_are_appended():
    reader = extractor(column_header_index=0)
    first = reader.extract(response("a,b\n1,2\n"))
    assert rows_of(first) == [{"a": 1, "b": 2}]
    second = reader.extract(response("a,c\n2.5,x\n"))
    (batch,) = second.batches
    assert batch.to_pylist() == [{"a": 2.5, "b": None, "c": "x"}]
    assert [type_word(f) for f in batch.schema] == ["double", "int", "string"]
    assert (first.notes, second.notes) == ((), ())


def test_a_column_that_becomes_text_on_a_later_page_is_noted():
    reader = extractor()
    rows_of(reader.extract(response("007\n")))
    page = reader.extract(response("x\n"))
    assert rows_of(page) == [{"col0": "x"}]
    assert page.notes == (BECAME_TEXT,)


def test_decimals_and_doubles_of_a_column_both_keep_all_their_places():
    rows = read("0.1\n12345678901234567.125\n")
    assert rows == [{"col0": Decimal("0.100")}, {"col0": Decimal("12345678901234567.125")}]


def test_a_record_of_another_length_than_the_header_has_numbered_columns():
    page = extractor(column_header_index=0).extract(response("a,b\n1,2\n3\n"))
    assert rows_of(page) == [
        {"a": 1, "b": 2, "col0": None},
        {"a": None, "b": None, "col0": 3},
    ]
    assert page.notes == (RAGGED,)


def test_without_a_header_every_cell_is_numbered():
    assert read("1,x\n2\n") == [{"col0": 1, "col1": "x"}, {"col0": 2, "col1": None}]


def test_the_default_type_of_fields_is_forced_on_all_cells():
    assert read("1,2\n", default_field_type="string") == [{"col0": "1", "col1": "2"}]
    assert types_of("1,2.5\n", default_field_type="double") == {"col0": "double", "col1": "double"}
    for word in ("int", "long", "float", "boolean"):
        assert types_of("1\n", default_field_type=word) == {"col0": word}


@pytest.mark.parametrize("cell", ["x", "5.9", "12d"])
def test_a_cell_that_does_not_parse_as_the_forced_type_fails_the_task(cell):
    with pytest.raises(ConversionError) as caught:
        read(f"1\n{cell}\n", default_field_type="int")
    assert caught.value.message.startswith('column "col0", row 2 of page 1: a text of')
    assert caught.value.message.endswith("is no int")


def test_the_default_type_of_one_column_wins():
    spec = {"default_types": (("a", "string"),)}
    body = "a,b\n007,1\n"
    assert read(body, spec=spec, column_header_index=0) == [{"a": "007", "b": 1}]
    assert read(body, spec=spec, column_header_index=0, default_field_type="long") == [
        {"a": "007", "b": 1}
    ]


# Header names


def test_header_names_are_cleansed_with_the_pattern_for_all_names():
    spec = {"cleansing": SchemaCleansing()}
    rows = read("first name,$price,at@home\na,1,b\n", spec=spec, column_header_index=0)
    assert rows == [{"first_name": "a", "_price": 1, "at_home": "b"}]
    rows = read("first name\na\n", column("first_name"), spec=spec, column_header_index=0)
    assert rows == [{"first_name": "a"}]


def test_header_names_that_become_equal_fail_and_so_do_equal_names():
    for header, spec in (("a b,a$b", {"cleansing": SchemaCleansing()}), ("a,a", {})):
        with pytest.raises(SourceContractError):
            read(f"{header}\n1,2\n", spec=spec, column_header_index=0)


def test_a_blank_header_cell_gives_a_numbered_column():
    assert read("a,\n1,2\n", column_header_index=0) == [{"a": 1, "col1": 2}]


# With a schema


def test_a_projection_picks_cells_by_position_in_its_order_and_beats_the_header():
    columns = column("x"), column("y"), column("z")
    rows = read("x,y,z\na,b,c\n", *columns, column_projection="2,0-1", column_header_index=0)
    assert rows == [{"x": "c", "y": "a", "z": "b"}]


def test_a_projected_position_beyond_the_row_gives_an_empty_cell():
    assert read("a\n", column("x"), column("y"), column_projection="0,7") == [{"x": "a", "y": None}]


def test_with_a_header_columns_are_picked_by_name_in_any_case_and_in_schema_order():
    rows = read("B,c,A\n1,2,3\n", column("a", "int"), column("b", "int"), column_header_index=0)
    assert rows == [{"a": 3, "b": 1}]


def test_names_are_looked_up_again_in_the_header_of_each_response():
    reader = extractor(column("a"), column("b"), column_header_index=0)
    assert rows_of(reader.extract(response("a,b\n1,2\n"))) == [{"a": "1", "b": "2"}]
    assert rows_of(reader.extract(response("b,a\n2,1\n"))) == [{"a": "1", "b": "2"}]


def test_a_header_without_a_column_is_an_error_unless_the_column_is_nullable():
    assert read("b\n1\n", column("a"), column("b"), column_header_index=0) == [
        {"a": None, "b": "1"}
    ]
    with pytest.raises(SourceContractError, match='no column "a"'):
        read("b\n1\n", column("a", nullable=False), column("b"), column_header_index=0)


def test_columns_of_derived_fields_are_left_out_by_name_wherever_they_stand():
    columns = column("a"), column("when", "long", nullable=False), column("b")
    wanted = [{"a": "1", "when": None, "b": "2"}]
    assert read("1,2\n", *columns, made_up={"when"}) == wanted
    assert read("b,a\n2,1\n", *columns, made_up={"when"}, column_header_index=0) == wanted
    assert read("2,x,1\n", *columns, made_up={"when"}, column_projection="2,0") == wanted


def test_a_header_that_names_a_column_twice_fails_unless_one_is_exact():
    assert read("A,a\n1,2\n", column("a"), column_header_index=0) == [{"a": "2"}]
    with pytest.raises(SourceContractError, match='"a" 2 times'):
        read("a,a\n1,2\n", column("a"), column_header_index=0)


def test_without_header_and_projection_the_first_cells_count_and_missing_ones_are_null():
    assert read("1,2,3\n4\n", column("a"), column("b")) == [
        {"a": "1", "b": "2"},
        {"a": "4", "b": None},
    ]


def test_a_record_longer_than_the_header_fails_and_a_shorter_one_is_noted():
    reader = extractor(column("a"), column("b"), column_header_index=0)
    page = reader.extract(response("a,b\n1,2\n3\n"))
    assert rows_of(page)[1] == {"a": "3", "b": None}
    assert page.notes == (SHORT,)
    with pytest.raises(ConversionError, match="row 2 of page 1: the record has 3 cells, not 2"):
        read("a,b\n1,2\n3,4,5\n", column("a"), column("b"), column_header_index=0)


def test_without_filtering_by_schema_there_is_one_cell_for_each_column():
    columns = column("a"), column("when"), column("b")
    more = {"made_up": {"when"}, "spec": {"filters_by_schema": False}}
    rows = read("x,y\n1,2\n", *columns, column_header_index=0, **more)
    assert rows == [{"a": "1", "when": None, "b": "2"}]
    for body in ("1,2\n3\n", "1,2\n3,4,5\n"):
        with pytest.raises(
            ConversionError, match=r"row 2 of page 1: the record has . cells, not 2"
        ):
            read(body, *columns, **more)


def test_the_custom_order_picks_the_cell_of_each_column_and_null_for_negatives():
    columns = column("a"), column("b"), column("c")
    assert read("1,2,3\n", *columns, order=(2, -1, 0)) == [{"a": "3", "b": None, "c": "1"}]


# Cells as values


def test_empty_cells_and_the_text_null_are_null_in_every_column():
    for word in ("string", "int", "double", "boolean", "date"):
        assert one("", word) is None
        assert one('""', word) is None
        assert one("NuLL", word) is None


def test_null_texts_can_be_kept_and_empty_cells_stay_null():
    rows = read('null,""\n', column("a"), column("b"), keep_null_string=True)
    assert rows == [{"a": "null", "b": None}]


@pytest.mark.parametrize(
    ("cell", "word", "value"),
    [
        ("5.9", "int", 5),
        ("-5.9", "int", -5),
        ("1e3", "int", 1000),
        (" 5 ", "int", 5),
        ("9007199254740993", "long", 9007199254740993),
        ("9007199254740993.7", "long", 9007199254740993),
        ("1.5", "float", 1.5),
        ("+.5", "double", 0.5),
        ("TRUE", "boolean", True),
        ("yes", "boolean", False),
        ("5.9", "string", "5.9"),
        ("2020-01-01", "date", "2020-01-01"),
        ("12:00", "time", "12:00"),
        ("2020-01-01 00:00:00", "timestamp", "2020-01-01 00:00:00"),
        ("abc", "bytes", "abc"),
    ],
)
def test_a_cell_becomes_a_value_of_its_columns_type(cell, word, value):
    assert one(cell, word) == value


def test_decimals_are_exact_and_enums_stay_text():
    assert one("1.10", "decimal", precision=5, scale=2) == Decimal("1.10")
    assert one("1.100", "decimal", precision=5, scale=2) == Decimal("1.10")
    assert one("0.00", "decimal", precision=2, scale=2) == 0
    assert one("NEW", EnumType("e", ("NEW",))) == "NEW"


@pytest.mark.parametrize(
    ("cell", "word"),
    [
        ("x", "int"), ("2147483648", "int"), ("12d", "long"), ("1e99", "long"), ("0x1A", "long"),
        ("nan", "double"), ("1e999", "double"), ("1e300", "float"), ("1,5", "double"),
        ("1.234", "decimal"), ("1e999999999", "int"),
    ],
)  # fmt: skip
def test_a_cell_without_a_value_of_its_type_fails_with_row_column_and_shape(cell, word):
    with pytest.raises(ConversionError) as caught:
        read(f'1\n"{cell}"\n', column("a", word, **({"scale": 2} if word == "decimal" else {})))
    assert caught.value.message.startswith('column "a", row 2 of page 1: a text of')
    assert caught.value.message.endswith(f"is no {word}")
    assert "maxFailures" in caught.value.fix


def test_messages_show_the_shape_of_a_cell_and_not_the_cell():
    with pytest.raises(ConversionError) as caught:
        one("s3cret-77", "int")
    assert '("a9aaaa-99")' in caught.value.message
    assert "s3cret" not in caught.value.message


def test_up_to_max_failures_rows_are_dropped_and_one_more_fails():
    body = "1,1\nx,x\n2,2\ny,2\n"
    columns = column("a", "int"), column("b", "int")
    reader = extractor(*columns, max_failures=2)
    page = reader.extract(response(body))
    assert rows_of(page) == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    assert page.rows == 4
    assert page.notes == (DROPPED,)
    with pytest.raises(ConversionError, match=r"row 1 of page 2.*failure 3; 2 are tolerated"):
        rows_of(reader.extract(response("z,1\n")))


# Responses


@pytest.mark.parametrize("kind", ["text/csv", "application/csv", ""])
def test_content_types_of_csv_and_none_at_all_are_accepted(kind):
    assert rows_of(extractor().extract(response("1\n", kind))) == [{"col0": 1}]


def test_other_content_types_fail_unless_the_job_names_them():
    with pytest.raises(SourceContractError):
        extractor().extract(response("1\n", "text/html"))
    reader = extractor(spec={"extra_content_types": ("text/plain",)})
    assert rows_of(reader.extract(response("1\n", "text/plain"))) == [{"col0": 1}]


def test_a_packed_body_is_unpacked_when_its_type_says_so():
    packed = gzip.compress(b"1,a\n") + gzip.compress(b"2,b\n")
    rows = [{"col0": 1, "col1": "a"}, {"col0": 2, "col1": "b"}]
    assert rows_of(extractor().extract(response(packed, "application/gzip"))) == rows
    plain = response("1,a\n2,b\n", "application/gzip")
    assert rows_of(extractor().extract(plain)) == rows


def test_a_packed_body_that_is_cut_off_or_damaged_fails():
    packed = gzip.compress(b"1,a\n" * 1000)
    damaged = packed[:20] + b"\0\0" + packed[22:]
    for body, wrong in ((packed[:-10], "ends too early"), (damaged, "is damaged")):
        with pytest.raises(
            SourceContractError, match=f"https://h/x, page 1: the gzip data {wrong}"
        ):
            rows_of(extractor().extract(response(body, "application/gzip")))


def test_nothing_can_be_looked_up_in_a_response():
    assert extractor().extract(response("1\n")).lookup("a") is MISSING


def test_a_response_without_a_body_gives_no_row():
    assert rows_of(extractor().extract(Response(body=None))) == []


class Pieces(io.RawIOBase):
    """A body that is made while it is read, and counts what was taken and whether it is closed."""

    def __init__(self, line, lines):
        self.line, self.left, self.taken = line, lines, 0

    def read(self, size=-1):
        count = min(self.left, max(1, min(size, 100_000) // len(self.line)))
        self.left -= count
        self.taken += count * len(self.line)
        return self.line * count


def test_a_large_body_is_read_piece_by_piece_and_closed_at_its_end():
    body = Pieces(b"12345,some text\n", 1_000_000)
    page = extractor().extract(Response(body))
    assert body.taken == 0
    first = next(page.batches)
    assert first.num_rows == 65_536
    assert body.taken < 9 * 1024 * 1024
    assert sum(batch.num_rows for batch in page.batches) + first.num_rows == 1_000_000
    assert page.rows == 1_000_000
    assert body.closed


def lines_with_breaks(count, *, every):
    """Return records of which each n-th holds line breaks and quotes in a cell."""
    breaks = '"first\nsecond,""third""\r\n"'
    return "".join(
        f"{number},{breaks if number % every == 0 else 'note'},end\n" for number in range(count)
    )


@pytest.mark.parametrize("every", [1, 7, 100_000])
def test_records_with_line_breaks_are_whole_wherever_the_pieces_of_a_large_body_end(every):
    count = 200_000
    columns = column("id", "long"), column("note"), column("end")
    body = lines_with_breaks(count, every=every)
    ids, notes = [], set()
    for batch in extractor(*columns).extract(response(body)).batches:
        ids += batch.column("id").to_pylist()
        notes |= set(batch.column("note").unique().to_pylist())
        assert batch.column("end").unique().to_pylist() == ["end"]
    assert ids == list(range(count))
    assert notes <= {"note", 'first\nsecond,"third"\r\n'}


@pytest.mark.slow
def test_records_of_other_lengths_and_blank_lines_are_found_deep_in_a_large_body():
    lines = ["1,a\n"] * 1_500_000
    lines[1_000_000], lines[1_200_000], lines[700_000] = "\n", '2,"x\n"\n', "3\n"
    reader = extractor(column("n", "int"), column("t"))
    counted = Counter()
    for batch in reader.extract(response("".join(lines))).batches:
        counted.update(zip(*batch.to_pydict().values(), strict=True))
    assert counted == {(1, "a"): 1_499_997, (None, None): 1, (2, "x\n"): 1, (3, None): 1}


def test_given_batches_have_the_raw_schema_to_the_letter():
    columns = column("a", "date"), column("b", "long")
    page = extractor(*columns).extract(response("x,1\n"))
    batch = next(page.batches)
    assert batch.schema.equals(raw_schema(columns), check_metadata=True)
    assert batch.schema.field("a").type == pa.string()


@pytest.mark.parametrize("cell", ["007", "1.50", "1e0", "TRUE", "12345678901234567.1"])
def test_a_column_that_the_dataset_has_as_text_keeps_the_text_of_its_cells(cell):
    known = {"text_columns": frozenset({"a"})}
    assert read(f"a\n{cell}\n", column_header_index=0, spec=known) == [{"a": cell}]


@pytest.mark.parametrize("cell", ["123e4567890123456789012", "1e-9999999999999999999"])
def test_a_cell_that_only_looks_like_a_number_is_text_and_fits_no_integer(cell):
    assert read(f"a\n{cell}\n", column_header_index=0) == [{"a": cell}]
    with pytest.raises(ConversionError):
        one(cell, "long")


def test_cells_of_a_key_are_numbers_only_where_each_is_the_text_of_its_number():
    """Rows of 7 and of 007 are two."""
    key = {"primary_keys": ("a",)}
    for texts in (
        ["7", "007"],
        ["1.5", "1.50"],
        ["true", "TRUE"],
        ["12345678901234567.1", "12345678901234567.10"],
        ["1e+15", "1.5"],
    ):
        body = "\n".join(["a", *texts, ""])
        assert read(body, column_header_index=0, spec=key) == [{"a": text} for text in texts]
    assert read("a\n7\n-8\n", column_header_index=0, spec=key) == [{"a": 7}, {"a": -8}]
    assert read("a\n1.5\n", column_header_index=0, spec=key) == [{"a": 1.5}]
    big = 2**70
    assert read(f"a\n{big}\n", column_header_index=0, spec=key) == [{"a": Decimal(big)}]
