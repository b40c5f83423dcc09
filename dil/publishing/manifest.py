"""The dataset's own list of live files: ``_dil/manifest-<n>.json``, newest wins.

A manifest is written once and never changed; creating number n + 1 is the switch that readers of
manifests see. ``current.json`` is a hint where to begin (spec README 28). Because the manifest,
not the state store, says which files belong to which work unit, a lost state store never leads to
doubled rows where files are replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from dil.model.dataset import Commit, PublishedFile
from dil.publishing.layout import META
from dil.storage import Filesystem

T = TypeVar("T")
FORMAT = 1
_KEPT = 20
_NAME = re.compile(r"manifest-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """All live files of a dataset after one run."""

    format: int
    sequence: int
    run_id: str
    files: tuple[PublishedFile, ...]


@dataclass(frozen=True, slots=True)
class _Hint:
    sequence: int
    manifest: str


EMPTY = Manifest(FORMAT, -1, "", ())


def newest(filesystem: Filesystem, dataset_dir: str) -> Manifest:
    """Return the newest manifest, EMPTY when the dataset has none.

    Numbers have no gaps, so probing on from the hint finds what a crash kept out of it.
    """
    hint = _read(filesystem, f"{_meta(dataset_dir)}/current.json", _Hint)
    sequence = hint.sequence if hint else -1
    found = _at(filesystem, dataset_dir, sequence)
    if found is None:
        sequence = _largest(filesystem, dataset_dir)
        found = _at(filesystem, dataset_dir, sequence)
    while (later := _at(filesystem, dataset_dir, sequence + 1)) is not None:
        found, sequence = later, sequence + 1
    return found or EMPTY


def _largest(filesystem: Filesystem, dataset_dir: str) -> int:
    names = (file.path.rpartition("/")[2] for file in filesystem.files(_meta(dataset_dir)))
    found = (_NAME.fullmatch(name) for name in names)
    return max((int(match.group(1)) for match in found if match), default=-1)


def live_files(filesystem: Filesystem, dataset_dir: str) -> tuple[PublishedFile, ...]:
    """Return the files that are live now."""
    return newest(filesystem, dataset_dir).files


def live_paths(filesystem: Filesystem, dataset_dir: str) -> tuple[str, ...] | None:
    """Return the paths of the live files, None where nothing was ever published."""
    manifest = newest(filesystem, dataset_dir)
    if manifest is EMPTY:
        return None
    return tuple(filesystem.path_of(file.uri) for file in manifest.files)


def advance(filesystem: Filesystem, dataset_dir: str, commit: Commit, first: int) -> None:
    """Write the manifest of a commit, numbered ``first`` or later; done again, change nothing.

    Losing the race for a number to another job that appends to the same dataset means trying the
    next one on top of its files. A driver that wakes up after others finished its commit finds
    its manifest among those since ``first`` and leaves it at that.
    """
    while True:
        before = newest(filesystem, dataset_dir)
        if _is_written(filesystem, dataset_dir, commit.run_id, range(first, before.sequence + 1)):
            after = before
            break
        files = _files_after(before, commit)
        after = Manifest(FORMAT, before.sequence + 1, commit.run_id, files)
        if filesystem.put_if_absent(_path(dataset_dir, after.sequence), msgspec.json.encode(after)):
            break
    # Once more where it was written: a crash may have come before the hint, and some read only it.
    hint = _Hint(after.sequence, f"manifest-{after.sequence}.json")
    filesystem.put(f"{_meta(dataset_dir)}/current.json", msgspec.json.encode(hint))
    filesystem.delete_file(_path(dataset_dir, after.sequence - _KEPT))


def _is_written(filesystem: Filesystem, dataset_dir: str, run_id: str, sequences: range) -> bool:
    manifests = (_at(filesystem, dataset_dir, sequence) for sequence in sequences)
    return any(manifest is not None and manifest.run_id == run_id for manifest in manifests)


def _files_after(before: Manifest, commit: Commit) -> tuple[PublishedFile, ...]:
    gone = {file.uri for file in commit.removes}
    added = [move.target for move in commit.moves]
    gone.update(file.uri for file in added)
    return (*(file for file in before.files if file.uri not in gone), *added)


def _at(filesystem: Filesystem, dataset_dir: str, sequence: int) -> Manifest | None:
    return _read(filesystem, _path(dataset_dir, sequence), Manifest)


def _read(filesystem: Filesystem, path: str, kind: type[T]) -> T | None:
    try:
        with filesystem.open_input(path) as stream:
            return msgspec.json.decode(stream.read(), type=kind)
    except FileNotFoundError:
        return None


def _meta(dataset_dir: str) -> str:
    return f"{dataset_dir}/{META}"


def _path(dataset_dir: str, sequence: int) -> str:
    return f"{_meta(dataset_dir)}/manifest-{sequence}.json"
