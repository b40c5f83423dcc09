"""Rows that were put aside go the way of staged files, and are no live files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dil.errors import WriteError
from dil.model.dataset import Intent
from dil.model.job import Job
from dil.publishing.layout import quarantine_dir
from dil.publishing.manifest import live_files
from dil.publishing.publisher import Publisher, quarantined_files, untracked_files
from dil.publishing.results import FinishedUnit, PublishTarget
from dil.publishing.staged import read_results, write_result
from dil.state import open_store
from dil.storage import LocalFilesystem
from tests.unit.publishing.published import decided, failed, job, report, result, staged_file, unit

files = LocalFilesystem()


def target(**changes: object) -> PublishTarget:
    base = PublishTarget(
        run_id="r1", output_dir="/lake/shop/orders", live=(), untracked=(), system_time=5, horizon=7
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def with_rows_aside(folder: Path, number: int = 0) -> FinishedUnit:
    one = unit(number)
    kept = report(one, staged_file(folder / "s", f"part-{number}.parquet"))
    return FinishedUnit(
        one, replace(kept, quarantined=(staged_file(folder / "s", f"quarantine-{number}.json"),))
    )


def test_rows_aside_are_moves_of_their_own_and_named_by_run_and_work_unit(tmp_path: Path) -> None:
    orders = job(tmp_path)
    commit = decided(orders, target(), [with_rows_aside(tmp_path)], files)

    (move,) = commit.quarantine
    name = f"part-r1-{unit().hash}-0.json"
    assert move.target.uri == files.uri(f"{quarantine_dir(orders.publishing)}/{name}")
    assert [move.target.uri.rpartition(".")[2] for move in commit.moves] == ["parquet"]
    assert len(commit.all_moves) == 2


def test_rows_aside_of_a_failed_work_unit_are_never_published(tmp_path: Path) -> None:
    broken = replace(failed(unit()), quarantined=(staged_file(tmp_path, "quarantine-0.json"),))
    assert decided(job(tmp_path), target(), [FinishedUnit(unit(), broken)], files).quarantine == ()


@pytest.mark.parametrize(
    ("mode", "gone"),
    [("append", []), ("window_replace", ["old-0"]), ("replace", ["old-0", "old-1"])],
)
def test_older_rows_aside_go_with_what_is_replaced(
    tmp_path: Path, mode: str, gone: list[str]
) -> None:
    uris = {
        "old-0": f"file:///q/part-r0-{unit(0).hash}-0.json",
        "old-1": f"file:///q/part-r0-{unit(1).hash}-0.json",
        "own": f"file:///q/part-r1-{unit(0).hash}-0.json",
    }
    commit = decided(
        job(tmp_path, ms__publish__mode=mode),
        target(quarantined=tuple(uris.values())),
        [with_rows_aside(tmp_path)],
        files,
    )
    assert commit.quarantine_removes == tuple(uris[name] for name in gone)


def carry_out(intent: Intent, orders: Job) -> None:
    with open_store(orders.state, orders.name, clock=lambda: 7) as store:
        Publisher(orders, store, files).carry_out(intent)


def test_carrying_out_moves_rows_aside_once_and_lists_them_nowhere(tmp_path: Path) -> None:
    orders = job(tmp_path)
    spec = orders.publishing
    dataset = tmp_path / "lake" / "shop" / "orders"
    commit = decided(orders, target(output_dir=str(dataset)), [with_rows_aside(tmp_path)], files)
    intent = Intent(commit, 1, str(dataset), 0)

    carry_out(intent, orders)
    carry_out(intent, orders)

    assert [path.name for path in (dataset / "_quarantine").iterdir()] == [
        f"part-r1-{unit().hash}-0.json"
    ]
    assert [file.uri for file in live_files(files, str(dataset))] == [commit.moves[0].target.uri]
    replacing = job(tmp_path, ms__publish__mode="replace").publishing
    assert untracked_files(replacing, live_files(files, str(dataset)), files) == ()
    assert quarantined_files(replacing, files) == (commit.quarantine[0].target.uri,)
    assert quarantined_files(spec, files) == ()


def test_readers_see_no_rows_of_a_commit_whose_rows_aside_are_not_in_place(tmp_path: Path) -> None:
    """Else a publish that is given up after its manifest would lose the rows aside."""
    orders = job(tmp_path)
    dataset = tmp_path / "lake" / "shop" / "orders"
    commit = decided(orders, target(output_dir=str(dataset)), [with_rows_aside(tmp_path)], files)
    Path(commit.quarantine[0].source).unlink()

    with pytest.raises(WriteError):
        carry_out(Intent(commit, 1, str(dataset), 0), orders)

    assert live_files(files, str(dataset)) == ()


def test_a_commit_of_rows_aside_alone_writes_no_manifest(tmp_path: Path) -> None:
    orders = job(tmp_path)
    dataset = tmp_path / "lake" / "shop" / "orders"
    aside = with_rows_aside(tmp_path)
    only = FinishedUnit(aside.work_unit, replace(aside.report, files=()))
    commit = decided(orders, target(output_dir=str(dataset)), [only], files)

    carry_out(Intent(commit, 1, str(dataset), 0), orders)

    assert not (dataset / "_dil").exists()
    assert len(list((dataset / "_quarantine").iterdir())) == 1


def test_an_attempt_that_lost_rows_aside_is_not_complete(tmp_path: Path) -> None:
    folder = tmp_path / "run" / unit().hash / "1-a"
    aside = with_rows_aside(folder)
    made = replace(
        aside.report,
        quarantined=(staged_file(folder, "quarantine-0.json"),),
        files=(staged_file(folder, "part-0.parquet"),),
    )
    write_result(files, str(folder), result(aside.work_unit, made))
    (found,) = read_results(files, str(tmp_path / "run"))
    assert found.report == made

    (folder / "quarantine-0.json").unlink()
    assert list(read_results(files, str(tmp_path / "run"))) == []


def test_the_recorded_schema_fits_what_was_known_and_what_is_new(tmp_path: Path) -> None:
    first, second = with_rows_aside(tmp_path, 0), with_rows_aside(tmp_path, 1)
    texts = ["id: int64\nnew: string", "id: int32"]
    finished = [
        replace(each, report=replace(each.report, schema=text))
        for each, text in zip((first, second), texts, strict=True)
    ]
    known = target(known_schema="id: int32 not null\nold: bool")

    appended = decided(job(tmp_path), known, finished, files).schema
    assert appended.splitlines() == ["id: int64", "old: bool", "new: string"]
    replaced = decided(job(tmp_path, ms__publish__mode="replace"), known, finished, files).schema
    assert replaced.splitlines() == ["id: int64", "new: string"]


def test_a_schema_that_cannot_be_read_never_stops_a_publish(tmp_path: Path) -> None:
    known = target(known_schema="odd: name: int64")
    commit = decided(job(tmp_path), known, [with_rows_aside(tmp_path)], files)
    assert commit.schema == "id: int64"


def test_a_run_without_rows_leaves_the_recorded_schema_alone(tmp_path: Path) -> None:
    empty = FinishedUnit(unit(), replace(report(unit()), schema=""))
    assert decided(job(tmp_path), target(known_schema="id: int64"), [empty], files).schema == ""
