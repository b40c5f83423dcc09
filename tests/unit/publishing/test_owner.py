from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from dil.errors import ConfigError, WriteError
from dil.model.dataset import Owner
from dil.model.job import PublishMode
from dil.publishing.owner import claim
from dil.storage import LocalFilesystem

files = LocalFilesystem()


def test_a_job_may_claim_its_dataset_again_with_another_mode(tmp_path):
    claim(files, str(tmp_path), Owner("a", "/s", PublishMode.APPEND))
    claim(files, str(tmp_path), Owner("a", "/s", PublishMode.WINDOW_REPLACE))


def test_two_jobs_may_both_append(tmp_path):
    claim(files, str(tmp_path), Owner("a", "/s", PublishMode.APPEND))
    claim(files, str(tmp_path), Owner("b", "/s", PublishMode.APPEND))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PublishMode.APPEND, PublishMode.REPLACE),
        (PublishMode.WINDOW_REPLACE, PublishMode.APPEND),
        (PublishMode.REPLACE, PublishMode.REPLACE),
    ],
)
def test_another_job_is_refused_unless_both_append(tmp_path, first, second):
    claim(files, str(tmp_path), Owner("a", "/s", first))
    with pytest.raises(ConfigError) as caught:
        claim(files, str(tmp_path), Owner("b", "/s", second))
    assert "a" in caught.value.problems[0].what
    assert "owner.json" in caught.value.problems[0].fix


def test_the_same_name_with_another_state_store_is_another_job(tmp_path):
    claim(files, str(tmp_path), Owner("a", "/s1", PublishMode.REPLACE))
    with pytest.raises(ConfigError):
        claim(files, str(tmp_path), Owner("a", "/s2", PublishMode.REPLACE))


def test_a_group_that_is_none_is_told_by_its_property_and_claims_nothing(tmp_path):
    owner = Owner("a", "/s", PublishMode.APPEND)
    with pytest.raises(WriteError, match=r"data\.publisher\.final\.dir\.group=no-such-group"):
        claim(files, str(tmp_path / "orders"), owner, group="no-such-group")
    assert list((tmp_path / "orders").iterdir()) == []


def test_the_folder_of_the_dataset_is_made_with_the_permissions_of_the_job(tmp_path):
    dataset = tmp_path / "dataset"
    claim(files, str(dataset), Owner("a", "/s", PublishMode.APPEND), dir_mode=0o700)
    assert dataset.stat().st_mode & 0o777 == 0o700
    claim(files, str(dataset), Owner("b", "/s", PublishMode.APPEND), dir_mode=0o755)
    assert dataset.stat().st_mode & 0o777 == 0o700


def test_a_job_that_only_appends_now_lets_others_in_again(tmp_path):
    claim(files, str(tmp_path), Owner("a", "/s", PublishMode.REPLACE))
    claim(files, str(tmp_path), Owner("a", "/s", PublishMode.APPEND))
    claim(files, str(tmp_path), Owner("b", "/s", PublishMode.APPEND))
    with pytest.raises(ConfigError):
        claim(files, str(tmp_path), Owner("a", "/s", PublishMode.REPLACE))
    claim(files, str(tmp_path), Owner("c", "/s", PublishMode.APPEND))


def test_the_owners_that_an_earlier_release_listed_together_count(tmp_path):
    (tmp_path / "_dil").mkdir()
    listed = ",".join(f'{{"job":"{job}","store":"/s","mode":"append"}}' for job in "ab")
    (tmp_path / "_dil/owner.json").write_text(f'{{"format":1,"owners":[{listed}]}}')
    for job in "ab":
        with pytest.raises(ConfigError):
            claim(files, str(tmp_path), Owner(job, "/s", PublishMode.REPLACE))
        claim(files, str(tmp_path), Owner(job, "/s", PublishMode.APPEND))


def test_without_the_files_that_the_message_names_the_other_job_is_forgotten(tmp_path):
    claim(files, str(tmp_path), Owner("a", "/s", PublishMode.APPEND))
    claim(files, str(tmp_path), Owner("a", "/s", PublishMode.REPLACE))
    with pytest.raises(ConfigError) as caught:
        claim(files, str(tmp_path), Owner("b", "/s", PublishMode.REPLACE))
    for path in sorted((tmp_path / "_dil").rglob("*.json")):
        assert str(path) in caught.value.problems[0].fix
        path.unlink()
    claim(files, str(tmp_path), Owner("b", "/s", PublishMode.REPLACE))


class Interrupted(LocalFilesystem):
    """Does something else before one of the calls that a claim makes."""

    def __init__(self, at: int, other: Callable[[], None]) -> None:
        super().__init__()
        self.left, self.other = at, other

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.other()

    def open_input(self, path):
        self._count()
        return super().open_input(path)

    def files(self, path):
        self._count()
        return super().files(path)

    def put(self, path, data):
        self._count()
        super().put(path, data)

    def put_if_absent(self, path, data):
        self._count()
        return super().put_if_absent(path, data)


def admitted(folder: Path, owner: Owner, filesystem: LocalFilesystem = files) -> bool:
    try:
        claim(filesystem, str(folder), owner)
    except ConfigError:
        return False
    return True


APPEND, REPLACE = PublishMode.APPEND, PublishMode.REPLACE


@pytest.mark.parametrize(
    ("before", "one", "two"),
    list(product(((), ("a",), ("b",), ("a", "b"), ("c",)), (APPEND, REPLACE), (APPEND, REPLACE))),
)
def test_of_two_that_come_together_one_is_refused_unless_both_append(tmp_path, before, one, two):
    """One job is stopped before each of its calls, while the other one comes and goes."""
    steps = 0
    while True:
        folder = tmp_path / str(steps)
        for job in before:
            claim(files, str(folder), Owner(job, "/s", APPEND))
        came: list[bool] = []
        meddled = Interrupted(
            steps + 1, lambda f=folder, c=came: c.append(admitted(f, Owner("b", "/s", two)))
        )
        is_in = admitted(folder, Owner("a", "/s", one), meddled)
        if not came:
            break
        steps += 1
        assert not (is_in and came[0]) or (one, two) == (APPEND, APPEND)
        if (one, two) == (APPEND, APPEND):
            assert is_in
            assert came[0]
            # Both are known: nobody may replace their rows.
            assert not admitted(folder, Owner("d", "/s", REPLACE))
            for job in "ab":
                assert not admitted(folder, Owner(job, "/s", REPLACE))
    assert steps > 1


def test_a_claim_that_was_refused_leaves_nothing_behind(tmp_path):
    """The other job is there when the first one looks again."""
    steps = 0
    while True:
        folder = tmp_path / str(steps)
        claim(files, str(folder), Owner("a", "/s", APPEND))
        came: list[bool] = []
        meddled = Interrupted(
            steps + 1, lambda f=folder, c=came: c.append(admitted(f, Owner("b", "/s", APPEND)))
        )
        is_in = admitted(folder, Owner("a", "/s", REPLACE), meddled)
        if not came:
            break
        steps += 1
        if came[0] and not is_in:
            assert admitted(folder, Owner("c", "/s", APPEND))
    assert steps > 1
