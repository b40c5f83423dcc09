"""How small files are compacted: in commits of groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.model.dataset import PublishedFile
from dil.operator.compaction import planning
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


@given(SIZES, st.integers(60, 200))
def test_commits_of_several_groups_hold_at_most_so_many_bytes(sizes: list[int], most: int) -> None:
    groups = [FileGroup(each) for each in packed(files_of(sizes), 40, 9)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "BYTES_PER_COMMIT", most)
        commits = list(commits_of(groups, 1_000))

    assert all(sum(each.bytes for each in commit) <= most for commit in commits if commit[1:])
    assert [each for commit in commits for each in commit] == groups
