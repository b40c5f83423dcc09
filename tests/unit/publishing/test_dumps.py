"""Dumped files: names that come back, and what must not be lost or overwritten for it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dil.errors import StateError, WriteError
from dil.model.dataset import Commit, Intent, Move, PublishedFile
from dil.model.job import PublishingSpec
from dil.model.task import StagedFile, TaskReport
from dil.publishing.dumps import check_places, fail_equal_names, is_lost
from dil.publishing.files import FileDestination
from dil.publishing.layout import AUDIT, META, QUARANTINE, REFUSED, STAGING
from dil.publishing.manifest import live_files
from dil.publishing.withdrawal import bring_back, withdraw
from dil.storage import LocalFilesystem
from dil.text.file_names import RESERVED

FILES = LocalFilesystem()


def spec(folder: Path) -> PublishingSpec:
    return PublishingSpec(str(folder / "lake"), "", file_mode=0o640)


def staged(folder: Path, name: str, body: bytes) -> Move:
    """Stage a file as a task would, on its way to its name."""
    path = folder / "lake" / "_staging" / f"{len(body)}-{name.replace('/', '-')}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    uri = (folder / "lake" / name).as_uri()
    digest = hashlib.sha256(body).hexdigest()
    return Move(str(path), PublishedFile(uri, "s", 1, len(body), digest, "run", is_dump=True))


def commit_of(*moves: Move, run_id: str, removes: tuple[PublishedFile, ...] = ()) -> Commit:
    return Commit(run_id, "d", "dil/j", moves, removes, "", 0, 0)


def intent_of(folder: Path, *moves: Move, sequence: int, **rest) -> Intent:
    return Intent(commit_of(*moves, run_id=f"run-{sequence}", **rest), 1,
                  str(folder / "lake"), sequence)  # fmt: skip


def carry_out(intent: Intent, folder: Path) -> None:
    FileDestination(spec(folder), FILES).carry_out(intent)


def test_a_file_takes_the_place_of_the_one_of_its_name_with_its_own_permission(
    tmp_path: Path,
) -> None:
    first, second = staged(tmp_path, "a", b"one"), staged(tmp_path, "a", b"second")
    carry_out(intent_of(tmp_path, first, sequence=0), tmp_path)
    carry_out(intent_of(tmp_path, second, sequence=1, removes=(first.target,)), tmp_path)
    target = tmp_path / "lake" / "a"
    assert target.read_bytes() == b"second"
    assert target.stat().st_mode & 0o777 == 0o640
    assert live_files(FILES, str(tmp_path / "lake")) == (second.target,)


def test_a_driver_that_wakes_up_late_does_not_bring_an_older_file_back(tmp_path: Path) -> None:
    first, second = staged(tmp_path, "a", b"one"), staged(tmp_path, "a", b"second")
    older = intent_of(tmp_path, first, sequence=0)
    carry_out(older, tmp_path)
    carry_out(intent_of(tmp_path, second, sequence=1, removes=(first.target,)), tmp_path)
    carry_out(older, tmp_path)
    assert (tmp_path / "lake" / "a").read_bytes() == b"second"
    assert live_files(FILES, str(tmp_path / "lake")) == (second.target,)


def test_a_staged_file_that_is_gone_is_lost_although_an_older_one_has_its_name(
    tmp_path: Path,
) -> None:
    move = staged(tmp_path, "a", b"new")
    target = tmp_path / "lake" / "a"
    target.write_bytes(b"old")
    assert not is_lost(move, FILES)
    Path(move.source).unlink()
    assert is_lost(move, FILES)
    target.write_bytes(b"new")
    assert not is_lost(move, FILES)
    target.unlink()
    assert is_lost(move, FILES)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("folder", "is a folder"),
        ("file/x", "is a file"),
        ("out/x", "is a link out of"),
        ("other/deep/x", "is another dataset"),
        ("d/" * 2100 + "x", "too many bytes"),
    ],
)
def test_places_where_a_file_could_not_go_are_refused_before_the_intent(
    tmp_path: Path, name: str, why: str
) -> None:
    lake = tmp_path / "lake"
    (lake / "folder").mkdir(parents=True)
    (lake / "file").write_text("")
    (lake / "out").symlink_to(tmp_path)
    (lake / "other" / "_dil").mkdir(parents=True)
    with pytest.raises(WriteError, match=why):
        check_places(spec(tmp_path), FILES, [StagedFile("/s", 1, 1, "", name)])


def test_links_that_stay_inside_and_a_linked_final_directory_are_fine(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "b").symlink_to(tmp_path / "real" / "a")
    check_places(spec(tmp_path), FILES, [StagedFile("/s", 1, 1, "", "b/x")])


def report(signature: str, *names: str) -> TaskReport:
    files = tuple(StagedFile(f"/{signature}/{name}", 1, 1, "", name) for name in names)
    return TaskReport(signature, 0, 1, 1, files)


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a"), ("a/b", "a"), ("a", "a/b"), ("a", "a/b/c")]
)
def test_of_two_names_that_cannot_both_be_neither_counts(first: str, second: str) -> None:
    one, two, other = fail_equal_names(
        [report("1", first, "x"), report("2", "y", second), report("3", "z")]
    )
    for clashing, owner in ((one, "2"), (two, "1")):
        assert clashing.failure is not None
        assert f"work unit {owner}" in clashing.failure.error
        assert clashing.files == ()
    assert other.failure is None


def test_files_of_rows_never_clash() -> None:
    file = StagedFile("/part-0.avro", 3, 1, "")
    reports = [TaskReport(name, 0, 1, 1, (file,)) for name in "ab"]
    assert fail_equal_names(reports) == tuple(reports)


def test_what_is_reserved_is_what_this_project_keeps() -> None:
    assert {META, STAGING, QUARANTINE, REFUSED, AUDIT} == RESERVED


def test_a_withdrawn_file_comes_back_unless_its_name_was_dumped_again(tmp_path: Path) -> None:
    move = staged(tmp_path, "d/a", b"one")
    carry_out(intent_of(tmp_path, move, sequence=0), tmp_path)
    withdraw(FILES, spec(tmp_path), "act-1", [move.target])
    target = tmp_path / "lake" / "d" / "a"
    target.unlink()
    uris = frozenset({move.target.uri})
    (back,) = bring_back(FILES, spec(tmp_path), "act-1", uris)
    assert back.target == move.target
    target.write_bytes(b"dumped again")
    with pytest.raises(StateError, match="was dumped again"):
        bring_back(FILES, spec(tmp_path), "act-1", uris)
