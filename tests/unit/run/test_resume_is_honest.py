"""Work of earlier runs stands for a reading now only where nothing is lost by it."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from dil.model.report import RunStatus
from dil.model.work_unit import unit_hash
from dil.operator import amendments, run_history
from dil.operator.amendments import FileDecision, Selection
from dil.publishing.publisher import Publisher
from dil.run.lease import leased
from dil.task.checkpoints import NOT_ONE_SNAPSHOT, RESUMED, TOO_OLD, TYPES_CHANGED, WINDOW_CHANGED
from tests.jobs import dataset, published_ids, visible_files
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import encode, generated_row
from tests.stories import Story, day, failing, ids_of, work_unit
from tests.unit.operator.amendments.test_amendments import session_of
from tests.unit.run.test_page_commit import PAGED, SECOND_PAGE

GRACE = {"ms__publish__mode": "window_replace", "ms__grace__period__days": "2"}


def correct(source: HttpServer, to: float | None = 999.0) -> None:
    """Correct row 4 of unit a at the source: it is of day 1, on the first of two pages."""
    assert source.state.dataset is not None
    row = {**generated_row("a", 4, day(1)), "amount": to}
    source.state.dataset.units["a"].encoded[4] = encode(row)


def amount(story: Story) -> object:
    """Return the published amount of row 4 of unit a."""
    rows = [row for path in visible_files(story.folder) for row in pq.read_table(path).to_pylist()]
    found = [row["amount"] for row in rows if (row["unit"], row["id"]) == ("a", 4)]
    assert len(found) == 1
    return found[0]


# With a grace period


def test_a_staged_reading_that_no_later_run_would_repeat_is_read_again(
    story: Story, source: HttpServer
) -> None:
    story.changes.update(GRACE)
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).status is RunStatus.FAILED
    correct(source)
    source.faults.clear()

    report = story.run(day(5))
    story.run(day(6))

    assert report.units.adopted == 0
    assert amount(story) == 999.0


def test_a_staged_reading_that_will_be_due_again_is_taken_over_until_then(
    story: Story, source: HttpServer
) -> None:
    story.changes.update(GRACE)
    source.faults.append(failing(1, "b"))
    story.run(day(2))
    correct(source)
    source.faults.clear()

    report = story.run(day(3))
    before = amount(story)
    story.run(day(4))

    assert report.units.adopted == 1  # a, day 1; the two of day 0 would not be due again
    assert before != 999.0
    assert amount(story) == 999.0


def test_a_staged_reading_of_after_the_grace_period_is_taken_over(
    story: Story, source: HttpServer
) -> None:
    story.changes.update(GRACE)
    source.faults.append(failing(5, "b"))
    story.run(day(6))
    source.faults.clear()

    report = story.run(day(6) + 1)

    assert report.status is RunStatus.SUCCESS
    assert report.units.adopted == 11


def test_pages_that_no_later_run_would_read_again_are_not_gone_on_from(
    story: Story, source: HttpServer
) -> None:
    story.changes.update({**PAGED, **GRACE, "job__commit__policy": "successful"})
    source.faults.append(SECOND_PAGE)
    assert story.run(day(2)).status is RunStatus.PARTIAL
    correct(source)
    source.faults.clear()

    report = story.run(day(5))

    assert f"{TOO_OLD} (1 work unit)" in report.notes
    assert amount(story) == 999.0


def test_pages_keep_their_age_from_run_to_run(story: Story, source: HttpServer) -> None:
    story.changes.update({**PAGED, **GRACE, "job__commit__policy": "full"})
    source.faults.extend([SECOND_PAGE, failing(2, "b")])
    story.run(day(2))
    correct(source)
    source.faults.remove(SECOND_PAGE)
    story.run(day(3))  # a, day 1 is complete, and its first page is of the run before
    source.faults.clear()

    report = story.run(day(5))

    assert report.status is RunStatus.SUCCESS
    assert amount(story) == 999.0


# Without a window


def snapshot(*, window: bool = False, **changes: str) -> dict[str, str]:
    """Return a job of one work unit of both pages, whose window ends now."""
    parameters = [
        {"name": "unit"},
        {"name": "cursor", "type": "session"},
        {"name": "limit", "type": "primitive", "value": 12},
    ]
    if window:
        parameters.append({"name": "until", "type": "watermark", "value": "high"})
    dated = {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}}
    return {
        **PAGED,
        "extract__table__type": "SNAPSHOT_ONLY",
        "ms__work__unit__partition": "",
        "ms__watermark": json.dumps([dated, {"name": "unit", "type": "unit", "units": "a"}]),
        "ms__parameters": json.dumps(parameters),
        **changes,
    }


LATER_PAGE = Fault("status", where=(("cursor", "cc"),))


def test_a_snapshot_whose_requests_know_no_window_goes_on_in_a_later_run(
    story: Story, source: HttpServer
) -> None:
    story.changes.update(snapshot())
    source.faults.append(LATER_PAGE)
    assert story.run(day(6)).status is RunStatus.FAILED
    source.faults.clear()
    source.state.log.clear()

    report = story.run(day(7))

    assert report.status is RunStatus.SUCCESS
    assert [dict(entry.query).get("cursor") for entry in source.requests] == ["cc"]
    assert story.rows() == ids_of("a", days=range(6))
    assert f"{RESUMED} (1 work unit)" in report.notes


def test_it_goes_on_in_a_repeated_reading_too(story: Story, source: HttpServer) -> None:
    story.changes.update(snapshot())
    story.run(day(6))
    source.faults.append(LATER_PAGE)
    story.run(day(7))
    source.faults.clear()
    source.state.log.clear()

    report = story.run(day(8))

    assert report.status is RunStatus.SUCCESS
    assert source.count("/records") == 1


def test_pages_of_another_window_are_read_again_and_the_report_says_so(
    story: Story, source: HttpServer
) -> None:
    story.changes.update(snapshot(window=True))
    source.faults.append(LATER_PAGE)
    story.run(day(6))
    source.faults.clear()
    source.state.log.clear()

    report = story.run(day(7))

    assert source.count("/records") == 2
    assert f"{WINDOW_CHANGED} (1 work unit)" in report.notes


@pytest.mark.parametrize(
    "mode",
    [
        {"ms__publish__mode": "replace"},
        {
            "ms__publish__mode": "merge",
            "extract__primary__key__fields": "unit,id",
            "ms__merge__delete__missing": "true",
        },
    ],
)
def test_pages_of_a_snapshot_are_read_again_and_the_report_says_so(
    story: Story, source: HttpServer, mode: dict[str, str]
) -> None:
    """Else a row that moved between pages would not be in it, and would go as missing."""
    story.changes.update(snapshot(**mode))
    source.faults.append(LATER_PAGE)
    story.run(day(6))
    source.faults.clear()
    source.state.log.clear()

    report = story.run(day(7))

    assert source.count("/records") == 2
    assert f"{NOT_ONE_SNAPSHOT} (1 work unit)" in report.notes


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_pages_whose_rows_do_not_go_with_the_others_are_read_again(
    story: Story, source: HttpServer, policy: str
) -> None:
    story.changes.update(
        {
            **PAGED,
            "ms__publish__mode": "merge",
            "extract__primary__key__fields": "unit,amount",
            "job__commit__policy": policy,
        }
    )
    correct(source, to=None)
    source.faults.append(SECOND_PAGE)
    story.run(day(2))
    source.faults.clear()
    assert 'column "amount" is null' in story.run(day(2)).failures[0].error
    correct(source)

    report = story.run(day(2))

    assert report.status is RunStatus.SUCCESS
    assert amount(story) == 999.0


# After an operator's act


@pytest.mark.parametrize("selection", [Selection(low=day(1), high=day(2)), Selection()])
def test_pages_of_a_work_unit_that_was_forgotten_are_read_again(
    story: Story, source: HttpServer, selection: Selection
) -> None:
    story.changes.update({**PAGED, "job__commit__policy": "successful"})
    source.faults.append(SECOND_PAGE)
    story.run(day(2))
    source.faults.clear()
    with session_of(story, "forget") as session:
        amendments.apply(
            session, amendments.propose_forget(session, selection, FileDecision.WITHDRAW)
        )
    source.state.log.clear()

    story.run(day(2))

    assert source.count("/records", unit="a", since=str(day(1))) == 2
    assert story.rows() == ids_of("a", "b", days=range(2))


# Types that are found


def test_rows_that_do_not_fit_the_types_of_earlier_pages_let_it_start_over(
    story: Story, source: HttpServer
) -> None:
    assert source.state.dataset is not None
    for number, text in ((4, b"1.5"), (5, b"1.5"), (6, b"100000000000000000001"), (7, b"3")):
        row = b'{"id":%d,"unit":"a","x":%b}' % (number, text)
        source.state.dataset.units["a"].encoded[number] = row
    story.changes.update({**PAGED, "job__commit__policy": "successful", "ms__output__schema": ""})
    source.faults.append(SECOND_PAGE)
    story.run(day(2))
    source.faults.clear()

    report = story.run(day(2))

    assert report.status is RunStatus.SUCCESS
    assert f"{TYPES_CHANGED} (1 work unit)" in report.notes
    assert story.rows() == ids_of("a", "b", days=range(2))


# A publish that lost files


class Killed(BaseException):
    """Stands for the death of the driver."""


def _die(*given: object) -> None:
    raise Killed


def test_a_file_without_manifest_stays_when_what_was_to_replace_it_is_lost(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.changes.update(GRACE)
    story.run(day(2))
    for path in (dataset(story.folder) / "_dil").glob("*.json"):
        if path.name.startswith(("manifest", "current")):
            path.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "carry_out", _die)
        with pytest.raises(Killed):
            story.run(day(2))
    lost = [path for path in story.staged() if unit_hash(work_unit(0, "a")) in str(path)]
    for path in lost:
        path.unlink()
    job = story.job()

    def clock() -> int:
        return story.clock + 3_600_000

    with story.store() as store, leased(job, store, "finish", clock) as lease:
        run_history.finish_publish(job, store, lease, run_history.recorded_publish(job, store))

    assert any(path.suffix == ".parquet" for path in lost)
    assert published_ids(visible_files(story.folder)) == ids_of("a", "b", days=range(2))
