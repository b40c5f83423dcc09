"""How small files are put together: into bins of neighbours, into commits of bins."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dil.model.dataset import PublishedFile
from dil.operator.compaction import _bins, _commits

SIZES = st.lists(st.integers(1, 50), max_size=60)


def files_of(sizes: list[int]) -> list[PublishedFile]:
    return [
        PublishedFile(f"file:///lake/part-{number}.parquet", "a", 1, size, "", "run-1")
        for number, size in enumerate(sizes)
    ]


@given(SIZES, st.integers(1, 100), st.integers(2, 9))
def test_bins_hold_neighbours_within_the_target_and_the_most_files(
    sizes: list[int], target: int, most: int
) -> None:
    files = files_of(sizes)

    bins = list(_bins(files, target, most))

    taken = [file for each in bins for file in each.files]
    assert taken == [file for file in files if file in taken]
    for each in bins:
        first = files.index(each.files[0])
        assert list(each.files) == files[first : first + len(each.files)]
        assert 2 <= len(each.files) <= most
        assert each.bytes <= target


@given(SIZES, st.integers(2, 9))
def test_commits_hold_every_bin_once_and_at_most_so_many_files(sizes: list[int], most: int) -> None:
    bins = list(_bins(files_of(sizes), 40, most))

    commits = list(_commits(bins, most))

    assert [each for commit in commits for each in commit] == bins
    assert all(sum(len(each.files) for each in commit) <= most for commit in commits)
