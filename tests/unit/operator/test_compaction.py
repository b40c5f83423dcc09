"""How small files are compacted: in groups of neighbours, in commits of groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dil.model.dataset import PublishedFile
from dil.operator.compaction.planning import _groups, commits_of

SIZES = st.lists(st.integers(1, 50), max_size=60)


def files_of(sizes: list[int]) -> list[PublishedFile]:
    return [
        PublishedFile(f"file:///lake/part-{number}.parquet", "a", 1, size, "", "run-1")
        for number, size in enumerate(sizes)
    ]


@given(SIZES, st.integers(1, 100), st.integers(2, 9))
def test_groups_hold_neighbours_within_the_target_and_the_most_files(
    sizes: list[int], target: int, most: int
) -> None:
    files = files_of(sizes)

    groups = list(_groups(files, target, most))

    taken = [file for each in groups for file in each.files]
    assert taken == [file for file in files if file in taken]
    for each in groups:
        first = files.index(each.files[0])
        assert list(each.files) == files[first : first + len(each.files)]
        assert 2 <= len(each.files) <= most
        assert each.bytes <= target


@given(SIZES, st.integers(2, 9))
def test_commits_hold_every_group_once_and_at_most_so_many_files(
    sizes: list[int], most: int
) -> None:
    groups = list(_groups(files_of(sizes), 40, most))

    commits = list(commits_of(groups, most))

    assert [each for commit in commits for each in commit] == groups
    assert all(sum(len(each.files) for each in commit) <= most for commit in commits)
