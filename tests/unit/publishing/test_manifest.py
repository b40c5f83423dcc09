from dil.model.dataset import Commit, Move, PublishedFile
from dil.publishing import manifest
from dil.storage import LocalFilesystem

files = LocalFilesystem()


def published(name, run_id="r"):
    return PublishedFile(f"file:///out/{name}", f"sig-{name}", 1, 10, "", run_id)


def commit(run_id, adds=(), removes=()):
    moves = tuple(Move(f"/staged/{name}", published(name, run_id)) for name in adds)
    return Commit(run_id, "", "dil/j", moves, tuple(removes), (), "", 0, 0)


def names(tmp_path):
    live = manifest.live_files(files, str(tmp_path))
    return [each.uri.rpartition("/")[2] for each in live]


def test_a_dataset_without_manifest_has_no_live_files(tmp_path):
    assert names(tmp_path) == []


def test_each_commit_builds_on_the_one_before(tmp_path):
    manifest.advance(files, str(tmp_path), commit("r1", ["a", "b"]), 0)
    manifest.advance(files, str(tmp_path), commit("r2", ["c"], [published("a", "r1")]), 1)
    assert names(tmp_path) == ["b", "c"]


def test_writing_the_same_commit_again_changes_nothing(tmp_path):
    for _ in range(3):
        manifest.advance(files, str(tmp_path), commit("r1", ["a"]), 0)
    assert names(tmp_path) == ["a"]
    assert manifest.newest(files, str(tmp_path)).sequence == 0


def test_a_driver_that_wakes_up_late_does_not_bring_back_replaced_files(tmp_path):
    first = commit("r1", ["a"])
    manifest.advance(files, str(tmp_path), first, 0)
    manifest.advance(files, str(tmp_path), commit("r2", ["a2"], [published("a", "r1")]), 1)
    manifest.advance(files, str(tmp_path), first, 0)
    assert names(tmp_path) == ["a2"]


def test_a_stale_hint_does_not_hide_the_newest_manifest(tmp_path):
    manifest.advance(files, str(tmp_path), commit("r1", ["a"]), 0)
    hint = (tmp_path / "_dil" / "current.json").read_bytes()
    manifest.advance(files, str(tmp_path), commit("r2", ["b"]), 1)
    (tmp_path / "_dil" / "current.json").write_bytes(hint)
    assert names(tmp_path) == ["a", "b"]


def test_finishing_a_commit_brings_a_hint_up_to_date_that_a_crash_left_behind(tmp_path):
    manifest.advance(files, str(tmp_path), commit("r1", ["a"]), 0)
    hint = tmp_path / "_dil" / "current.json"
    behind = hint.read_bytes()
    manifest.advance(files, str(tmp_path), commit("r2", ["b"]), 1)
    up_to_date = hint.read_bytes()
    hint.write_bytes(behind)
    manifest.advance(files, str(tmp_path), commit("r2", ["b"]), 1)
    assert hint.read_bytes() == up_to_date


def test_a_lost_hint_does_not_lose_files(tmp_path):
    for number in range(30):
        manifest.advance(files, str(tmp_path), commit(f"r{number}", [f"f{number}"]), number)
    (tmp_path / "_dil" / "current.json").unlink()
    assert names(tmp_path) == [f"f{number}" for number in range(30)]


def test_losing_a_number_to_another_job_keeps_the_files_of_both(tmp_path):
    manifest.advance(files, str(tmp_path), commit("other", ["x"]), 0)
    manifest.advance(files, str(tmp_path), commit("mine", ["y"]), 0)
    assert names(tmp_path) == ["x", "y"]


def test_old_manifests_do_not_pile_up(tmp_path):
    for number in range(60):
        manifest.advance(files, str(tmp_path), commit(f"r{number}", [f"f{number}"]), number)
    kept = list((tmp_path / "_dil").glob("manifest-*.json"))
    assert len(kept) <= 21


def test_a_lost_newest_manifest_falls_back_to_the_one_before(tmp_path):
    manifest.advance(files, str(tmp_path), commit("r1", ["a"]), 0)
    manifest.advance(files, str(tmp_path), commit("r2", ["b"]), 1)
    (tmp_path / "_dil" / "manifest-1.json").unlink()
    assert names(tmp_path) == ["a"]
    manifest.advance(files, str(tmp_path), commit("r3", ["c"]), 1)
    assert names(tmp_path) == ["a", "c"]
