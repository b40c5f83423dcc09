"""What results mean for the dataset and for state."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from dil.model.dataset import PublishedFile
from dil.publishing.results import FinishedUnit, PublishTarget
from dil.storage import LocalFilesystem
from tests.servers.rows import DAY_MS, START_MS
from tests.unit.publishing.published import decided, failed, job, report, staged_file, unit

files = LocalFilesystem()


def live(number: int, name: str) -> PublishedFile:
    return PublishedFile(f"file:///lake/{name}", unit(number).signature, 1, 1, "", "r0")


def target(**changes: object) -> PublishTarget:
    base = PublishTarget(
        run_id="r1", output_dir="/lake/shop/orders", live=(), untracked=(), system_time=5, horizon=7
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_files_are_named_by_run_work_unit_and_number(tmp_path: Path) -> None:
    staged = [staged_file(tmp_path / "s", f"part-{number}.parquet") for number in range(2)]

    commit = decided(
        job(tmp_path), target(), [FinishedUnit(unit(), report(unit(), *staged))], files
    )

    stem = f"file:///lake/shop/orders/part-r1-{unit().hash}"
    assert [move.target.uri for move in commit.moves] == [
        f"{stem}-0.parquet",
        f"{stem}-1.parquet",
    ]
    first = commit.moves[0]
    assert first.source == staged[0].path
    assert (first.target.rows, first.target.bytes) == (staged[0].rows, staged[0].bytes)
    assert (first.target.sha256, first.target.run_id) == (staged[0].sha256, "r1")
    assert first.target.signature == unit().signature


def test_rows_are_in_the_name_on_request(tmp_path: Path) -> None:
    counting = job(tmp_path, writer__include__record__count__in__file__names="true")
    staged = staged_file(tmp_path / "s", "part-0.parquet", rows=12)

    commit = decided(counting, target(), [FinishedUnit(unit(), report(unit(), staged))], files)

    assert commit.moves[0].target.uri.endswith("-0.12.parquet")


def test_deciding_again_gives_the_same_commit(tmp_path: Path) -> None:
    finished = [FinishedUnit(unit(), report(unit(), staged_file(tmp_path / "s", "part-0.parquet")))]
    orders = job(tmp_path)

    assert decided(orders, target(), finished, files) == decided(orders, target(), finished, files)


def test_outcomes_of_one_unit_share_its_key_which_is_freed_with_them(tmp_path: Path) -> None:
    finished = [FinishedUnit(unit(number), report(unit(number))) for number in range(2)]

    first, second = decided(job(tmp_path), target(), finished, files).run.outcomes

    assert first.unit_key is second.unit_key
    # Python 3.12 never frees an interned text, and a stream of files has a unit for each file.
    assert sys.intern("".join(list(first.unit_key))) is not first.unit_key


def test_an_outcome_tells_success_by_its_high_and_failure_by_its_error(tmp_path: Path) -> None:
    pruned = structs.replace(unit(1), low=unit(1).low + 5, timelabel="2020-01-02")
    finished = [
        FinishedUnit(unit(0), failed(unit(0), attempts=5)),
        FinishedUnit(pruned, report(pruned, attempts=2)),
    ]

    bad, good = decided(job(tmp_path), target(), finished, files).run.outcomes

    assert (bad.high, bad.error, bad.attempts, bad.succeeded) == (None, "no", 5, False)
    assert (good.high, good.error, good.attempts) == (START_MS + 2 * DAY_MS, "", 2)
    # The nominal start, however little was read.
    assert (good.low, good.expected_high) == (START_MS + DAY_MS, START_MS + 2 * DAY_MS)
    assert (good.unit_key, good.timelabel) == ("unit.{}", "2020-01-02")


def test_append_takes_nothing_away(tmp_path: Path) -> None:
    commit = decided(
        job(tmp_path),
        target(live=(live(0, "a"),), untracked=(live(1, "b"),)),
        [FinishedUnit(unit(0), report(unit(0)))],
        files,
    )

    assert commit.removes == ()


def test_replace_takes_everything_away_untracked_files_too(tmp_path: Path) -> None:
    commit = decided(
        job(tmp_path, ms__publish__mode="replace"),
        target(live=(live(0, "a"), live(1, "b")), untracked=(live(9, "c"),)),
        [FinishedUnit(unit(0), report(unit(0)))],
        files,
    )

    assert [file.uri[-1] for file in commit.removes] == ["a", "b", "c"]


def test_window_replace_takes_away_what_the_succeeded_work_units_published(
    tmp_path: Path,
) -> None:
    commit = decided(
        job(tmp_path, ms__publish__mode="window_replace"),
        target(live=(live(0, "a"), live(0, "b"), live(1, "c"), live(2, "d"))),
        [FinishedUnit(unit(0), report(unit(0))), FinishedUnit(unit(1), failed(unit(1)))],
        files,
    )

    assert [file.uri[-1] for file in commit.removes] == ["a", "b"]


def test_window_replace_knows_its_files_by_name_where_the_manifests_are_gone(
    tmp_path: Path,
) -> None:
    lost = [live(9, f"part-r0-{one.hash}-0.parquet") for one in (unit(0), unit(1))]

    commit = decided(
        job(tmp_path, ms__publish__mode="window_replace"),
        target(untracked=(*lost, live(9, "foreign.parquet"))),
        [FinishedUnit(unit(0), report(unit(0)))],
        files,
    )

    assert commit.removes == (lost[0],)


def test_only_files_of_successes_are_published(tmp_path: Path) -> None:
    staged = staged_file(tmp_path / "s", "part-0.parquet")
    broken = replace(failed(unit(1)), files=(staged,))

    commit = decided(job(tmp_path), target(), [FinishedUnit(unit(1), broken)], files)

    assert (commit.moves, len(commit.run.outcomes)) == ((), 1)


def test_the_schema_is_of_a_success_that_wrote_rows(tmp_path: Path) -> None:
    finished = [
        FinishedUnit(unit(0), replace(failed(unit(0)), schema="bad: string")),
        FinishedUnit(unit(1), replace(report(unit(1)), schema="")),
        FinishedUnit(unit(2), report(unit(2))),
    ]

    assert decided(job(tmp_path), target(), finished, files).schema == "id: int64"
    assert decided(job(tmp_path), target(), finished[:2], files).schema == ""


@pytest.mark.parametrize(("enabled", "kept"), [("true", True), ("false", False)])
def test_without_a_state_store_no_watermarks_are_kept(
    tmp_path: Path, enabled: str, kept: bool
) -> None:
    commit = decided(job(tmp_path, state__store__enabled=enabled), target(), [], files)

    assert commit.run.watermarks is kept


def test_the_commit_carries_run_clocks_and_configuration(tmp_path: Path) -> None:
    orders = job(tmp_path)

    commit = decided(orders, target(left_low=3), [], files)

    assert (commit.run_id, commit.system_time, commit.horizon, commit.run.left_low) == (
        "r1",
        5,
        7,
        3,
    )
    assert (commit.config_digest, commit.source_name) == (orders.digest, "dil/orders")
