"""The dataset's own list of live files: ``_dil/manifest-<n>.json``; the newest one counts.

A manifest is written once and never changed; readers of manifests see a publish when number n + 1
exists. ``current.json`` is a hint where to begin the search (rule U5). The manifest and not the
state store records which files belong to which work unit, so a lost state store never leads to
doubled rows if files are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from dil.errors import WriteError
from dil.model.dataset import Commit, Intent, PublishedFile
from dil.publishing.documents import decoded
from dil.publishing.layout import META
from dil.storage import Filesystem

# Since format 2 a manifest records which rows of a shared file belong to which work unit.
FORMAT = 2
_WITHOUT_UNITS = 1
_KEPT = 20
_NAME = re.compile(r"manifest-(\d+)\.json")
_GIVEN_UP = "given-up/"


@dataclass(frozen=True, slots=True)
class Manifest:
    """All live files of a dataset after one run.

    ``landed`` maps each job to the largest sequence of an intent whose commit is in the dataset.
    Under ``given_up_name`` of the job it has the largest sequence that was given up.
    """

    format: int
    sequence: int
    run_id: str
    files: tuple[PublishedFile, ...]
    landed: Mapping[str, int] = field(default_factory=dict)

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether an intent was given up, so that it can never land."""
        return self.landed.get(given_up_name(intent.commit.source_name)) == intent.sequence


@dataclass(frozen=True, slots=True)
class _Hint:
    sequence: int
    manifest: str


def given_up_name(source: str) -> str:
    """Return the name under which records keep a source's last intent that was given up."""
    return f"{_GIVEN_UP}{source}"


EMPTY = Manifest(_WITHOUT_UNITS, -1, "", ())


def newest(filesystem: Filesystem, dataset_dir: str) -> Manifest:
    """Return the newest manifest, EMPTY if the dataset has none.

    Numbers have no gaps. So the search upwards from the hint also finds a manifest if a crash
    prevented the change of the hint.

    Raises:
        StateError: a newer version wrote a manifest, or a manifest is damaged.
        WriteError: the manifest lists files under another cluster or bucket than that of the
            folder.
    """
    sequence = _hinted(filesystem, dataset_dir)
    found = _at(filesystem, dataset_dir, sequence)
    if found is None:
        names = (file.path.rpartition("/")[2] for file in filesystem.files(_meta(dataset_dir)))
        numbers = (int(each[1]) for name in names if (each := _NAME.fullmatch(name)))
        found = _at(filesystem, dataset_dir, max(numbers, default=-1))
    return _last_from(found or EMPTY, filesystem, dataset_dir)


def _hinted(filesystem: Filesystem, dataset_dir: str) -> int:
    """Return a number near the newest manifest's number, -1 if there is no hint."""
    hint = filesystem.content(f"{_meta(dataset_dir)}/current.json")
    return -1 if hint is None else msgspec.json.decode(hint, type=_Hint).sequence


def _last_from(known: Manifest, filesystem: Filesystem, dataset_dir: str) -> Manifest:
    """Return the last manifest that follows a known one without a gap."""
    found = known
    while (later := _at(filesystem, dataset_dir, found.sequence + 1)) is not None:
        found = later
    _require_one_address(found, dataset_dir)
    return found


def _require_one_address(manifest: Manifest, dataset_dir: str) -> None:
    """Raise if files' URIs would not be recognized, because a cluster can have several names."""
    here = _address(dataset_dir)
    for file in manifest.files:
        if _address(file.uri) != here:
            raise WriteError(
                f"{dataset_dir}: the live files are listed under another address: {file.uri}",
                "Use the address of the runs that published the files. A DNS name that follows"
                " the active name node stays valid when another node takes over.",
            )


def _address(place: str) -> str:
    """Return scheme and host of a URI; the same text for all local paths."""
    scheme, is_uri, rest = place.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if is_uri else "file://"


def live_files(filesystem: Filesystem, dataset_dir: str) -> tuple[PublishedFile, ...]:
    """Return the files that are live now."""
    return newest(filesystem, dataset_dir).files


def live_paths(filesystem: Filesystem, dataset_dir: str) -> tuple[str, ...] | None:
    """Return the paths of the live files, None if no run ever published."""
    manifest = newest(filesystem, dataset_dir)
    if manifest is EMPTY:
        return None
    return tuple(filesystem.path_of(file.uri) for file in manifest.files)


def fence(filesystem: Filesystem, intent: Intent) -> None:
    """Prevent an intent from ever landing, unless it has landed; repeating it changes nothing.

    A new manifest takes the intent's number, and records that the intent was given up.
    """
    commit = replace(intent.commit, moves=(), removes=())
    advance(filesystem, intent.dataset_dir, commit, intent.sequence, gives_up=True)


def advance(
    filesystem: Filesystem,
    dataset_dir: str,
    commit: Commit,
    first: int,
    *,
    gives_up: bool = False,
) -> None:
    """Write the manifest of a commit, numbered ``first`` or later; repeating it changes nothing.

    If another job that appends to the same dataset takes the number first, this function tries the
    next number on top of that job's files. If a driver wakes up after another driver finished its
    commit, it finds that the commit has landed, and writes nothing.
    """
    before = newest(filesystem, dataset_dir)
    while before.landed.get(commit.source_name, -1) < first:
        after = _after(before, commit, first, gives_up=gives_up)
        path = _path(dataset_dir, after.sequence)
        is_written = filesystem.put_if_absent(path, msgspec.json.encode(after))
        if is_written and _hinted(filesystem, dataset_dir) <= after.sequence:
            # The manifest that was just written need not be read.
            before = _last_from(after, filesystem, dataset_dir)
        else:
            before = newest(filesystem, dataset_dir)
        if is_written and before.sequence - after.sequence >= _KEPT:
            # While this driver slept, other drivers wrote newer manifests, and the old manifest of
            # this number was deleted. Only therefore was the number free.
            filesystem.delete_file(path)
    # The hint is written again, because a crash may have come before it, and some readers read only
    # the hint. Another driver may have written a newer hint in between, which this one replaces.
    while True:
        hint = _Hint(before.sequence, f"manifest-{before.sequence}.json")
        filesystem.put(f"{_meta(dataset_dir)}/current.json", msgspec.json.encode(hint))
        own = _path(dataset_dir, before.sequence)
        following = _path(dataset_dir, before.sequence + 1)
        # Publishes delete old manifests, so that the next one may be gone, too.
        if filesystem.exists(own) and not filesystem.exists(following):
            break
        before = newest(filesystem, dataset_dir)
    filesystem.delete_file(_path(dataset_dir, before.sequence - _KEPT))


def _after(before: Manifest, commit: Commit, first: int, *, gives_up: bool) -> Manifest:
    landed = {**before.landed, commit.source_name: first}
    if gives_up:
        landed[given_up_name(commit.source_name)] = first
    added = [move.target for move in commit.moves]
    gone = {file.uri for file in (*commit.removes, *added)}
    files = (*(file for file in before.files if file.uri not in gone), *added)
    # Earlier releases can read a manifest without new members.
    number = FORMAT if any(file.is_shared for file in files) else _WITHOUT_UNITS
    return Manifest(number, before.sequence + 1, commit.run_id, files, landed)


def _at(filesystem: Filesystem, dataset_dir: str, sequence: int) -> Manifest | None:
    path = _path(dataset_dir, sequence)
    data = filesystem.content(path)
    return None if data is None else decoded(data, Manifest, path, FORMAT)


def _meta(dataset_dir: str) -> str:
    return f"{dataset_dir}/{META}"


def _path(dataset_dir: str, sequence: int) -> str:
    return f"{_meta(dataset_dir)}/manifest-{sequence}.json"
