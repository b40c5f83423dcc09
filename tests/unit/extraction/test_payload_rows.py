"""Rows to send: one in each request, each with a key of its own (rule G38)."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import RefusedAnswer, SourceError, TransientSourceError
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.paging.rules import PagingPosition
from dil.extraction.paging.walk import ResumeRefusedError, Walk, walk_pages
from dil.extraction.parameters import ParameterScope
from dil.extraction.payload_rows import PayloadRows
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.json import WrittenNumber
from dil.model.settings import Parameter
from dil.spi.connector import ByteSession, Response
from tests.unit.extraction.clocks import Clock

ROWS = [{"id": 1}, {"id": 2}, {"id": 1}]


class Receiver(ByteSession):
    """Answers every request with one row; refuses those that are listed by number, from 1."""

    def __init__(self, refusals=None, rows=1):
        self.asked = []
        self.refusals = dict(refusals or {})
        self.rows = rows

    def fetch(self, values):
        self.asked.append(values)
        refusal = self.refusals.pop(len(self.asked), None)
        if refusal is not None:
            raise refusal
        body = json.dumps({"data": [{"ok": True}] * self.rows}).encode()
        return Response(io.BytesIO(body), status=200)


def payload(rows=ROWS, job="send", signature="s"):
    return PayloadRows(rows, job, signature)


def walk_of(rows=ROWS, *, start=None, seen=None, **members):
    spec = ExtractionSpec(ClassRef("m", "c"), data_field="data", **members)
    scope = ParameterScope(0, 1, full_extract=True)
    seen = [] if seen is None else seen
    return Walk(spec, scope, Clock(), start=start, payload=payload(rows), on_page=seen.append)


def walked(receiver, walk):
    return list(walk_pages(receiver, JsonExtractor(walk.spec), walk))


def keys(rows, **members):
    given = payload(rows, **members)
    found = []
    while given.left:
        found.append(given.take()[1])
    return found


def test_each_request_carries_the_next_row_and_the_last_row_ends_the_work_unit():
    receiver = Receiver()
    walk = walk_of(parameters=(Parameter(name="validateOnly", type="primitive", value=True),))
    walked(receiver, walk)
    assert [values.payload for values in receiver.asked] == ROWS
    assert [dict(values.parameters) for values in receiver.asked] == [{"validateOnly": True}] * 3
    assert walk.progress.rows == 3
    assert walk.progress.by_status == {2: 3}


def test_an_answer_without_rows_does_not_end_the_sending():
    receiver = Receiver(rows=0)
    walked(receiver, walk_of())
    assert len(receiver.asked) == 3


def test_no_row_makes_no_request():
    receiver = Receiver()
    assert walked(receiver, walk_of([])) == []
    assert receiver.asked == []


def test_rows_are_paced():
    walk = walk_of(call_interval_ms=500)
    walked(Receiver(), walk)
    assert walk.progress.seconds_waited == 1.0


def test_equal_rows_have_keys_of_their_own_and_the_same_ones_every_time():
    first, second, third = keys(ROWS)
    assert len({first, second, third}) == 3
    assert keys(ROWS) == [first, second, third]
    assert keys([{"id": 1}, {"id": 1}]) == [first, third]  # whatever stands between them
    assert all(len(key) == 64 for key in (first, second, third))


def test_jobs_and_work_units_have_keys_of_their_own():
    assert set(keys(ROWS)).isdisjoint(keys(ROWS, job="other"))
    assert set(keys(ROWS)).isdisjoint(keys(ROWS, signature="t"))


def test_the_order_of_members_is_no_part_of_the_key():
    assert keys([{"a": 1, "b": {"c": 2, "d": [3]}}]) == keys([{"b": {"d": [3], "c": 2}, "a": 1}])


def test_the_kind_of_a_value_is_part_of_the_key():
    rows = [{"a": 1}, {"a": "1"}, {"a": None}, {"a": WrittenNumber("1.0")}, {"a": Decimal("1.5")}]
    assert len(set(keys(rows))) == 5


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)), max_size=8))
def test_no_two_rows_of_a_work_unit_share_a_key(rows):
    assert len(set(keys(rows))) == len(rows)


def test_a_later_attempt_goes_on_after_the_last_row_that_was_answered():
    seen = []
    with pytest.raises(TransientSourceError):
        walked(Receiver({3: TransientSourceError("503")}), walk_of(seen=seen))
    receiver = Receiver()
    start = PagingPosition.decoded(seen[-1].encoded())
    walked(receiver, walk_of(start=start))
    assert [values.payload for values in receiver.asked] == ROWS[2:]
    assert receiver.asked[0].idempotency_key == keys(ROWS)[2]


class Kept:
    """Records the refused rows that a walk puts aside."""

    def __init__(self):
        self.rows = []

    def keep(self, row, number, key, answer):
        self.rows.append((row, number, key, answer.status))


def test_rows_that_were_refused_before_are_put_aside_again_and_not_sent_again():
    seen, kept, receiver = [], Kept(), Receiver()
    walked(Receiver(), walk_of(seen=seen))
    refusal = {2: RefusedAnswer(422, "no such product")}

    walked(receiver, replace(walk_of(start=seen[1]), refused=kept, refused_before=refusal))

    assert kept.rows == [(ROWS[1], 2, keys(ROWS)[1], 422)]
    assert [values.payload for values in receiver.asked] == ROWS[2:]


def test_a_later_attempt_does_not_go_on_with_other_rows():
    seen = []
    walked(Receiver(), walk_of(seen=seen))
    for rows in ([{"id": 9}, *ROWS[1:]], ROWS[:1]):
        receiver = Receiver()
        with pytest.raises(ResumeRefusedError):
            walked(receiver, walk_of(rows, start=seen[-1]))
        assert receiver.asked == []


def test_a_row_that_is_refused_does_not_make_a_later_attempt_start_over():
    seen = []
    walked(Receiver(), walk_of(seen=seen))
    with pytest.raises(SourceError):
        walked(Receiver({1: SourceError("400")}), walk_of(start=seen[-1]))
