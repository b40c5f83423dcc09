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


def test_a_withdrawn_file_does_not_come_back_over_a_later_one_of_its_name(tmp_path: Path) -> None:
    spec, file = job(tmp_path).publishing, structs.replace(published(tmp_path), is_dump=True)
    withdrawal.withdraw(FILES, spec, "forget-1", [file])
    path = Path(FILES.path_of(file.uri))
    uris = frozenset({file.uri})
    path.write_bytes(b"dumped again")

    assert withdrawal.copies(FILES, spec, uris) == {}
    with pytest.raises(StateError):
        withdrawal.bring_back(FILES, spec, "forget-1", uris)
    path.unlink()
    assert len(withdrawal.bring_back(FILES, spec, "forget-1", uris)) == 1


def test_a_part_of_a_copy_is_copied_anew(tmp_path: Path) -> None:
    spec, file = job(tmp_path, ms__table__format="delta").publishing, published(tmp_path)
    whole = Path(FILES.path_of(file.uri)).read_bytes()
    withdrawal.withdraw(FILES, spec, "forget-1", [file])
    uris = frozenset({file.uri})
    (move,) = withdrawal.bring_back(FILES, spec, "forget-1", uris)
    folder = Path(move.source).parent
    Path(move.source).unlink()  # an undo moved the copy into the table's folder
    (folder / "1-part-r1.parquet").write_bytes(b"a part")

    withdrawal.keep_copies(FILES, spec, [move])

    (found,) = withdrawal.bring_back(FILES, spec, "forget-1", uris)
    assert Path(found.source).read_bytes() == whole
