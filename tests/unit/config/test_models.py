"""JSON objects read as the models of their properties: what is accepted, what each finding says."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.model.authentication import Authentication
from dil.model.csv_settings import CsvSettings
from dil.model.json import WrittenNumber
from dil.model.members import Setting
from dil.model.secondary import SecondaryInput
from dil.model.secret import Secret
from dil.model.settings import (
    HttpStatuses,
    Pagination,
    SchemaCleansing,
    SessionKeyField,
    ValidationAttributes,
)
from dil.sections.reading import json_name, read_model, unknown_members


def read(model: type[Setting], members: dict[str, Any], where: str = "") -> Any:
    findings: list[tuple[str, str]] = []
    found = read_model(model, members, where, findings)
    assert (found is None) == bool(findings)
    return found or [what for what, _ in findings]


@pytest.mark.parametrize(
    "value", [7, "7", " +7 ", "7.0", 7.0, Decimal(7), WrittenNumber("7.0"), WrittenNumber("7e0")]
)
def test_a_whole_number_may_be_a_text_or_end_in_a_zero_fraction(value: object) -> None:
    found = read(Pagination, {"maxPages": value})
    assert (found.max_pages, type(found.max_pages)) == (7, int)


@pytest.mark.parametrize(
    "value",
    [True, None, "", "7.5", 7.5, "1_0", "seven", [7], "9" * 5000, WrittenNumber("1e999999999")],
)
def test_anything_else_is_no_whole_number(value: object) -> None:
    assert read(CsvSettings, {"maxFailures": value}) == ["maxFailures is no whole number"]


@pytest.mark.parametrize(
    ("value", "meant"),
    [(True, True), ("true", True), ("FALSE", False), ("no", False), ("on", True), (1, True)],
)
def test_a_boolean_may_be_a_text(value: object, *, meant: bool) -> None:
    assert read(SchemaCleansing, {"enabled": value}).enabled is meant


@pytest.mark.parametrize("value", [None, "", "maybe", 2, []])
def test_anything_else_is_neither_true_nor_false(value: object) -> None:
    assert read(SchemaCleansing, {"enabled": value}) == ["enabled is neither true nor false"]


@pytest.mark.parametrize(("value", "number"), [(5, 5), ("2.5", 2.5), (Decimal("0.1"), 0.1)])
def test_a_number_may_be_a_text(value: object, number: float) -> None:
    assert read(ValidationAttributes, {"threshold": value}).threshold == number


@pytest.mark.parametrize("value", [True, None, "many", "nan", "1e999", {}])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    assert read(ValidationAttributes, {"threshold": value}) == ["threshold is no number"]


def test_words_are_read_in_any_letter_case_but_where_only_one_counts() -> None:
    assert read(Authentication, {"method": "Basic", "grant": "PASSWORD"}).grant == "password"
    assert read(SecondaryInput, {"path": "p", "category": "Payload", "format": "Binary"}) == [
        'category is "Payload"',
        'format is "Binary"',
    ]


def test_null_is_a_value_only_where_a_member_may_be_absent() -> None:
    assert read(Pagination, {"maxPages": None}).max_pages is None
    assert read(Authentication, {"method": None, "header": None}) == [
        'method is ""',
        "header is no text",
    ]


def test_a_secret_stands_where_a_secret_may_and_nowhere_else() -> None:
    secret = Secret("s3cret")
    read_one = read(Authentication, {"method": "oauth2", "clientId": secret, "token": secret})
    assert (read_one.client_id, read_one.token) == (secret, secret)
    assert read(Authentication, {"method": "oauth2", "clientId": [1], "parameters": {"a": 1}}) == [
        "clientId is no text",
        "parameters.a is no text",
    ]
    assert read(Authentication, {"method": "bearer", "token": "plain", "name": secret}) == [
        "token is no text",
        "name is no text",
    ]


def test_arrays_and_objects_name_the_place_of_what_is_wrong_in_them() -> None:
    assert read(HttpStatuses, {"success": [200, "x", 1.5], "warning": 404}) == [
        "success[1] is no whole number",
        "success[2] is no whole number",
        "warning is no array",
    ]
    assert read(SecondaryInput, {"path": "p", "filters": {"a": 1}}) == ["filters.a is no text"]
    assert read(SecondaryInput, {"path": "p", "filters": [], "retry": 3}) == [
        "filters is no object",
        "retry is no object",
    ]


def test_bounds_are_checked_once_a_value_could_be_read() -> None:
    assert read(Pagination, {"maxPages": "0", "maxRows": "x", "fields": ["a"] * 4}) == [
        "fields has too many items",
        "maxPages is too small",
        "maxRows is no whole number",
    ]
    assert read(SessionKeyField, {"name": ""}) == ["name is no text"]


def test_all_findings_come_at_once_known_members_first_as_the_model_lists_them() -> None:
    written = {"oops": 1, "failCondition": [], "condition": {"regex": "x"}, "name": 7}
    assert read(SessionKeyField, written, "[2]") == [
        "[2].name is no text",
        'lacks the member "[2].condition.regexp"',
        'has an unknown member "[2].condition.regex"',
        "[2].failCondition is no object",
        'has an unknown member "[2].oops"',
    ]


def test_members_have_the_names_of_json_not_those_of_python() -> None:
    assert read(Pagination, {"max_pages": 1}) == ['has an unknown member "max_pages"']


def test_a_column_whose_name_begins_with_a_blank_is_named_with_it() -> None:
    ((what, _),) = unknown_members(["oops"], ["name"], " id")
    assert what.startswith(" id ")


@given(
    st.builds(
        Pagination,
        fields=st.lists(st.text(), max_size=3).map(tuple),
        initial_values=st.lists(st.integers(), max_size=3).map(tuple),
        next=st.text(),
        max_pages=st.none() | st.integers(min_value=1),
        fail_at_cap=st.booleans(),
    )
)
def test_what_a_model_holds_is_read_back_as_it_is_also_from_texts(pagination: Pagination) -> None:
    members = {json_name(field): getattr(pagination, field.name) for field in fields(pagination)}
    quoted = {
        **members,
        "initialvalues": [str(number) for number in members["initialvalues"]],
        "failAtCap": str(members["failAtCap"]),
    }
    assert read(Pagination, members) == read(Pagination, quoted) == pagination
