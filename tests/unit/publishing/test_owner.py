import pytest

from dil.errors import ConfigError
from dil.model.job import PublishMode
from dil.publishing import Owner, claim
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


def test_the_folder_of_the_dataset_is_made_with_the_permissions_of_the_job(tmp_path):
    dataset = tmp_path / "dataset"
    claim(files, str(dataset), Owner("a", "/s", PublishMode.APPEND), dir_mode=0o700)
    assert dataset.stat().st_mode & 0o777 == 0o700
    claim(files, str(dataset), Owner("b", "/s", PublishMode.APPEND), dir_mode=0o755)
    assert dataset.stat().st_mode & 0o777 == 0o700
