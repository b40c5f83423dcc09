"""Files that an operator's act takes out of a dataset are copied first, as they were published."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from dil.errors import StateError
from dil.model.dataset import PublishedFile
from dil.publishing import withdrawal
from dil.storage import LocalFilesystem
from tests.unit.publishing.published import job, staged_file

FILES = LocalFilesystem()


def published(folder: Path) -> PublishedFile:
    made = staged_file(folder / "lake" / "shop" / "orders", "part-r1.parquet")
    return PublishedFile(FILES.uri(made.path), "s", made.rows, made.bytes, made.sha256, "r1")


def test_a_withdrawn_file_can_be_brought_back(tmp_path: Path) -> None:
    spec, file = job(tmp_path).publishing, published(tmp_path)

    withdrawal.withdraw(FILES, spec, "forget-1", [file])

    (move,) = withdrawal.bring_back(FILES, spec, "forget-1", frozenset({file.uri}))
    assert move.target == file
    assert Path(move.source).read_bytes() == Path(FILES.path_of(file.uri)).read_bytes()


def test_a_file_unlike_the_published_one_is_not_withdrawn(tmp_path: Path) -> None:
    """An undo would bring other rows back than were published."""
    spec, file = job(tmp_path).publishing, published(tmp_path)

    with pytest.raises(StateError):
        withdrawal.withdraw(FILES, spec, "forget-1", [structs.replace(file, sha256="0" * 64)])

    with pytest.raises(StateError):
        withdrawal.bring_back(FILES, spec, "forget-1", frozenset({file.uri}))


def test_a_copy_is_found_however_far_an_undo_that_is_given_up_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, file = job(tmp_path).publishing, published(tmp_path)
    withdrawal.withdraw(FILES, spec, "forget-1", [file])
    Path(FILES.path_of(file.uri)).unlink()
    uris = frozenset({file.uri})
    moves = withdrawal.bring_back(FILES, spec, "forget-1", uris)
    real = LocalFilesystem.move

    def crash(self: LocalFilesystem, *paths: str) -> None:
        real(self, *paths)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalFilesystem, "move", crash)
        with pytest.raises(KeyboardInterrupt):
            withdrawal.keep_copies(FILES, spec, moves)

    (found,) = withdrawal.bring_back(FILES, spec, "forget-1", uris)
    assert found.target == file
    assert found.source != moves[0].source
