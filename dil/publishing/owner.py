"""Who may publish into a dataset: ``_dil/owner.json`` (spec README 24)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from dil.errors import ConfigError, WriteError
from dil.model.job import PublishMode
from dil.publishing.documents import decoded
from dil.publishing.layout import META
from dil.storage import Filesystem

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """One job that publishes into the dataset, and the state store that keeps its watermarks."""

    job: str
    store: str
    mode: PublishMode


@dataclass(frozen=True, slots=True)
class _Owners:
    format: int
    owners: tuple[Owner, ...]


def claim(
    filesystem: Filesystem, dataset_dir: str, owner: Owner, *, dir_mode: int | None = None
) -> None:
    """Enter a job as an owner of the dataset; a folder that is made for it gets ``dir_mode``.

    Raises:
        ConfigError: another job owns it, and not both of them only append.
        StateError: a newer version wrote who owns it, or the file is damaged.
    """
    path = f"{dataset_dir}/{META}/owner.json"
    first = msgspec.json.encode(_Owners(FORMAT, (owner,)))
    filesystem.make_folder(dataset_dir, mode=dir_mode)
    if filesystem.put_if_absent(path, first):
        return
    known = _read(filesystem, path)
    if owner in known:
        return
    others = [other for other in known if (other.job, other.store) != (owner.job, owner.store)]
    _refuse_other_store(others, owner, path)
    rivals = [other for other in others if {other.mode, owner.mode} != {PublishMode.APPEND}]
    if rivals:
        raise ConfigError.single(
            "data.publisher.final.dir",
            f"leads to {dataset_dir}, which belongs to job {rivals[0].job} "
            f"with its state in {rivals[0].store} (publish mode {rivals[0].mode})",
            "Two jobs may share a dataset only when both append. Choose another final dir or "
            f"table name, or, if that job is gone, delete {path}.",
        )
    filesystem.put(path, msgspec.json.encode(_Owners(FORMAT, (*others, owner))))


def _refuse_other_store(others: Iterable[Owner], owner: Owner, path: str) -> None:
    """Refuse the same job with another state: it would read everything again and append it."""
    for other in others:
        if other.job == owner.job:
            raise ConfigError.single(
                "state.store.dir / state.store.db.url",
                f"is {owner.store}, but job {owner.job} kept its watermarks in {other.store} when "
                "it published here; without them it would read everything again",
                f"Set it back, or copy the state and delete {path}.",
            )


def _read(filesystem: Filesystem, path: str) -> tuple[Owner, ...]:
    try:
        with filesystem.open_input(path) as stream:
            data = stream.read()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise WriteError(
            f"{path}: {error.strerror}", "data.publisher.final.dir must name a folder."
        ) from error
    return decoded(data, _Owners, path, FORMAT).owners
