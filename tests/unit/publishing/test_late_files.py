"""Which files of late rows belong to a job, and which of them its runs may delete."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dil.model.dataset import Owner
from dil.model.job import Job, PublishMode
from dil.publishing.late_files import late_files, late_rows_there
from dil.publishing.layout import dataset_dir, late_dir
from dil.publishing.owner import claim
from dil.storage import LocalFilesystem
from tests.unit.publishing.published import job

FILES = LocalFilesystem()
LATE = "part-r1-0123456789abcdef-0.parquet"
IN_A_TABLE = "part-r0-0123456789abcdef-0.parquet"


class Destination:
    """A destination that still has rows of a deleted file, and perhaps rows of other jobs."""

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared

    def late_files(self) -> tuple[str, ...]:
        return (IN_A_TABLE,)

    def has_others(self, source: str) -> bool:
        assert source == "dil/orders"
        return self.is_shared


def with_late_file(folder: Path, **changes: str) -> Job:
    found = job(folder, **changes)
    put(found, LATE)
    return found


def put(orders: Job, name: str) -> None:
    path = Path(late_dir(orders.publishing)) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


def there(orders: Job, *, is_shared: bool = False) -> list[str]:
    """Return the names of the files that a run may delete."""
    destination = Destination(is_shared=is_shared)
    found = late_rows_there(orders, FILES, destination)  # type: ignore[arg-type]
    return [uri.rpartition("/")[2] for uri in found]


def test_late_rows_are_in_files_of_the_folder_itself_with_names_of_dil(tmp_path: Path) -> None:
    orders = with_late_file(tmp_path)
    for name in (f"below/{LATE}", "notes.txt", "_SUCCESS"):
        put(orders, name)
    assert [file.path.rpartition("/")[2] for file in late_files(orders.publishing, FILES)] == [LATE]


@pytest.mark.parametrize("member", ["_dil/owner", "_delta_log/0.json", "metadata/v1.json"])
def test_a_dataset_of_that_name_has_no_late_rows_of_the_job(tmp_path: Path, member: str) -> None:
    orders = with_late_file(tmp_path)
    put(orders, member)
    assert late_files(orders.publishing, FILES) == ()


def test_files_beside_the_folder_of_all_datasets_are_no_late_rows(tmp_path: Path) -> None:
    spec = replace(job(tmp_path).publishing, dataset_path="")
    folder = Path(late_dir(spec))
    folder.mkdir()
    (folder / LATE).write_bytes(b"")
    assert late_files(spec, FILES) == ()


def test_a_run_may_delete_files_and_rows_of_files_that_are_deleted(tmp_path: Path) -> None:
    orders = with_late_file(tmp_path, ms__publish__mode="window_replace")
    assert there(orders) == [LATE, IN_A_TABLE]


def test_a_run_that_appends_deletes_no_late_rows_unless_labels_are_closed(tmp_path: Path) -> None:
    append = {"ms__publish__mode": "append"}
    assert there(with_late_file(tmp_path, **append)) == []
    closing = {"ms__timelabel__schedule": "@daily", "ms__timelabel__close": "auto"}
    assert there(with_late_file(tmp_path, **append, **closing)) == [LATE, IN_A_TABLE]


def test_no_late_rows_of_a_dataset_of_several_jobs_are_deleted(tmp_path: Path) -> None:
    keys = {"extract__primary__key__fields": "id"}
    orders = with_late_file(tmp_path, ms__publish__mode="merge", **keys)
    assert there(orders) == [LATE, IN_A_TABLE]
    assert there(orders, is_shared=True) == []
    place = orders.state.place
    claim(FILES, dataset_dir(orders.publishing), Owner("returns", place, PublishMode.MERGE))
    assert there(orders) == []
