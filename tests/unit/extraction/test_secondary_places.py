"""Which files a path of secondary input means (docs/secondary-input.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dil.extraction.secondary.places import InputNotThereError, find_files
from dil.storage import LocalFilesystem


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")


def dataset(folder: Path, *live: str) -> None:
    """Make a folder a dataset of ours; its manifest lists these files."""
    make(folder, "_dil/owner.json", *live)
    (folder / "_dil" / "live").write_text(json.dumps([str(folder / name) for name in live]))


def live_files(filesystem: LocalFilesystem, folder: str) -> list[str] | None:
    path = Path(folder) / "_dil" / "live"
    return json.loads(path.read_text()) if path.exists() else None


def found(folder: Path, below: str = "") -> list[str]:
    path = str(folder / below) if below else str(folder)
    files = find_files(LocalFilesystem(), path, live_files)
    return [str(Path(file).relative_to(folder)) for file in files]


def test_a_folder_is_read_with_all_below_it_sorted_by_path(tmp_path):
    make(tmp_path, "b.json", "a/z.json", "a/b/c.json", "c.json")
    assert found(tmp_path) == ["a/b/c.json", "a/z.json", "b.json", "c.json"]


def test_names_that_begin_with_a_dot_or_an_underscore_are_skipped(tmp_path):
    make(tmp_path, "a.json", "_SUCCESS", ".a.json.crc", "_staging/x/b.json", ".git/c.json")
    assert found(tmp_path) == ["a.json"]


def test_a_hidden_folder_above_the_path_does_not_count(tmp_path):
    make(tmp_path, ".demo/lake/a.json")
    assert found(tmp_path, ".demo/lake") == [".demo/lake/a.json"]


def test_a_file_stands_for_itself_once_even_when_its_name_is_hidden(tmp_path):
    make(tmp_path, "a.json", "b.json", "_c.json")
    assert found(tmp_path, "a.json") == ["a.json"]
    assert found(tmp_path, "_c.json") == ["_c.json"]


def test_an_empty_folder_has_no_files(tmp_path):
    assert found(tmp_path) == []


@pytest.mark.parametrize("below", ["no", "a.json/b", "*"])
def test_what_does_not_exist_is_not_there(tmp_path, below):
    make(tmp_path, "a.json")
    with pytest.raises(InputNotThereError, match="does not exist"):
        found(tmp_path, below)


def test_of_a_dataset_only_the_live_files_count(tmp_path):
    dataset(tmp_path, "part-1.json", "run/part-2.json")
    make(tmp_path, "part-0.json", "run/part-3.json")
    assert found(tmp_path) == ["part-1.json", "run/part-2.json"]


def test_a_folder_inside_a_dataset_has_the_live_files_below_it(tmp_path):
    dataset(tmp_path, "part-1.json", "run/part-2.json", "running/part-3.json")
    make(tmp_path, "run/part-9.json")
    assert found(tmp_path, "run") == ["run/part-2.json"]


def test_datasets_below_the_path_are_found_beside_plain_files(tmp_path):
    dataset(tmp_path / "b", "live.json")
    make(tmp_path, "b/stale.json", "a/plain.json", "_staging/c/_dil/live", "d.json")
    assert found(tmp_path) == ["a/plain.json", "b/live.json", "d.json"]


def test_a_dataset_whose_last_run_removed_all_files_is_empty(tmp_path):
    dataset(tmp_path)
    make(tmp_path, "stale.json")
    assert found(tmp_path) == []


@pytest.mark.parametrize("below", ["lake", "lake/orders", "lake/orders/run"])
def test_a_dataset_that_no_run_has_published_to_is_not_there_yet(tmp_path, below):
    make(tmp_path, "lake/orders/_dil/owner.json", "lake/orders/run/a.json")
    with pytest.raises(InputNotThereError, match="has published nothing yet"):
        found(tmp_path, below)


def test_a_hidden_folder_of_a_dataset_is_read_as_it_is_where_the_path_names_it(tmp_path):
    dataset(tmp_path, "part-1.json")
    make(tmp_path, "_failed/part-r1.json", "_failed/_part.json")
    assert found(tmp_path, "_failed") == ["_failed/part-r1.json"]
    assert found(tmp_path) == ["part-1.json"]


def test_the_search_for_a_dataset_around_a_folder_ends_at_its_host():
    asked = []

    class Remote(LocalFilesystem):
        def exists(self, path):
            asked.append(path)
            return "_dil" not in path

        def files(self, path):
            return iter(())

    assert list(find_files(Remote(), "hdfs://namenode/lake/ids", live_files)) == []
    assert {path.split("/")[2] for path in asked} == {"namenode"}
