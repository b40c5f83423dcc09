"""What a vacuum of a Delta table says when it cannot be done."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dil.errors import WriteError
from dil.publishing.delta_vacuum import vacuum
from dil.storage import LocalFilesystem


def test_a_log_that_cannot_be_read_is_told_with_what_to_do(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1]}))
    table = DeltaTable(tmp_path)
    shutil.rmtree(tmp_path / "_delta_log")
    (tmp_path / "_delta_log").touch()
    with pytest.raises(WriteError, match="cannot be vacuumed") as caught:
        vacuum(table, str(tmp_path), LocalFilesystem(), 0, is_look=False)
    assert "run again" in caught.value.fix
