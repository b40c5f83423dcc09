"""The rule for repeated rows as the chain keeps it."""

from __future__ import annotations

import json

import pytest

from dil.model.derived import DedupeSpec, TimeSpan, dedupe_column
from dil.model.job import QuerySpec

SPEC = DedupeSpec(("id", "site"), "at", 60_000)


def test_the_chain_keeps_what_repeats_the_query():
    transform = json.loads(QuerySpec(inputs=(), dedupe=SPEC).transform)
    assert DedupeSpec.of(transform["dedupe"]) == SPEC
    assert dedupe_column(transform) == "at"
    assert dedupe_column(json.loads(QuerySpec(inputs=()).transform)) is None
    assert dedupe_column(None) is None


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ({"keys": "id"}, TypeError),
        ({"withinMs": "PT1M"}, TypeError),
        ({"withinMs": None}, TypeError),
    ],
)
def test_a_damaged_rule_is_refused(damage, error):
    with pytest.raises(error):
        DedupeSpec.of({**SPEC.as_json(), **damage})


def test_a_rule_without_a_member_is_refused():
    with pytest.raises(KeyError):
        DedupeSpec.of({"keys": ["id"], "withinMs": 1})


def test_a_span_of_microseconds_has_both_of_its_ends():
    assert TimeSpan.of_micros(1999, 2001) == TimeSpan(1, 3)
    assert TimeSpan.of_micros(-1, 0).widened(10) == TimeSpan(-11, 10)
