"""A run of a kept plan does exactly what was planned, or refuses."""

import pytest

from dil.errors import ConfigError, PlanningError
from dil.model.report import RunStatus
from dil.planning import SavedPlan
from dil.planning.plan_file import decode_plan, encode_plan
from dil.run.plan_builder import accept_plan, plan_job
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, failing, ids_of


def kept(story: Story, now: int, **changes: str) -> SavedPlan:
    """Return today's plan after a trip through a file."""
    return decode_plan(encode_plan(plan_job(story.job(**changes), now_ms=now)), "plan.json")


def test_a_plan_survives_its_file(story: Story) -> None:
    story.run(day(1))
    made = plan_job(story.job(), now_ms=day(3))

    assert decode_plan(encode_plan(made), "plan.json") == made


def test_a_run_does_what_was_planned_though_more_is_due_by_now(story: Story) -> None:
    saved = kept(story, day(1))

    report = story.run(day(4), plan=saved)

    assert report.status is RunStatus.SUCCESS
    assert report.units.planned == len(saved.plan.work_units) == 2
    assert story.rows() == ids_of("a", "b", days=range(1))


def test_the_rest_is_due_after_a_kept_plan_was_run(story: Story) -> None:
    story.run(day(4), plan=kept(story, day(1)))
    story.run(day(4))

    assert story.rows() == ids_of("a", "b", days=range(4))


def test_a_plan_is_run_once(story: Story) -> None:
    saved = kept(story, day(2))
    story.run(day(2), plan=saved)

    with pytest.raises(PlanningError, match="out of date"):
        story.run(day(2), plan=saved)
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_plan_made_before_another_run_is_refused(story: Story) -> None:
    saved = kept(story, day(2))
    story.run(day(1))

    with pytest.raises(PlanningError, match="out of date"):
        story.run(day(2), plan=saved)


def test_a_kept_plan_can_be_tried_again_after_a_failure(story: Story, source: HttpServer) -> None:
    saved = kept(story, day(2))
    source.faults.append(failing(1, "b"))
    assert story.run(day(2), plan=saved).status is RunStatus.FAILED
    source.faults.clear()

    report = story.run(day(2), plan=saved)

    assert (report.status, report.units.adopted) == (RunStatus.SUCCESS, 3)
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_plan_of_another_configuration_is_refused(story: Story) -> None:
    saved = kept(story, day(2))

    with pytest.raises(ConfigError, match="another configuration"):
        story.run(day(2), story.job(**{"ms.grace.period.days": "1"}), plan=saved)


def test_a_plan_of_a_backfill_needs_the_backfill(story: Story) -> None:
    saved = kept(story, day(2), **{"ms.backfill": "true"})

    with pytest.raises(ConfigError, match="another configuration"):
        story.run(day(2), plan=saved)


def test_a_plan_of_another_job_is_refused(story: Story) -> None:
    saved = kept(story, day(2))

    with pytest.raises(ConfigError, match="is a plan of job"):
        story.run(day(2), story.job(**{"job.name": "another"}), plan=saved)


def test_pacing_is_counted_from_the_run(story: Story) -> None:
    saved = kept(story, day(1), **{"ms.work.unit.pacing.seconds": "60"})
    assert [unit.not_before - day(1) for unit in saved.plan.work_units] == [0, 60_000]

    story.clock = day(3)
    report = story.run(day(3), story.job(**{"ms.work.unit.pacing.seconds": "60"}), plan=saved)

    assert report.status is RunStatus.SUCCESS


def test_work_units_of_a_kept_plan_begin_as_far_apart_as_planned_from_the_run_on(
    story: Story,
) -> None:
    saved = kept(story, day(1), **{"ms.work.unit.pacing.seconds": "60"})
    with story.store() as store:
        plan = accept_plan(story.job(**{"ms.work.unit.pacing.seconds": "60"}), store, day(3), saved)

    assert [unit.not_before for unit in plan.work_units] == [day(3), day(3) + 60_000]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": 1}', b"\xff"])
def test_a_file_that_is_no_plan_is_named(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r'"p\.json" is no plan'):
        decode_plan(content, "p.json")


def test_a_plan_that_was_edited_is_refused(story: Story) -> None:
    content = encode_plan(plan_job(story.job(), now_ms=day(1)))
    edited = content.replace(str(day(0)).encode(), str(day(0) + 1).encode())

    with pytest.raises(ConfigError, match="was changed since"):
        decode_plan(edited, "p.json")


def test_a_plan_of_a_later_format_is_refused(story: Story) -> None:
    content = encode_plan(plan_job(story.job(), now_ms=day(1)))

    with pytest.raises(ConfigError, match="plan format 2"):
        decode_plan(content.replace(b'"format": 1', b'"format": 2'), "p.json")
