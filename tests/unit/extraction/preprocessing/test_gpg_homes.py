"""Key rings of tasks: one that is in use is nobody else's to delete."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from dil.extraction.preprocessing.gpg_process import GpgHome


@pytest.mark.skipif(shutil.which("gpg") is None, reason="needs GnuPG")
def test_a_new_key_ring_takes_the_place_of_one_whose_task_was_killed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "dil-gpg-left"
    left.mkdir()
    (left / "held").touch()
    with closing(GpgHome()), closing(GpgHome()):
        assert not left.exists()
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []
