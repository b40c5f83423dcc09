"""The file that keeps a refresh token: durable, for its owner alone, and its tokens masked."""

from __future__ import annotations

import os
import stat

import pytest

from connectors.http.refresh_tokens import RefreshTokenFile
from dil.model.job import KeySpec
from dil.model.secret import Secret
from dil.secrets import learned


def test_a_refresh_token_is_masked_once_it_is_read_or_written(tmp_path):
    path = tmp_path / "refresh"
    path.write_text("of-the-file\n")
    file = RefreshTokenFile(str(path), KeySpec())
    file.read()
    assert Secret("of-the-file") in learned()
    file.replace(Secret("of-the-file"), Secret("of-the-answer"))
    assert Secret("of-the-answer") in learned()


def test_a_refresh_token_is_durable_once_it_is_written(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync

    def noted(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append(path.read_text() if is_folder else os.pread(handle, 99, 0).decode())
        sync(handle)

    path = tmp_path / "refresh"
    path.write_text("old\n")
    monkeypatch.setattr(os, "fsync", noted)
    RefreshTokenFile(str(path), KeySpec()).replace(Secret("old"), Secret("new"))
    assert synced == ["new\n", "new\n"]  # the file before it gets its name, then the folder


def test_a_refresh_token_that_cannot_be_made_durable_lies_nowhere(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError

    path = tmp_path / "refresh"
    path.write_text("old\n")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError):  # noqa: PT011 - of the system, in no other words
        RefreshTokenFile(str(path), KeySpec()).replace(Secret("old"), Secret("new"))
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old\n"]


def test_only_the_owner_may_hold_the_lock_of_a_refresh_token(tmp_path):
    with RefreshTokenFile(str(tmp_path / "refresh"), KeySpec()).locked():
        assert stat.S_IMODE((tmp_path / "refresh.lock").stat().st_mode) == 0o600
