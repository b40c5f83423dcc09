"""Records which jobs may publish into a dataset: ``_dil/owner.json``, ``_dil/owners`` (rule U21).

``owner.json`` names the first job. Each further job, and a job that changed its mode, has its own
file in ``owners``. A job enters itself first and then looks for other jobs. So if two jobs come at
the same moment, at least one of them sees the other, however long either of them pauses in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from dil.errors import ConfigError, WriteError
from dil.model.dataset import Owner
from dil.model.job import PublishMode
from dil.publishing.documents import decoded
from dil.publishing.layout import META
from dil.storage import Filesystem

FORMAT = 1
_FIRST = "owner.json"
_FOLDER = "owners"


@dataclass(frozen=True, slots=True)
class _Owners:
    format: int
    owners: tuple[Owner, ...]


@dataclass(slots=True)
class _Entry:
    """The owner entry of one job in one state store, and the paths of its files, newest last."""

    owner: Owner
    paths: list[str] = field(default_factory=list)


_Entries = dict[tuple[str, str], _Entry]


def claim(
    filesystem: Filesystem,
    dataset_dir: str,
    owner: Owner,
    *,
    dir_mode: int | None = None,
    group: str = "",
    is_newest_state: Callable[[], bool] = lambda: False,
) -> None:
    """Enter a job as an owner of the dataset; a missing folder is created with ``dir_mode``.

    If ``group`` is not empty, the dataset's folder is given to this group, even if the folder
    exists already. If a job's state was copied to another store and ``is_newest_state`` returns
    true, the job's new entry replaces its old entry.

    Only the run that holds the job's lease may call this.

    Raises:
        ConfigError: another job owns the dataset, and not both jobs append.
        StateError: a newer version wrote the owners' files, or one of these files is damaged.
        WriteError: the folder cannot be created, or cannot be given to the group.
    """
    meta = f"{dataset_dir}/{META}"
    filesystem.make_folder(dataset_dir, mode=dir_mode)
    if group:
        _give(filesystem, dataset_dir, group)
    before = _entries(filesystem, meta)
    copied = _in_other_stores(before, owner)
    taken_over = copied if copied and is_newest_state() else []
    replaced = [path for key in taken_over for path in before.pop(key).paths]
    _enter(filesystem, dataset_dir, owner, before, taken_over)
    # This comes last, so that a dataset is never without an owner.
    for path in replaced:
        filesystem.delete_file(path)


def _enter(
    filesystem: Filesystem,
    dataset_dir: str,
    owner: Owner,
    before: _Entries,
    taken_over: Sequence[tuple[str, str]],
) -> None:
    """Write an owner's entry; raise if another entry forbids it.

    Entries in ``taken_over`` forbid nothing, because they are deleted afterwards.
    """
    meta = f"{dataset_dir}/{META}"
    _refuse_others(before, owner, dataset_dir)
    known = before.get((owner.job, owner.store))
    if known is not None and known.owner == owner:
        return
    path = f"{meta}/{_FIRST}"
    if before or not filesystem.put_if_absent(path, _document(owner)):
        name = sha256(f"{owner.job}\n{owner.store}".encode()).hexdigest()[:16]
        path = f"{meta}/{_FOLDER}/{name}.json"
        filesystem.put(path, _document(owner))
    try:
        now = _entries(filesystem, meta)
        others = {key: entry for key, entry in now.items() if key not in taken_over}
        _refuse_others(others, owner, dataset_dir)
    except ConfigError:
        if known is None:
            filesystem.delete_file(path)
        else:
            filesystem.put(path, _document(known.owner))
        raise


def refuse_other_owners(
    filesystem: Filesystem,
    dataset_dir: str,
    owner: Owner,
    is_newest_state: Callable[[], bool] = lambda: False,
) -> None:
    """Raise the errors of ``claim``, but enter no owner.

    Raises:
        ConfigError: another job owns the dataset, and not both jobs append.
        StateError: a newer version wrote the owners' files, or one of these files is damaged.
    """
    entries = _entries(filesystem, f"{dataset_dir}/{META}")
    copied = _in_other_stores(entries, owner)
    if copied and is_newest_state():
        entries = {key: entry for key, entry in entries.items() if key not in copied}
    _refuse_others(entries, owner, dataset_dir)


def _in_other_stores(entries: _Entries, owner: Owner) -> list[tuple[str, str]]:
    """Return the entries of the same job with its state in another store."""
    return [key for key in entries if key[0] == owner.job and key[1] != owner.store]


def owning_jobs(filesystem: Filesystem, dataset_dir: str) -> frozenset[str]:
    """Return the names of the jobs that publish into the dataset.

    Raises:
        StateError: a newer version wrote the owners' files, or one of these files is damaged.
    """
    return frozenset(job for job, _ in _entries(filesystem, f"{dataset_dir}/{META}"))


def _give(filesystem: Filesystem, dataset_dir: str, group: str) -> None:
    """Give the dataset's folder to a group, before anything is read that could not be published."""
    try:
        filesystem.set_group(dataset_dir, group)
    except WriteError as error:
        raise WriteError(
            f"{dataset_dir} cannot be given to data.publisher.final.dir.group={group}:"
            f" {error.message}",
            "Name a group to which the job's user belongs, or leave the property out.",
        ) from error


def _refuse_others(entries: _Entries, owner: Owner, dataset_dir: str) -> None:
    others = [entry for key, entry in entries.items() if key != (owner.job, owner.store)]
    for other in others:
        if other.owner.job == owner.job:
            # With another state the job would read everything again and append it.
            raise ConfigError.single(
                "state.store.dir / state.store.db.url",
                f"is {owner.store}, but job {owner.job} kept its watermarks in "
                f"{other.owner.store} when it published here; without them it would read "
                "everything again",
                "Set the state store back, or copy the state: dil state copy. If the job had"
                f" published nothing before the copy, also delete {' and '.join(other.paths)}.",
            )
    for other in others:
        if {other.owner.mode, owner.mode} != {PublishMode.APPEND}:
            raise ConfigError.single(
                "data.publisher.final.dir",
                f"leads to {dataset_dir}, which belongs to job {other.owner.job} "
                f"with its state in {other.owner.store} (publish mode {other.owner.mode})",
                "Two jobs may share a dataset only when both append. Choose another final dir or "
                f"table name, or, if that job is gone, delete {' and '.join(other.paths)}.",
            )


def _entries(filesystem: Filesystem, meta: str) -> _Entries:
    """Return the owners of the dataset; a job's own file counts more than ``owner.json``."""
    found: _Entries = {}
    own = (file.path for file in filesystem.files(f"{meta}/{_FOLDER}"))
    whole = [path for path in own if not path.rpartition("/")[2].startswith(".")]
    for path in (f"{meta}/{_FIRST}", *whole):
        for owner in _read(filesystem, path):
            entry = found.setdefault((owner.job, owner.store), _Entry(owner))
            entry.owner = owner
            entry.paths.append(path)
    return found


def _document(owner: Owner) -> bytes:
    return msgspec.json.encode(_Owners(FORMAT, (owner,)))


def _read(filesystem: Filesystem, path: str) -> tuple[Owner, ...]:
    try:
        data = filesystem.content(path)
    except OSError as error:
        raise WriteError(
            f"{path}: {error.strerror}", "Let data.publisher.final.dir name a folder."
        ) from error
    return () if data is None else decoded(data, _Owners, path, FORMAT).owners
