"""Laws of delimited text: every path reads what a state machine reads."""

from __future__ import annotations

import io
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dil.errors import SourceContractError
from dil.extraction.csv.cells import CellReader
from dil.extraction.csv.dialect import CsvDialect
from dil.extraction.csv.records import CsvBlock, RecordBlocks
from dil.extraction.csv.values import measured, observed, values_of
from dil.model.arrow import raw_schema
from dil.model.schema import Column

DIALECTS = [
    CsvDialect(",", '"', "\\"),
    CsvDialect("\t", "'", "|"),
    CsvDialect(";", "", ""),
    CsvDialect(",", '"', ""),
    CsvDialect("§", "«", "¬"),
    CsvDialect("|", "", "\\"),
]


class NeverClosedError(Exception):
    """A quote is opened and never closed."""


def told(text: str, dialect: CsvDialect) -> list[list[str]]:
    """Read text one character at a time, as docs/formats.md says it."""
    tokens = list(tokens_of(text, dialect))
    records: list[list[str]] = []
    cells: list[str] = []
    at = 0
    while at < len(tokens):
        cell, at = cell_of(tokens, at, dialect)
        cells.append(cell)
        if at == len(tokens):
            records.append(cells)
            return records
        end, at = tokens[at][0], at + 1
        if end == dialect.separator:
            if at == len(tokens):
                records.append([*cells, ""])
                return records
            continue
        if end == "\r" and at < len(tokens) and tokens[at][0] == "\n":
            at += 1
        records.append(cells)
        cells = []
    return records


def tokens_of(text: str, dialect: CsvDialect):
    """Yield (character, whether it is literal)."""
    at = 0
    while at < len(text):
        here, after = text[at], text[at + 1 : at + 2]
        if dialect.escape and here == dialect.escape:
            if after and after in (dialect.escape, dialect.quote):
                yield after, True
                at += 1
        else:
            yield here, False
        at += 1


def cell_of(tokens, at, dialect):
    def is_quote(index):
        return bool(dialect.quote) and tokens[index : index + 1] == [(dialect.quote, False)]

    cell = ""
    if is_quote(at):
        at += 1
        while not is_quote(at) or is_quote(at + 1):
            if at >= len(tokens):
                raise NeverClosedError
            at += is_quote(at)
            cell += tokens[at][0]
            at += 1
        at += 1
    while at < len(tokens) and not (
        not tokens[at][1] and tokens[at][0] in (dialect.separator, "\r", "\n")
    ):
        cell += tokens[at][0]
        at += 1
    return cell, at


def alphabet(dialect: CsvDialect) -> st.SearchStrategy[str]:
    special = [dialect.separator, dialect.quote, dialect.escape, "\r", "\n", "\r\n", '"', ","]
    return st.sampled_from([*filter(None, special), "a", "b", " ", "é", "\ufeff", "\0", "x1"])


texts_and_dialects = st.sampled_from(DIALECTS).flatmap(
    lambda dialect: st.tuples(
        st.lists(alphabet(dialect), max_size=40).map("".join), st.just(dialect)
    )
)
regular = st.sampled_from(DIALECTS).flatmap(
    lambda dialect: st.tuples(
        st.integers(1, 3).flatmap(
            lambda width: st.lists(
                st.lists(cells_of(dialect), min_size=width, max_size=width).map(
                    dialect.separator.join
                ),
                min_size=1,
                max_size=6,
            ).map(lambda rows: "\n".join(rows) + "\n")
        ),
        st.just(dialect),
    )
)


def cells_of(dialect: CsvDialect) -> st.SearchStrategy[str]:
    plain = st.text(st.sampled_from('ab 01.é"'), max_size=4).map(
        lambda text: text.replace(dialect.quote or "\0", "")
    )
    escaped = plain.map(lambda text: f"{text}{dialect.escape}{dialect.quote}{text}")
    if not dialect.quote:
        return plain
    inside = st.text(st.sampled_from(["a", dialect.separator, "\n", dialect.quote]), max_size=5)
    quoted = inside.map(
        lambda text: dialect.quote + text.replace(dialect.quote, dialect.quote * 2) + dialect.quote
    )
    return st.one_of(plain, quoted, escaped) if dialect.escape else st.one_of(plain, quoted)


def lazy_blocks(text: str, dialect: CsvDialect, chunk: int) -> Iterator[CsvBlock]:
    stream = io.BytesIO(text.encode())
    return RecordBlocks(stream, "UTF-8", dialect, chunk_bytes=chunk).blocks()


def blocks_of(text: str, dialect: CsvDialect, chunk: int) -> list[bytes]:
    found = [block.records for block in lazy_blocks(text, dialect, chunk)]
    return [block for block in found if block]


def read_by_columns(text: str, dialect: CsvDialect, chunk: int) -> list[list[str | None]]:
    """Read as the extractor does: the end of a block is proved by reading it, where that goes."""
    cells = CellReader(dialect, keeps_null_text=True)
    rows: list[list[str | None]] = []
    for block in lazy_blocks(text, dialect, chunk):
        found = cells.texts(block, 0, range)
        if found is None:
            rows += cells.rows(block.records)
        else:
            columns = [column.to_pylist() for column in found.values()]
            rows += [list(row) for row in zip(*columns, strict=True)]
    return rows


@given(texts_and_dialects, st.integers(1, 50))
@example(('a,"b\r', DIALECTS[0]), 1)
@example(('\\"a,"\\""\n', DIALECTS[0]), 2)
def test_rows_are_what_the_state_machine_tells_however_the_stream_is_cut(pair, chunk):
    text, dialect = pair
    text = text.lstrip("\ufeff")  # the one at the beginning is no text
    cells = CellReader(dialect, keeps_null_text=True)
    try:
        wanted = told(text, dialect)
    except NeverClosedError:
        with pytest.raises(SourceContractError):
            blocks_of(text, dialect, chunk)
        return
    blocks = blocks_of(text, dialect, chunk)
    found = list(chain.from_iterable(cells.rows(block) for block in blocks))
    assert [[cell or "" for cell in row] for row in found] == wanted


@given(st.one_of(texts_and_dialects, regular), st.integers(1, 50))
@example(('a,"b\n","c\nd"\ne,f\n', DIALECTS[0]), 4)
@example(('a,"b\n\1\n"\n', DIALECTS[0]), 5)
@example(("a,'b\n|'\nc'\n", CsvDialect(",", "'", "|")), 5)
def test_blocks_that_end_where_it_seems_are_read_as_the_state_machine_tells(pair, chunk):
    text, dialect = pair
    text = text.lstrip("\ufeff")
    try:
        wanted = told(text, dialect)
    except NeverClosedError:
        with pytest.raises(SourceContractError):
            read_by_columns(text, dialect, chunk)
        return
    found = read_by_columns(text, dialect, chunk)
    assert [[cell or "" for cell in row] for row in found] == wanted


@given(regular, st.data())
def test_an_end_within_quotes_is_never_taken_for_the_end_of_a_record(pair, data):
    text, dialect = pair
    breaks = [at + 1 for at, character in enumerate(text) if character == "\n"]
    end = data.draw(st.sampled_from(breaks))
    cells = CellReader(dialect, keeps_null_text=True)
    plain = dialect.plain(text[:end].encode())
    width = cells.width(dialect.plain(text.encode()))
    try:
        told(text[:end], dialect)
    except NeverClosedError:
        assert cells.columns(plain, width, range(width), proves_end=True) is None
        return
    proved = cells.columns(plain, width, range(width), proves_end=True)
    assert proved is None or proved == cells.columns(plain, width, range(width))


@given(regular, st.booleans())
@example(("\ufeffa\nb\n", DIALECTS[0]), False)
@example(('null,NuLL\n"",a\n', DIALECTS[0]), False)
def test_arrow_reads_the_very_cells_that_the_careful_path_reads(pair, keeps):
    text, dialect = pair
    cells = CellReader(dialect, keeps_null_text=keeps)
    for block in blocks_of(text, dialect, 1000):
        rows = cells.rows(block)
        width = cells.width(block)
        assert width == len(rows[0])
        columns = cells.columns(block, width, range(width))
        if columns is not None:
            assert [
                list(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)
            ] == rows


@given(texts_and_dialects)
def test_arrow_never_takes_a_block_otherwise_than_the_careful_path(pair):
    text, dialect = pair
    cells = CellReader(dialect, keeps_null_text=False)
    try:
        blocks = blocks_of(text, dialect, 1000)
    except SourceContractError:
        return
    for block in blocks:
        rows = cells.rows(block)
        width = cells.width(block)
        columns = cells.columns(block, width, range(width))
        if columns is not None:
            assert [
                list(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)
            ] == rows


numbers = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.integers(-(2**31) - 2, 2**31 + 2).map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"\A[+-]?([0-9]{0,12}\.?[0-9]{0,12})([eE][+-]?[0-9]{1,2})?\Z"),
    st.sampled_from(["007", "-0", "+5", "0x1A", "nan", "inf", " 5", "1_0", "true", "", "12d"]),
)


@given(st.lists(numbers, min_size=1, max_size=5))
def test_numbers_that_are_found_keep_their_exact_value(texts):
    cells = pa.array([text or None for text in texts], pa.string())
    shape, numbers = observed(cells)
    assert numbers is None or numbers.equals(values_of(cells, numbers.type, cuts=False))
    if shape.holds_decimals():
        shape.observe(measured(cells))
    kind = raw_schema((Column("a", shape.data_type("a", {}, "a")),)).field(0).type
    found = values_of(cells, kind, cuts=False)
    assert found.null_count == cells.null_count
    for text, value in zip(texts, found.to_pylist(), strict=True):
        if isinstance(value, str):
            assert value == text
        elif isinstance(value, bool):
            assert value is (text.lower() == "true")
        elif isinstance(value, float):
            # Some double of the column is this text's: nothing but trailing zeros differs.
            assert Decimal(repr(value)) == Decimal(text)
        elif value is not None:
            assert Decimal(value) == Decimal(text)
