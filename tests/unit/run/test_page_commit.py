"""Runs that go on inside a work unit, where an earlier run stopped."""

from __future__ import annotations

import json

import pytest

from dil.model.report import RunStatus
from dil.task.checkpoints import RESUMED
from tests.servers.http_server import Fault, HttpServer
from tests.stories import Story, day, ids_of

# Two pages a work unit, of two rows each.
PAGED = {
    "ms__state__cursor__commit": "page",
    "ms__state__cursor__commit__seconds": "0",
    "ms__parameters": json.dumps(
        [
            {"name": "unit"},
            {"name": "since", "type": "watermark", "value": "low"},
            {"name": "until", "type": "watermark", "value": "high"},
            {"name": "cursor", "type": "session"},
            {"name": "limit", "type": "primitive", "value": 2},
        ]
    ),
}
SECOND_PAGE = Fault("status", where=(("unit", "a"), ("since", str(day(1))), ("cursor", "c6")))


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_the_next_run_goes_on_inside_the_work_unit_that_failed(
    story: Story, source: HttpServer, policy: str
) -> None:
    job = story.job(**PAGED, job__commit__policy=policy)
    source.faults.append(SECOND_PAGE)
    first = story.run(day(2), job)
    assert first.units.failed == 1
    source.faults.clear()
    source.state.log.clear()

    second = story.run(day(2), job)

    assert second.status is RunStatus.SUCCESS
    asked = [dict(entry.query).get("cursor") for entry in source.requests]
    assert asked == ["c6"]
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert f"{RESUMED} (1 work unit)" in second.notes
    assert story.staged() == []
    assert story.runs() == {} or all(not run.staged for run in story.runs().values())


def test_a_third_run_goes_on_where_the_second_stopped_and_the_first_is_swept(
    story: Story, source: HttpServer
) -> None:
    job = story.job(**PAGED, job__commit__policy="successful")
    source.faults.append(SECOND_PAGE)
    story.run(day(2), job)
    story.run(day(2), job)
    source.faults.clear()
    source.state.log.clear()

    report = story.run(day(2), job)

    assert report.status is RunStatus.SUCCESS
    assert source.count("/records") == 1
    assert story.rows() == ids_of("a", "b", days=range(2))
    assert story.staged() == []


def test_another_configuration_starts_at_the_first_page(story: Story, source: HttpServer) -> None:
    source.faults.append(SECOND_PAGE)
    story.run(day(2), story.job(**PAGED))
    source.faults.clear()
    source.state.log.clear()

    report = story.run(day(2), story.job(**PAGED, ms__work__unit__min__records="1"))

    assert report.status is RunStatus.SUCCESS
    assert source.count("/records", unit="a", since=str(day(1))) == 2
    assert story.rows() == ids_of("a", "b", days=range(2))
