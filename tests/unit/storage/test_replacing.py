"""A file that is replaced is the old one or the whole new one."""

import os

import pytest

from dil.storage.replacing import replace_file


def test_a_link_stays_a_link_and_its_target_gets_content_and_mode(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)

    replace_file(link, b"new", mode=0o640)

    assert link.is_symlink()
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"new", 0o640)


def test_a_full_disk_leaves_the_old_file_alone(tmp_path, monkeypatch):
    target = tmp_path / "target"
    target.write_text("old")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(target, b"new", mode=0o600)

    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
