from __future__ import annotations

import pyarrow as pa
import pytest

from dil.conversion.chain import ConversionChain
from dil.errors import ConversionError
from dil.sections.conversion import RangesSection
from tests.unit.conversion.conversion_jobs import chain
from tests.unit.conversion.converter_runs import columns, converter, rows


def ranges(size: int, end: str = "zzzzzzzzzz", word: str = "string") -> ConversionChain:
    return chain(
        converters=[converter("csv-range-generator")],
        target=columns(start=word, end=word),
        sections=[RangesSection(batch_size=size, last=end)],
    )


def made(job: ConversionChain, *pages: str) -> list[tuple[object, object]]:
    batches = (pa.record_batch({"c": list(page), "d": list(page)}) for page in pages)
    return [(row["start"], row["end"]) for row in rows(job, *batches)]


@pytest.mark.parametrize(
    "pages", [["abcde"], ["ab", "cde"], ["a", "b", "c", "d", "e"], ["abc", "de"]]
)
def test_the_example_of_the_reference_over_any_pages(pages: list[str]) -> None:
    assert made(ranges(2), *pages) == [("a", "b"), ("c", "d"), ("e", "zzzzzzzzzz")]


def test_the_last_full_range_ends_with_the_maximum_as_well() -> None:
    assert made(ranges(2), "ab") == [("a", "zzzzzzzzzz")]
    assert made(ranges(2, "~"), "a", "b", "c", "d") == [("a", "b"), ("c", "~")]


def test_ranges_of_one_row_begin_and_end_with_it() -> None:
    assert made(ranges(1), "abc") == [("a", "a"), ("b", "b"), ("c", "zzzzzzzzzz")]


def test_no_rows_give_no_range() -> None:
    assert made(ranges(2)) == []


def test_a_cell_that_reads_eof_is_data() -> None:
    page = pa.record_batch({"c": ["EOF", "F"]})
    assert rows(ranges(1), page) == [
        {"start": "EOF", "end": "EOF"},
        {"start": "F", "end": "zzzzzzzzzz"},
    ]


def test_numbers_are_taken_as_their_text_and_typed_as_declared() -> None:
    page = pa.record_batch({"c": pa.array([1, 5, 9])})
    assert made_numbers(ranges(2, "99", "long"), page) == [(1, 5), (9, 99)]
    assert made_numbers(ranges(2, "z"), page) == [("1", "5"), ("9", "z")]


def test_a_maximum_that_does_not_fit_the_declared_type_is_told() -> None:
    with pytest.raises(ConversionError, match='column "end"'):
        rows(ranges(2, "zzz", "long"), pa.record_batch({"c": pa.array([1])}))


def made_numbers(job: ConversionChain, page: pa.RecordBatch) -> list[tuple[object, object]]:
    return [(row["start"], row["end"]) for row in rows(job, page)]
