"""Files that are below a folder of the job, and files that only seem to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.publishing.own_folders import is_inside
from dil.storage import LocalFilesystem


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("orders/part-0", True),
        ("orders/day=1/part-0", True),
        ("linked/part-0", True),
        ("orders_old/part-0", False),
        ("orders/elsewhere/part-0", False),
        ("orders/../orders_old/part-0", False),
        ("part-0", False),
    ],
)
def test_a_file_is_inside_a_folder_if_its_real_path_is(
    tmp_path: Path, path: str, *, expected: bool
) -> None:
    for name in ("orders/day=1", "orders_old"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "orders/elsewhere").symlink_to(tmp_path / "orders_old")
    (tmp_path / "linked").symlink_to(tmp_path / "orders")

    found = is_inside(f"{tmp_path}/{path}", f"{tmp_path}/orders", LocalFilesystem())

    assert found is expected
