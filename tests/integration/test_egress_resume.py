"""Sending goes on behind the rows that were answered; those are not sent again."""

from __future__ import annotations

import pytest

from tests.integration.test_egress import ROWS, Sender, sender

__all__ = ["sender"]

RESUMES = {"ms.egress.resume": "true", "state.store.enabled": "true"}
FIRST = {"id": 0, "sum": "0"}


@pytest.mark.parametrize("mode", ["append", "replace", "window_replace"])
def test_the_next_run_goes_on_under_every_publish_mode(sender: Sender, mode: str) -> None:
    changes = {**RESUMES, "ms.publish.mode": mode}
    sender.receiver.statuses[3] = 422
    assert sender.run(changes)["status"] == "failed"
    sender.receiver.statuses.clear()

    assert sender.run(changes)["status"] == "success"

    assert sender.receiver.ids == [1, 2, 3, 4, 5, 6]


def test_the_next_run_goes_on_in_a_work_unit_that_is_sent_once_more(sender: Sender) -> None:
    changes = {**RESUMES, "ms.publish.mode": "window_replace", "ms.grace.period.days": "3"}
    assert sender.run(changes)["status"] == "success"
    sender.receiver.statuses[3] = 422
    assert sender.run(changes)["status"] == "failed"
    sender.receiver.statuses.clear()

    assert sender.run(changes)["status"] == "success"

    assert sender.receiver.ids == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]


def test_nothing_is_sent_when_another_row_stands_before_those_that_were_sent(
    sender: Sender,
) -> None:
    sender.receiver.statuses[3] = 422
    sender.run(RESUMES)
    sender.receiver.statuses.clear()
    sender.write([FIRST, *ROWS])

    told = sender.run(RESUMES)

    assert told["codes"] == ["DIL-SRC-UNKNOWN"]
    assert sender.receiver.ids == [1, 2]


def test_sending_goes_on_once_the_rows_are_as_they_were(sender: Sender) -> None:
    sender.receiver.statuses[3] = 422
    sender.run(RESUMES)
    sender.receiver.statuses.clear()
    sender.write([FIRST, *ROWS])
    sender.run(RESUMES)
    sender.write([*ROWS, {"id": 7, "sum": "0"}])

    told = sender.run({**RESUMES, "ms.egress.send.again": "true"})

    assert told["status"] == "success"
    assert sender.receiver.ids == [1, 2, 3, 4, 5, 6, 7]


def test_other_rows_are_all_sent_when_that_is_asked_for(sender: Sender) -> None:
    sender.receiver.statuses[3] = 422
    sender.run(RESUMES)
    sender.receiver.statuses.clear()
    sender.write([FIRST, *ROWS])

    told = sender.run({**RESUMES, "ms.egress.send.again": "true"})

    assert told["status"] == "success"
    assert sender.receiver.ids == [1, 2, 0, 1, 2, 3, 4, 5, 6]
