"""Opens the state store that a job's configuration names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dil.errors import StateError
from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state.sql_store import SqlStateStore
from dil.state.sqlite_database import SqliteDatabase

FILE_NAME = "state.db"
_KINDS = frozenset({"sqlite", "fs", "noop"})


def open_store(spec: StateSpec, job_name: str, *, clock: Callable[[], int]) -> StateStore:
    """Return the store of one job; touches nothing before it is used.

    Args:
        spec: Kind and local folder. ``sqlite``, and ``fs`` on a local path, are one SQLite file
            ``state.db`` in the folder, shared by all its jobs. ``noop`` keeps lease, intent and
            runs there too: only watermarks are left out, by the caller (spec README 24).
        job_name: Key of the chain and of the lease.
        clock: Epoch ms of the real clock.

    Raises:
        StateError: this kind of store, or this place for it, is not supported.
    """
    if spec.kind not in _KINDS:
        raise StateError(
            f'state.store.type "{spec.kind}" is not supported yet',
            "Use sqlite, which is the default, or fs with a local state.store.dir.",
        )
    if not spec.directory:
        raise StateError("no state folder is set", "Set state.store.dir.")
    return SqlStateStore(SqliteDatabase(Path(spec.directory) / FILE_NAME), job_name, clock=clock)
