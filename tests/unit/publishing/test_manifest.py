import json

import pytest

from dil.errors import WriteError
from dil.model.dataset import Commit, Move, PublishedFile
from dil.publishing import manifest
from dil.storage import LocalFilesystem

files = LocalFilesystem()


def published(name, run_id="r"):
    return PublishedFile(f"file:///out/{name}", f"sig-{name}", 1, 10, "", run_id)


def commit(run_id, adds=(), removes=(), job="j"):
    moves = tuple(Move(f"/staged/{name}", published(name, run_id)) for name in adds)
    return Commit(run_id, "", f"dil/{job}", moves, tuple(removes), "", 0, 0)


def names(tmp_path):
    live = manifest.live_files(files, str(tmp_path))
    return [each.uri.rpartition("/")[2] for each in live]


def test_a_dataset_without_manifest_has_no_live_files(tmp_path):
    assert names(tmp_path) == []


def test_each_commit_builds_on_the_one_before(tmp_path):
    manifest.advance(files, str(tmp_path), commit("r1", ["a", "b"]), 0)
    manifest.advance(files, str(tmp_path), commit("r2", ["c"], [published("a", "r1")]), 1)
    assert names(tmp_path) == ["b", "c"]


def test_a_dumped_file_is_listed_once_if_another_job_has_just_listed_its_name(tmp_path):
    manifest.advance(files, str(tmp_path), commit("r1", ["a"]), 0)
    manifest.advance(files, str(tmp_path), commit("r2", ["a"], job="other"), 0)

    (file,) = manifest.live_files(files, str(tmp_path))
    assert file.run_id == "r2"


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


def manifests(tmp_path):
    return {path.name: path.read_bytes() for path in (tmp_path / "_dil").glob("manifest-*.json")}


def test_a_driver_that_slept_until_its_manifest_was_dropped_changes_nothing(tmp_path):
    late = commit("r0", ["f0"])
    for number in range(30):
        manifest.advance(files, str(tmp_path), commit(f"r{number}", [f"f{number}"]), number)
    manifest.advance(files, str(tmp_path), commit("r30", ["g"], [published("f0", "r0")]), 30)
    before = manifests(tmp_path)

    manifest.advance(files, str(tmp_path), late, 0)

    assert manifests(tmp_path) == before


class Suspended(LocalFilesystem):
    """A filesystem whose first ``put_if_absent`` is overtaken by others."""

    def __init__(self, meanwhile):
        self._meanwhile = meanwhile

    def put_if_absent(self, path, data):
        meanwhile, self._meanwhile = self._meanwhile, []
        for args in meanwhile:
            manifest.advance(files, *args)
        return super().put_if_absent(path, data)


@pytest.mark.parametrize("hint", ["there", "lost"])
def test_a_driver_that_slept_while_it_wrote_leaves_the_newest_as_it_is(tmp_path, hint):
    late = commit("r0", ["f0"])
    others = [(str(tmp_path), commit(f"r{number}", [f"f{number}"]), number) for number in range(30)]

    manifest.advance(Suspended(others), str(tmp_path), late, 0)

    assert "manifest-0.json" not in manifests(tmp_path)
    if hint == "lost":
        (tmp_path / "_dil" / "current.json").unlink()
    assert manifest.newest(files, str(tmp_path)).sequence == 29
    assert names(tmp_path) == [f"f{number}" for number in range(30)]


def test_a_driver_that_others_overtook_and_did_not_finish_adds_its_files_once(tmp_path):
    others = [
        (str(tmp_path), commit(f"k{number}", [f"k{number}"], job="k"), number)
        for number in range(30)
    ]

    manifest.advance(Suspended(others), str(tmp_path), commit("r0", ["mine"]), 0)

    assert names(tmp_path) == [*(f"k{number}" for number in range(30)), "mine"]


@pytest.mark.parametrize("others", [2, 30])
def test_a_driver_that_slept_before_the_hint_does_not_set_it_back(tmp_path, others):
    meanwhile = [
        (str(tmp_path), commit(f"k{n}", [f"k{n}"], job="k"), n) for n in range(1, others + 1)
    ]

    class Suspended(LocalFilesystem):
        """A filesystem whose hints are written only after all others have published."""

        def put(self, path, data):
            while meanwhile:
                manifest.advance(files, *meanwhile.pop(0))
            super().put(path, data)

    manifest.advance(Suspended(), str(tmp_path), commit("r0", ["mine"]), 0)

    hint = json.loads((tmp_path / "_dil" / "current.json").read_bytes())
    assert hint == {"sequence": others, "manifest": f"manifest-{others}.json"}


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
    manifest.advance(files, str(tmp_path), commit("other", ["x"], job="k"), 0)
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


def test_files_of_the_same_cluster_by_another_name_are_not_taken_for_others(tmp_path):
    elsewhere = PublishedFile("hdfs://nn1:8020/lake/a", "sig", 1, 10, "", "r1")
    moved = Commit("r1", "", "dil/j", (Move("/staged/a", elsewhere),), (), "", 0, 0)
    with pytest.raises(WriteError, match="another address: hdfs://nn1:8020/lake/a"):
        manifest.advance(files, str(tmp_path), moved, 0)
    with pytest.raises(WriteError, match="Use the address of the runs that"):
        manifest.newest(files, str(tmp_path))
