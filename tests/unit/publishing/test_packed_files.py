"""Which small files become one: neighbours, up to the size that files are to have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dil.model.dataset import PublishedFile
from dil.publishing.shared_files import packed


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 100), st.integers(2, 9))
def test_groups_hold_neighbours_within_the_target_and_the_most_files(
    sizes: list[int], target: int, most: int
) -> None:
    files = [
        PublishedFile(f"file:///lake/part-{number}.parquet", "a", 1, size, "", "run-1")
        for number, size in enumerate(sizes)
    ]

    groups = list(packed(files, target, most))

    taken = [file for each in groups for file in each]
    assert taken == [file for file in files if file in taken]
    for each in groups:
        first = files.index(each[0])
        assert list(each) == files[first : first + len(each)]
        assert 2 <= len(each) <= most
        assert sum(file.bytes for file in each) <= target
