from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dil.conversion.validation import ValidationVerdict, expected_count
from dil.errors import ConversionError
from dil.model.json import JsonObject
from dil.model.secondary import SecondaryInput
from dil.model.settings import ValidationAttributes
from dil.sections.conversion import ValidationSection
from tests.unit.conversion.conversion_jobs import chain
from tests.unit.conversion.converter_runs import Rows, converter, rows


def validating(
    expected: Iterable[JsonObject] | None = None, *fields: str, **attributes: Any
) -> Any:
    entry = SecondaryInput(path="/in", fields=fields, category="validation")
    return chain(
        converters=[converter("in-flow-validation")],
        secondary=() if expected is None else (entry,),
        sections=[ValidationSection(ValidationAttributes(**attributes))],
        validation_rows=expected,
    )


def passes(counted: int, expected: int, criteria: str, threshold: float) -> bool:
    attributes = ValidationAttributes(criteria=criteria, threshold=threshold)
    return ValidationVerdict(counted, Decimal(expected), attributes).passes


@pytest.mark.parametrize(
    ("counted", "criteria", "threshold", "outcome"),
    [
        (9, "fail", 10, True),
        (10, "fail", 10, False),
        (95, "success", 95, True),
        (94, "success", 95, False),
        (0, "success", 0, True),
        (0, "fail", 0, False),
        (0, "success", 1, False),
    ],
)
def test_the_examples_of_the_reference_with_100_expected_rows(
    counted: int, criteria: str, threshold: float, outcome: bool
) -> None:
    assert passes(counted, 100, criteria, threshold) is outcome


@pytest.mark.parametrize(
    ("counted", "criteria", "threshold", "outcome"),
    [
        (0, "fail", 0, True),
        (0, "fail", 50, True),
        (0, "success", 0, True),
        (0, "success", 1, False),
        (3, "fail", 100, False),
        (3, "success", 100, True),
    ],
)
def test_nothing_expected_passes_with_nothing_and_anything_is_all(
    counted: int, criteria: str, threshold: float, outcome: bool
) -> None:
    assert passes(counted, 0, criteria, threshold) is outcome


def test_percentages_are_not_rounded() -> None:
    # In 32 bits 16,777,217 is 16,777,216.
    assert not passes(16_777_217, 16_777_218, "success", 100)


@pytest.mark.parametrize(("errors", "fails"), [(22, False), (23, True)])
def test_22_errors_of_450_pass_5_percent_and_23_fail(errors: int, fails: bool) -> None:
    answers: Rows = [
        {"results": [{"error": "bad" if n < errors else None, "id": n} for n in range(450)]}
    ]
    batches = [{"conversions": [0] * 200}, {"conversions": [0] * 200}, {"conversions": [0] * 50}]
    job = validating(batches, "conversions", threshold=5, criteria="fail", error_column="error")
    if not fails:
        assert rows(job, answers) == []
        assert job.notes[0].startswith("in-flow validation passed: 22 of 450 expected rows (4.889")
        return
    with pytest.raises(ConversionError) as caught:
        rows(job, answers)
    assert "23 of 450 expected rows (5.111 %) count as failure" in caught.value.message
    assert "less than 5 % was asked for" in caught.value.message
    assert not caught.value.retryable


def counted(page: Any, error_column: str | None = None) -> int:
    """Return how many rows count, by asking for less than nothing."""
    attributes = {"threshold": 0, "criteria": "success"}
    if error_column:
        attributes["error_column"] = error_column
    job = validating([{}] * 100, **attributes)
    rows(job, *page)
    return int(job.notes[0].split(": ")[1].split(" ")[0])


@pytest.mark.parametrize(
    ("page", "column", "count"),
    [
        ([{"a": 1, "b": 2}, {"a": 3, "b": 4}], None, 2),
        ([{"a": 1, "e": "x"}, {"a": 3, "e": None}, {"a": 3, "e": " "}], "e", 1),
        ([{"a": 1, "e": {"code": 1}}, {"a": 1, "e": {"code": None}}], "e.code", 1),
        ([{"a": 1, "e": {"code": 1}}, {"a": 1, "e": None}], "e", 1),
        ([{"a": 1, "b": 2}], "e", 0),
        ([{"a": [1, 2]}, {"a": []}, {"a": None}, {"a": [3]}], None, 3),
        ([{"a": [{"e": "x"}, {"e": ""}]}, {"a": [{"e": None}]}, {"a": None}], "e", 1),
        ([{"a": [{"f": "x"}]}], "e", 0),
        ([{"a": [1, 2]}], "e", 0),
        ([{"a": [1, 2], "b": 1}], None, 1),
        ([{"a": 0, "e": 0}, {"a": 0, "e": None}], "e", 1),
    ],
)
def test_rows_count_or_the_items_of_an_only_array(
    page: Rows, column: str | None, count: int
) -> None:
    assert counted([page], column) == count


def test_pages_add_up_and_a_slice_counts_its_own_items() -> None:
    batch = pa.RecordBatch.from_pylist([{"a": [1]}, {"a": [1, 2]}, {"a": [1, 2, 3]}])
    assert counted([batch.slice(1), batch.slice(0, 1)]) == 6


def test_without_validation_input_one_row_is_expected() -> None:
    assert rows(validating(threshold=100, criteria="success"), [{"a": 1}]) == []
    with pytest.raises(ConversionError, match="2 of 1 expected rows"):
        rows(validating(threshold=100, criteria="fail"), [{"a": 1}, {"a": 2}])


def test_no_rows_at_all_are_judged_as_well() -> None:
    with pytest.raises(ConversionError, match=r"0 of 1 expected rows \(0 %\)"):
        rows(validating(threshold=1, criteria="success"))
    assert rows(validating(threshold=1, criteria="fail")) == []


@pytest.mark.parametrize(
    ("field", "values", "count"),
    [
        (None, [1, 2, 3], 3),
        ("n", [[1, 2], [], None, [3]], 3),
        ("n", [10, 20], 30),
        ("n", ["10", " 20 "], 30),
        ("n", [10, "many"], 2),
        ("n", ["many", 10], 2),
        ("n", [10, None], 2),
        ("n", [True, 10], 2),
        ("n", [{"a": 1}], 1),
        ("n", [None, [1, 2]], 2),
        ("n", [], 0),
        (None, [], 0),
        ("n", [2**53 + 1, 0], 2**53 + 1),
    ],
)
def test_the_first_row_says_what_is_expected(
    field: str | None, values: list[Any], count: int
) -> None:
    assert expected_count(({"n": value} for value in values), field) == count
