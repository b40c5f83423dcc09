from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from dil.errors import ConversionError
from dil.model.schema import ArrayType, Column, Primitive, RecordType
from tests.unit.conversion.converter_runs import (
    array_of,
    columns,
    map_of,
    normalising,
    rows,
    run,
)

OPEN = ArrayType(RecordType(()))
THREE = [{"A": 1, "B": 2, "C": 3}, {"A": 1, "B": 4, "C": 5}, {"A": 6, "B": 7, "C": 8}]
NESTED = [
    {"A": 1, "X": [{"B": 2, "C": 3}, {"B": 4, "C": 5}]},
    {"A": 6, "X": [{"B": 7, "C": 8}]},
]


def target(kind: Any, **words: str) -> tuple[Column, ...]:
    return (*columns(**(words or {"A": "int"})), Column("X", kind, nullable=False))


@pytest.mark.parametrize("name", ["json-normalizer", "avro-normalizer"])
def test_the_example_of_the_reference_comes_out_as_it_says(name: str) -> None:
    job = normalising(target(array_of(B="int", C="int")), 2, name=name)
    assert rows(job, THREE) == NESTED


@pytest.mark.parametrize("pages", [[1, 1, 1], [1, 2], [2, 1]])
def test_batches_go_over_page_boundaries(pages: list[int]) -> None:
    left = list(THREE)
    cut = [[left.pop(0) for _ in range(count)] for count in pages]
    assert rows(normalising(target(OPEN), 2), *cut) == NESTED


def test_450_rows_in_batches_of_200_give_three_rows() -> None:
    page = pa.record_batch({"account": ["a"] * 450, "click": [str(n) for n in range(450)]})
    made = rows(normalising(target(array_of(click="string"), account="string"), 200), page)
    assert [len(row["X"]) for row in made] == [200, 200, 50]
    assert [item["click"] for row in made for item in row["X"]] == [str(n) for n in range(450)]


def test_no_rows_give_no_row() -> None:
    assert rows(normalising(target(OPEN))) == []
    assert rows(normalising(target(OPEN)), pa.record_batch({"A": pa.array([], pa.int32())})) == []


@pytest.mark.parametrize("name", ["json-normalizer", "avro-normalizer"])
def test_the_first_row_of_each_batch_gives_the_common_values(name: str) -> None:
    page = [{"A": n, "B": n} for n in range(4)]
    made = rows(normalising(target(OPEN), 2, name=name), page)
    assert [row["A"] for row in made] == [0, 2]


def test_a_batch_breaks_where_a_common_value_changes_if_asked_to() -> None:
    page = [{"A": a, "B": n} for n, a in enumerate([1, 1, 1, None, None, 2, 1])]
    made = rows(normalising(target(OPEN), 2, breaks=True), page)
    assert [(row["A"], [item["B"] for item in row["X"]]) for row in made] == [
        (1, [0, 1]),
        (1, [2]),
        (None, [3, 4]),
        (2, [5]),
        (1, [6]),
    ]


def test_a_break_at_a_page_boundary_is_one_as_well() -> None:
    pages = [[{"A": 1, "B": 1}], [{"A": 2, "B": 2}], [{"A": 2, "B": 3}]]
    made = rows(normalising(target(OPEN), 9, breaks=True), *pages)
    assert [[item["B"] for item in row["X"]] for row in made] == [[1], [2, 3]]


def test_records_as_common_values_can_break_a_batch() -> None:
    kind = RecordType(columns(id="int"))
    page = [{"A": {"id": n // 2}, "B": n} for n in range(4)]
    made = rows(normalising((Column("A", kind), Column("X", OPEN)), 9, breaks=True), page)
    assert [row["A"] for row in made] == [{"id": 0}, {"id": 1}]


def test_null_members_stay_in_an_array() -> None:
    made = rows(normalising(target(OPEN)), [{"A": 1, "B": None, "C": 1}, {"A": 1, "B": 2, "C": 1}])
    assert made[0]["X"] == [{"B": None, "C": 1}, {"B": 2, "C": 1}]


def test_a_map_holds_the_moved_columns_without_nulls() -> None:
    page = [{"A": 1, "B": None, "C": "x"}, {"A": 2, "B": 7, "C": "y"}]
    made = rows(normalising(target(map_of("string")), 1), page)
    assert made == [{"A": 1, "X": {"C": "x"}}, {"A": 2, "X": {"B": "7", "C": "y"}}]


def test_a_map_of_numbers_refuses_text() -> None:
    with pytest.raises(ConversionError, match='column "C"'):
        rows(normalising(target(map_of("long")), 1), [{"A": 1, "B": 5, "C": "x"}])


def test_a_record_holds_the_moved_columns() -> None:
    job = normalising(target(RecordType(())), 1)
    assert rows(job, THREE[:1]) == [{"A": 1, "X": {"B": 2, "C": 3}}]


def test_an_array_of_maps_keeps_nulls() -> None:
    job = normalising(target(ArrayType(map_of("string"))), 2)
    made = rows(job, [{"A": 1, "B": None, "C": "x"}, {"A": 1, "B": "b", "C": None}])
    assert made == [{"A": 1, "X": [{"B": None, "C": "x"}, {"B": "b", "C": None}]}]


@pytest.mark.parametrize("kind", [RecordType(()), map_of("string")])
def test_a_column_for_one_row_refuses_a_batch_of_several(kind: Any) -> None:
    with pytest.raises(ConversionError, match=r"ms\.normalizer\.batch\.size is more than 1"):
        rows(normalising(target(kind), 2), THREE)


def test_the_new_column_is_the_first_that_the_rows_lack() -> None:
    schema = (*columns(A="int"), Column("X", OPEN), Column("Y", OPEN))
    (row,) = rows(normalising(schema), THREE)
    assert (len(row["X"]), row["Y"]) == (3, None)


def test_a_flat_column_that_the_source_never_sent_is_null_and_not_the_new_one() -> None:
    (row,) = rows(normalising(target(OPEN, A="int", note="string")), THREE)
    assert row["note"] is None
    assert len(row["X"]) == 3


def test_a_target_without_a_new_column_is_an_error() -> None:
    with pytest.raises(ConversionError, match="every column") as caught:
        rows(normalising(columns(A="int", B="int")), THREE)
    assert not caught.value.retryable


def test_a_target_with_all_columns_leaves_nothing_to_move() -> None:
    with pytest.raises(ConversionError, match="nothing goes into"):
        rows(normalising(target(OPEN, A="int", B="int", C="int")), THREE)


def test_a_flat_new_column_is_refused_by_the_one_and_made_an_array_by_the_other() -> None:
    schema = columns(A="int", X="string")
    with pytest.raises(ConversionError, match="array, map or record"):
        rows(normalising(schema), THREE)
    as_map = target(map_of("string"))
    made = rows(normalising(as_map, 3, name="avro-normalizer"), THREE)
    assert [item["B"] for item in made[0]["X"]] == [2, 4, 7]


def test_members_follow_the_declaration_and_what_is_left_out_is_told() -> None:
    job = normalising(target(array_of(C="double", D="string")))
    assert rows(job, THREE[:1]) == [{"A": 1, "X": [{"C": 3.0, "D": None}]}]
    assert job.notes == ('the normaliser left out B: "X" has no such member',)


def test_values_are_typed_as_the_target_declares() -> None:
    schema = (*columns(A="string"), Column("X", array_of(day="date", n="long"), nullable=False))
    job = normalising(schema)
    table = run(job, [[{"A": 5, "day": "2020-01-02 00:00:00", "n": 1}]])
    assert table.to_pylist() == [{"A": "5", "X": [{"day": dt.date(2020, 1, 2), "n": 1}]}]
    assert table.schema.field("X").nullable is False
    assert table.schema.field("X").type.value_type.field("n").type == pa.int64()


def test_a_batch_spans_pages_whose_types_widened() -> None:
    pages: list[list[dict[str, Any]]] = [
        [{"A": 1, "n": 1, "o": {"x": None}, "t": None}],
        [{"A": 1, "n": 2**40, "o": {"x": [1], "y": "q"}, "t": 7}],
        [{"A": 1, "n": 0.5, "o": None, "t": 8}],
    ]
    (row,) = rows(normalising(target(OPEN)), *pages)
    assert row["X"] == [
        {"n": 1.0, "o": {"x": None, "y": None}, "t": None},
        {"n": float(2**40), "o": {"x": [1], "y": "q"}, "t": 7},
        {"n": 0.5, "o": None, "t": 8},
    ]


def test_numbers_that_no_common_number_type_holds_become_text() -> None:
    pages = [[{"A": 1, "n": 2**53 + 1}], [{"A": 1, "n": 0.5}]]
    (row,) = rows(normalising(target(OPEN)), *pages)
    assert [item["n"] for item in row["X"]] == ["9007199254740993", "0.5"]


def test_records_in_one_page_and_text_in_the_next_are_refused() -> None:
    with pytest.raises(ConversionError, match=r'"o" holds records or lists'):
        rows(normalising(target(OPEN)), [{"A": 1, "o": {"x": 1}}], [{"A": 1, "o": "x"}])


def test_batches_of_more_rows_than_an_array_can_count_act_as_500_in_avro() -> None:
    page = [{"A": 1, "B": n} for n in range(501)]
    made = rows(normalising(target(OPEN), 2**31, name="avro-normalizer"), page)
    assert [len(row["X"]) for row in made] == [500, 1]


def test_maps_in_moved_columns_are_kept() -> None:
    kind = pa.map_(pa.string(), pa.int32())
    page = pa.record_batch({"A": [1, 1], "m": pa.array([[("a", 1)], [("b", 2)]], kind)})
    (row,) = rows(normalising(target(OPEN)), page.slice(0, 1), page.slice(1))
    assert row["X"] == [{"m": {"a": 1}}, {"m": {"b": 2}}]


def test_nested_common_columns_get_the_members_of_the_target() -> None:
    schema = (
        Column("A", RecordType((Column("id", Primitive("long")), Column("n", map_of("string"))))),
        Column("X", OPEN),
    )
    (row,) = rows(normalising(schema), [{"A": {"id": 1, "gone": 2, "n": {"k": 5}}, "B": 1}])
    assert row["A"] == {"id": 1, "n": {"k": "5"}}
