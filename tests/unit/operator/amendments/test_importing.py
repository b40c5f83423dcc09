"""An import claims nothing that nobody can have read, and says whose rows a file holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.errors import ConfigError
from dil.operator import amendments
from dil.operator.amendments import Preview, Selection
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of, work_unit


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


def imported(story: Story, *rows: tuple[str, str, int]) -> Preview:
    """Import rows of (job, signature, high) as of day 4."""
    path = story.folder / "rows.csv"
    lines = ['{},"{}",{}'.format(job, s.replace('"', '""'), high) for job, s, high in rows]
    path.write_text("\n".join(["job,signature,high", *lines]) + "\n")
    with (
        story.store() as store,
        amendments.open_session(
            story.job(), store, "import", now_ms=day(4), clock=lambda: story.clock
        ) as session,
    ):
        preview = amendments.propose_import(session, str(path), "csv")
        amendments.apply(session, preview)
    return preview


def test_a_high_behind_the_end_of_its_partition_is_refused_and_hides_no_work_unit(
    story: Story,
) -> None:
    story.run(day(4))
    with (
        story.store() as store,
        amendments.open_session(
            story.job(), store, "forget", now_ms=day(4), clock=lambda: story.clock
        ) as session,
    ):
        units = Selection(frozenset({work_unit(1, "a"), work_unit(2, "a")}))
        amendments.apply(
            session, amendments.propose_forget(session, units, amendments.FileDecision.WITHDRAW)
        )
    before = story.states()

    with pytest.raises(ConfigError, match=r"rows\.csv:2.* is after the partition's end"):
        imported(story, ("orders", work_unit(1, "a"), day(3)))

    assert story.states() == before
    imported(story, ("orders", work_unit(1, "a"), day(2)))
    assert story.run(day(4)).units.planned == 1
    assert story.rows() == ids_of("a", "b", days=range(4)) - ids_of("a", days=range(1, 2))


def test_a_high_after_now_is_refused_also_where_the_job_has_no_such_partition(
    story: Story,
) -> None:
    foreign = work_unit(1, "a").replace(str(day(1)), str(day(1) + 1))
    with pytest.raises(ConfigError, match="is after now"):
        imported(story, ("orders", foreign, story.clock + 1))
    imported(story, ("orders", foreign, day(2)))
    with story.store() as store:
        coverage = store.history().coverage('unit.{"unit":"a"}')
    assert coverage is not None
    assert coverage.covered_from == coverage.covered_to


def test_a_file_without_a_row_of_the_job_is_refused_and_its_jobs_are_named(story: Story) -> None:
    rows = [(f"other-{n}", work_unit(0, "a"), day(1)) for n in range(7)]
    with pytest.raises(
        ConfigError, match=r"has no row of orders; its rows are of other-0, .* and 2 other jobs"
    ):
        imported(story, *rows)
    assert not (story.states())
