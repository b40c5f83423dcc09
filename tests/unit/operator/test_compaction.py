"""How small files are compacted: in commits of groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dil.model.dataset import PublishedFile
from dil.operator.compaction.planning import FileGroup, commits_of
from dil.publishing.shared_files import packed

SIZES = st.lists(st.integers(1, 50), max_size=60)


def files_of(sizes: list[int]) -> list[PublishedFile]:
    return [
        PublishedFile(f"file:///lake/part-{number}.parquet", "a", 1, size, "", "run-1")
        for number, size in enumerate(sizes)
    ]


@given(SIZES, st.integers(2, 9))
def test_commits_hold_every_group_once_and_at_most_so_many_files(
    sizes: list[int], most: int
) -> None:
    groups = [FileGroup(each) for each in packed(files_of(sizes), 40, most)]

    commits = list(commits_of(groups, most))

    assert [each for commit in commits for each in commit] == groups
    assert all(sum(len(each.files) for each in commit) <= most for commit in commits)
