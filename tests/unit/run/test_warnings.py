"""What a run refuses or says loudly, because rows would be lost or doubled unseen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.errors import ConfigError, PlanningError, StateError
from dil.model.report import RunStatus
from tests.jobs import dataset, published_ids, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset, generated_row
from tests.stories import ROWS_PER_DAY, Story, day, ids_of, notes_of, snapshot

WHOLE = {
    "ms__publish__mode": "window_replace",
    "ms__work__unit__partition": "none",
    "ms__grace__period__days": "2",
}


def test_a_shorter_reading_must_not_replace_a_longer_one(story: Story) -> None:
    story.run(day(4), story.job(**WHOLE))
    before = snapshot(dataset(story.folder))

    with pytest.raises(PlanningError) as caught:
        story.run(day(3), story.job(**WHOLE))

    assert str(day(4)) in caught.value.message
    assert snapshot(dataset(story.folder)) == before
    assert story.run(day(5), story.job(**WHOLE)).status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(5))


def test_a_lost_state_store_appends_rows_once_more_only_where_that_is_accepted(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    story.run(day(1))
    assert caplog.records == []
    for path in (story.folder / "state").iterdir():
        path.unlink()

    with pytest.raises(StateError, match="knows of no publish") as caught:
        story.run(day(1))
    assert "--accept-new-signatures" in caught.value.fix
    once = ids_of("a", "b", days=range(1))
    assert story.rows() == once
    story.run(day(1), accept_new_signatures=True)

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "appended a second time" in record.getMessage()
    assert story.rows() == once + once
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert story.rows() == once + ids_of("a", "b", days=range(2))


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("kind", ["files", "delta", "warehouse"])
def test_a_job_does_not_go_back_to_a_dataset_that_lacks_what_it_published_elsewhere(
    story: Story, kind: str, mode: str
) -> None:
    place = {
        "files": {},
        "delta": {"ms__table__format": "delta"},
        "warehouse": {"ms__warehouse__url": f"sqlite:///{story.folder}/rows.db"},
    }[kind]
    place = {**place, "extract__primary__key__fields": "unit,id"}
    here = {**place, "ms__publish__mode": mode}
    story.run(day(1), story.job(**here))
    elsewhere = {**place, "extract__table__name": "trial", "ms__publish__mode": "replace"}
    story.run(day(2), story.job(**elsewhere))

    with pytest.raises(ConfigError, match="would be missing here"):
        story.run(day(3), story.job(**here))

    assert story.run(day(3), story.job(**elsewhere)).rows == 3 * 2 * ROWS_PER_DAY


def test_a_dataset_may_be_moved_away_and_back(story: Story) -> None:
    lake, away = story.folder / "lake", story.folder / "away"
    story.run(day(1))
    lake.rename(away)
    story.run(day(2), story.job(data__publisher__final__dir=str(away)))
    away.rename(lake)

    story.run(day(3))

    assert published_ids(visible_files(story.folder)) == ids_of("a", "b", days=range(3))


def test_readings_again_that_fill_the_limit_are_said_loudly(story: Story) -> None:
    story.run(day(3))
    job = story.job(ms__grace__period__days="2", ms__work__unit__parallelism__max="4")

    report = story.run(day(4), job)

    assert report.left > 0
    assert any(note.startswith("NO PROGRESS") for note in report.notes)


def test_a_limit_that_takes_new_work_too_is_progress(story: Story) -> None:
    report = story.run(day(4), story.job(ms__work__unit__parallelism__max="4"))

    assert report.left == 4
    assert notes_of(report) == ()


def test_work_units_that_infer_unlike_types_are_published_in_one_type(story: Story) -> None:
    story.source.dataset.units.clear()
    story.source.dataset.extend(
        [
            {**generated_row("a", 1, day(0)), "amount": 7},
            {**generated_row("b", 2, day(0)), "amount": 7.5},
        ]
    )

    report = story.run(day(1), story.job(ms__output__schema=""))

    assert report.status is RunStatus.SUCCESS
    assert report.notes == ()
    types = {pq.read_schema(path).field("amount").type for path in visible_files(story.folder)}
    assert types == {pa.float64()}
    assert story.rows() == Counter({("a", 1): 1, ("b", 2): 1})


def test_an_empty_range_is_told_apart_from_nothing_new(story: Story) -> None:
    empty = story.run(day(0))
    story.run(day(1))
    again = story.run(day(1))

    assert "range is empty" in empty.notes[0]
    assert "up to date: 2 work units" in again.notes[0]


OFFSETS = {
    "ms__watermark": '[{"name":"unit","type":"unit","units":"a,b"}]',
    "ms__work__unit__partition": "none",
    "ms__parameters": '[{"name":"unit"}, {"name":"offset","type":"pagestart"},'
    ' {"name":"limit","type":"pagesize"}]',
}


def test_pages_that_a_source_caps_are_noted_if_larger_ones_are_asked_for(tmp_path: Path) -> None:
    """The next start is beyond the 250 rows of each unit, so that no page comes after the first."""
    with HttpServer(Dataset.generate(250, units=("a", "b")), most=100) as source:
        jobs = [
            Story(
                tmp_path / size, source, ms__pagination=f'{{"initialvalues":[0,{size}]}}', **OFFSETS
            )
            for size in ("5000", "100")
        ]
        capped, mended = (each.run(day(1)) for each in jobs)
    assert (capped.status, capped.rows) == (RunStatus.SUCCESS, 200)
    (note,) = notes_of(capped)
    assert note.startswith("ROWS MAY BE MISSING: no page had more than 100 rows")
    assert (mended.rows, notes_of(mended)) == (500, ())
