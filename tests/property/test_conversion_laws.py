"""What grouping converters make does not depend on pages, and nothing is lost in it."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dil.conversion.joining import join_batches
from dil.model.schema import ArrayType, Column, Primitive, RecordType, Schema
from dil.secrets.authenticated import decrypt
from dil.sections.conversion import RangesSection
from tests.unit.conversion.conversion_jobs import chain, convert
from tests.unit.conversion.converter_runs import Rows, converter, normalising, rows

MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TARGET: Schema = (
    Column("k", Primitive("string")),
    Column("X", ArrayType(RecordType(())), nullable=False),
)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int64()),
        ("t", pa.string()),
        ("r", pa.struct([("a", pa.int64()), ("l", pa.list_(pa.string()))])),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "k": st.none() | st.sampled_from("ab"),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "t": st.none() | TEXT,
        "r": st.none()
        | st.fixed_dictionaries(
            {"a": st.none() | st.integers(0, 9), "l": st.none() | st.lists(st.none() | TEXT)}
        ),
    }
)
ROWS = st.lists(ROW, max_size=12)
CUTS = st.lists(st.integers(0, 12), max_size=5)


def pages(batch: pa.RecordBatch, cuts: list[int]) -> list[pa.RecordBatch]:
    ends = sorted(min(cut, batch.num_rows) for cut in cuts)
    bounds = [0, *ends, batch.num_rows]
    return [batch.slice(start, end - start) for start, end in itertools.pairwise(bounds)]


@MANY
@given(given_rows=ROWS, size=st.integers(1, 5), breaks=st.booleans(), cuts=CUTS)
def test_flattening_what_was_normalised_gives_the_rows_back(
    given_rows: Rows, size: int, breaks: bool, cuts: list[int]
) -> None:
    batch = pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)
    made = rows(normalising(TARGET, size, breaks=breaks), *pages(batch, cuts))
    moved = [{name: row[name] for name in "ntr"} for row in given_rows]
    assert [item for row in made for item in row["X"]] == moved
    assert all(1 <= len(row["X"]) <= size for row in made)
    firsts = itertools.accumulate([0, *(len(row["X"]) for row in made)][:-1])
    assert [row["k"] for row in made] == [given_rows[first]["k"] for first in firsts][: len(made)]


@MANY
@given(given_rows=ROWS, size=st.integers(1, 5), breaks=st.booleans(), cuts=CUTS)
def test_page_boundaries_never_matter_to_a_normaliser(
    given_rows: Rows, size: int, breaks: bool, cuts: list[int]
) -> None:
    batch = pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)
    whole = rows(normalising(TARGET, size, breaks=breaks), batch)
    assert rows(normalising(TARGET, size, breaks=breaks), *pages(batch, cuts)) == whole


@MANY
@given(given_rows=ROWS, size=st.integers(1, 5), cuts=CUTS)
def test_with_breaks_a_batch_has_one_common_value_and_is_as_long_as_it_can_be(
    given_rows: Rows, size: int, cuts: list[int]
) -> None:
    batch = pa.RecordBatch.from_pylist(given_rows, schema=SCHEMA)
    made = rows(normalising(TARGET, size, breaks=True), *pages(batch, cuts))
    runs = [(key, len(list(run))) for key, run in itertools.groupby(given_rows, lambda r: r["k"])]
    expected = [
        (key, min(size, length - start)) for key, length in runs for start in range(0, length, size)
    ]
    assert [(row["k"], len(row["X"])) for row in made] == expected


@MANY
@given(cells=st.lists(TEXT, max_size=12), size=st.integers(1, 5), cuts=CUTS)
def test_ranges_cover_all_rows_whatever_the_pages(
    cells: list[str], size: int, cuts: list[int]
) -> None:
    job = chain(
        converters=[converter("csv-range-generator")],
        target=(Column("start", Primitive("string")), Column("end", Primitive("string"))),
        sections=[RangesSection(batch_size=size, last="~")],
    )
    batch = pa.record_batch({"c": pa.array(cells, pa.string())})
    made = [(row["start"], row["end"]) for row in rows(job, *pages(batch, cuts))]
    groups = [cells[start : start + size] for start in range(0, len(cells), size)]
    ends = [*(group[-1] for group in groups[:-1]), "~"]
    assert made == [(group[0], end) for group, end in zip(groups, ends, strict=False)]


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.none() | TEXT, min_size=1, max_size=3))
def test_what_was_encrypted_decrypts_to_the_same_text(texts: list[str | None]) -> None:
    batch = pa.record_batch({"t": pa.array(texts, pa.string())})
    made = convert(batch, encrypted_fields=["t"], passwords=("master",))
    found = [
        None if text is None else decrypt(text.removeprefix("ENC(")[:-1], "master")
        for text in made.column("t").to_pylist()
    ]
    assert found == texts


LEAF = st.none() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | TEXT
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "a": LEAF,
        "o": st.none() | st.fixed_dictionaries({}, optional={"x": LEAF, "y": st.none() | TEXT}),
        "l": st.none() | st.lists(st.none() | st.integers(0, 2**40), max_size=3),
    },
)


def same(written: Any, read: Any) -> bool:
    """Tell whether a value is there as it was written: exactly, or as its text."""
    if isinstance(written, dict):
        return all(same(written.get(name), value) for name, value in (read or {}).items())
    if isinstance(written, list):
        return len(written) == len(read) and all(map(same, written, read))
    if written == {} or written is None:
        return read is None
    if isinstance(read, str) and isinstance(written, float):
        return float(read) == written
    return bool(read == written) or str(written) == read


@MANY
@given(given_rows=st.lists(st.lists(OBJECTS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_joining_pages_of_different_types_changes_no_value(given_rows: list[Rows]) -> None:
    inferred = [(page, batch) for page in given_rows if (batch := _page(page)) is not None]
    assume(inferred)
    table = join_batches([batch for _, batch in inferred])
    table.validate(full=True)
    made, written = table.to_pylist(), [row for page, _ in inferred for row in page]
    assert len(made) == len(written)
    assert all(map(same, written, made))


def _page(page: Rows) -> pa.RecordBatch | None:
    """Return a page by Arrow's own inference; some mixes of types are none to it."""
    names = list(dict.fromkeys(name for row in page for name in row))
    columns = {}
    for name in names:
        try:
            columns[name] = pa.array([row.get(name) for row in page])
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None
    return pa.record_batch(columns) if columns else None
