"""How runs build on each other: append, replace, window_replace (rule U14)."""

from __future__ import annotations

from collections import Counter

import pytest

from dil.errors import ConfigError, PlanningError
from dil.model.report import ReplacedRows, RunStatus
from dil.run.job_run import run_job
from dil.run.plan_builder import plan_job
from tests.jobs import dataset, published_ids, visible_files, write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset, generated_row
from tests.stories import (
    ROWS_PER_DAY,
    STEP_MS,
    Story,
    day,
    failing,
    ids_of,
    snapshot,
    work_unit,
)

REPLACE = {"ms__publish__mode": "replace"}
WINDOW = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"}


def names(story: Story) -> set[str]:
    return {path.name for path in visible_files(story.folder)}


# Append


def test_append_adds_files_and_leaves_earlier_ones_untouched(story: Story) -> None:
    story.run(day(1))
    before = snapshot(dataset(story.folder))

    story.run(day(2))

    after = snapshot(dataset(story.folder))
    assert {name: after[name] for name in before if name.startswith("part-")} == {
        name: facts for name, facts in before.items() if name.startswith("part-")
    }
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_append_with_grace_adds_new_versions_of_what_it_reads_again(story: Story) -> None:
    job = story.job(ms__grace__period__days="1")
    story.run(day(2), job)

    report = story.run(day(3), job)

    assert report.rows == 2 * 2 * ROWS_PER_DAY
    again = ids_of("a", "b", days=range(1, 2))
    assert story.rows() == ids_of("a", "b", days=range(3)) + again


def test_a_name_tells_run_and_work_unit_and_the_rows_on_request(story: Story) -> None:
    story.run(day(1), story.job(writer__include__record__count__in__file__names="true"))

    found = sorted(visible_files(story.folder))
    assert all(path.name.startswith("part-run-1-") for path in found)
    assert {tuple(path.name.split(".")[-2:]) for path in found} == {("4", "parquet")}


def test_each_run_has_a_folder_of_its_own_under_the_default_path_type(story: Story) -> None:
    job = story.job(writer__file__path__type="default")

    for number in (1, 2):
        story.run(day(number), job)

    folders = {path.parent.name for path in visible_files(story.folder)}
    assert folders == {"20200102000000_full", "20200103000000_append"}
    assert published_ids(visible_files(story.folder)) == ids_of("a", "b", days=range(2))


# Replace


def test_replace_takes_the_place_of_all_earlier_files(story: Story) -> None:
    job = story.job(**REPLACE)
    story.run(day(2), job)
    first = names(story)

    report = story.run(day(3), job)

    assert report.units.planned == 6
    assert names(story).isdisjoint(first)
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_replace_takes_away_files_that_no_manifest_knows(story: Story) -> None:
    place = dataset(story.folder)
    (place / "old").mkdir(parents=True)
    for name in ("part-0.parquet", "old/part-1.parquet", "_SUCCESS", ".part.crc"):
        (place / name).write_text("of another program")

    report = story.run(day(1), story.job(**REPLACE))
    again = story.run(day(2), story.job(**REPLACE))

    assert story.rows() == ids_of("a", "b", days=range(2))
    assert [note for note in report.notes if "REPLACED 2 files" in note]
    assert not [note for note in again.notes if "REPLACED" in note]
    assert (place / "_SUCCESS").exists()
    assert (place / ".part.crc").exists()


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_a_replace_that_fails_in_part_never_touches_the_target(story: Story, policy: str) -> None:
    job = story.job(**REPLACE, job__commit__policy=policy)
    story.run(day(2), job)
    before = snapshot(dataset(story.folder))
    story.source.faults.append(failing(0, "b"))

    report = story.run(day(3), job)

    assert (report.status, report.exit_code) == (RunStatus.FAILED, 1)
    assert snapshot(dataset(story.folder)) == before
    assert story.rows() == ids_of("a", "b", days=range(2))


def test_a_replace_that_fails_as_a_whole_never_touches_the_target(story: Story) -> None:
    job = story.job(**REPLACE)
    story.run(day(1), job)
    before = snapshot(dataset(story.folder))
    story.source.faults.extend([failing(0, "a"), failing(0, "b")])

    assert story.run(day(1), job).exit_code == 1

    assert snapshot(dataset(story.folder)) == before


def test_a_replace_whose_source_is_empty_empties_the_target_and_says_so(story: Story) -> None:
    job = story.job(**REPLACE)
    story.run(day(1), job)
    story.source.dataset.units.clear()

    report = story.run(day(1), job)

    assert report.status is RunStatus.SUCCESS
    assert (report.rows, report.files) == (0, ())
    assert story.rows() == Counter()
    assert "NO ROWS" in report.notes[0]
    head = story.head()
    assert head is not None
    assert len(head["event"]["newData"]["removes"]) == 2  # type: ignore[index,call-overload]


def test_a_replace_larger_than_one_run_may_take_is_refused(story: Story) -> None:
    story.run(day(1), story.job(**REPLACE))
    before = snapshot(dataset(story.folder))

    with pytest.raises(PlanningError):
        story.run(day(3), story.job(**REPLACE, ms__work__unit__parallelism__max="5"))

    assert snapshot(dataset(story.folder)) == before


# Window replace


def test_window_replace_reads_due_windows_anew_and_replaces_their_files_alone(
    story: Story,
) -> None:
    job = story.job(**WINDOW)
    story.run(day(3), job)
    kept = {path.name for path in visible_files(story.folder)}
    late = generated_row("a", 999, day(2) + 5)
    story.source.dataset.extend([late])

    report = story.run(day(4), job)

    assert report.units.planned == 4
    assert story.rows() == ids_of("a", "b", days=range(4)) + Counter({("a", 999): 1})
    # Days 0 and 1 are older than the grace period: their files are the same ones.
    assert len(kept & names(story)) == 4


def test_window_replace_again_and_again_gives_the_same_rows(story: Story) -> None:
    job = story.job(**WINDOW)

    for now in (day(2), day(3), day(3), day(4), day(4)):
        story.run(now, job)
        number = (now - day(0)) // (day(1) - day(0))
        assert story.rows() == ids_of("a", "b", days=range(number))


def test_a_window_that_became_empty_loses_its_rows(story: Story) -> None:
    job = story.job(**WINDOW)
    story.run(day(2), job)
    story.source.dataset.units.clear()

    report = story.run(day(3), job)

    assert report.status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(1))


@pytest.mark.parametrize("is_shared", [False, True], ids=["own files", "shared files"])
def test_a_window_replace_tells_how_many_rows_took_the_place_of_how_many(
    story: Story, *, is_shared: bool
) -> None:
    shared = {"ms__output__file__per__work__unit": "false"} if is_shared else {}
    assert story.run(day(3), story.job(**shared)).replaced is None
    story.source.dataset.extend([generated_row("a", 900, day(2)), generated_row("a", 901, day(2))])

    report = story.run(day(4), story.job(**WINDOW))

    assert report.replaced == ReplacedRows(2 * ROWS_PER_DAY, 4 * ROWS_PER_DAY + 2)
    assert story.run(day(4), story.job(**REPLACE)).replaced == ReplacedRows(
        8 * ROWS_PER_DAY + 2, 8 * ROWS_PER_DAY + 2
    )


def test_window_replace_keeps_the_files_of_a_window_whose_reading_failed(story: Story) -> None:
    job = story.job(**WINDOW, job__commit__policy="successful")
    story.run(day(2), job)
    story.source.faults.append(failing(1, "b"))

    report = story.run(day(3), job)

    assert report.exit_code == 4
    assert story.rows() == ids_of("a", "b", days=range(3))


def test_a_lost_state_store_does_not_double_rows_where_windows_are_replaced(story: Story) -> None:
    job = story.job(**WINDOW)
    story.run(day(3), job)
    for path in (story.folder / "state").iterdir():
        path.unlink()

    report = story.run(day(3), job)

    assert report.status is RunStatus.SUCCESS
    assert story.rows() == ids_of("a", "b", days=range(3))


# Rows


def test_a_run_without_rows_is_said_loudly_only_where_rows_were_usual(story: Story) -> None:
    story.source.dataset.units.clear()
    first = story.run(day(1))
    assert (first.status, first.notes) == (RunStatus.SUCCESS, ())

    story.source.dataset.extend([generated_row("a", 1, day(1))])
    assert story.run(day(2)).rows == 1
    third = story.run(day(3))
    assert (third.status, third.rows) == (RunStatus.SUCCESS, 0)
    assert "NO ROWS" in third.notes[0]
    assert "published 1 row." in third.notes[0]


def test_an_empty_work_unit_is_done_and_not_read_again(story: Story) -> None:
    story.source.dataset.units.pop("b")
    story.run(day(1))

    assert story.states()[work_unit(0, "b")].high == day(1)
    assert story.run(day(1)).status is RunStatus.NOTHING_DUE


# Owners


def test_two_jobs_that_append_to_one_dataset_keep_each_others_rows(tmp_path) -> None:
    def job(name, server):
        return {"job__name": name, "state__store__dir": str(tmp_path / f"state-{name}")}

    with (
        HttpServer(Dataset.generate(12, units=("a",), step_ms=STEP_MS)) as first,
        HttpServer(Dataset.generate(12, units=("b",), step_ms=STEP_MS)) as second,
    ):
        stories = [
            Story(tmp_path, server, **job(name, server))
            for name, server in (("one", first), ("two", second))
        ]
        for now in (day(1), day(2), day(3)):
            for story in stories:
                options = story.options(now, run_id=f"{story.changes['job__name']}-{now}")
                assert run_job(story.job(), options).status is RunStatus.SUCCESS
        assert stories[0].rows() == ids_of("a", "b", days=range(3))
        assert stories[0].head() is not None
        assert stories[1].head() is not None


def test_a_second_job_that_would_replace_the_dataset_is_refused(story: Story) -> None:
    story.run(day(1))
    before = snapshot(story.folder / "lake")
    rival = story.job(**REPLACE, job__name="rival")

    with pytest.raises(ConfigError) as caught:
        story.run(day(1), rival)

    assert caught.value.problems[0].key == "data.publisher.final.dir"
    assert snapshot(story.folder / "lake") == before
    write_job(story.folder, story.source.url)
    assert story.run(day(2)).status is RunStatus.SUCCESS


def test_the_same_job_with_another_state_store_is_refused_unless_both_append(
    story: Story,
) -> None:
    story.run(day(1), story.job(**WINDOW))

    with pytest.raises(ConfigError):
        story.run(day(1), story.job(**WINDOW, state__store__dir=str(story.folder / "other")))


# Files of others


def test_a_foreign_file_in_the_way_of_a_published_one_is_never_overwritten(story: Story) -> None:
    options = story.options(day(1))
    job = story.job()
    unit = plan_job(job, now_ms=day(1)).plan.work_units[0]
    place = dataset(story.folder)
    place.mkdir(parents=True)
    foreign = place / f"part-run-1-{unit.hash}-0.parquet"
    foreign.write_text("not ours")

    report = run_job(job, options)

    assert (report.exit_code, report.files) == (1, ())
    assert [(one.signature, one.code) for one in report.failures] == [(None, "DIL-WRITE")]
    assert foreign.read_text() == "not ours"
    foreign.unlink()
    report = story.run(day(1), job)
    assert report.recovered == ("run-1",)
    assert report.status is RunStatus.NOTHING_DUE
    assert story.rows() == ids_of("a", "b", days=range(1))
