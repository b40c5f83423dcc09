"""The log of a Delta table: one transaction for each publish.

The transaction carries an application transaction: the job, and the sequence of the intent (rule
U13). If a table has the application transaction, it has the publish. The application is the job and
not the dataset, because several jobs may append to one dataset. New columns are added by another
transaction before this one; they are null until rows arrive.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import CommitFailedError, DeltaError

from dil.errors import ConfigError, WriteError
from dil.model.dataset import Commit, Intent, is_compaction
from dil.model.job import PublishingSpec, PublishMode
from dil.publishing import layout
from dil.publishing.delta_store import (
    NewestTable,
    commit_properties,
    has_commit,
    is_given_up,
    marks_deleted_rows,
)
from dil.publishing.table_files import ATTEMPTS, FORMAT_KEY, TableFile, gave_up, make_durable, words
from dil.storage import Filesystem

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from dil.publishing.delta_commits import DeltaCommits

log = logging.getLogger(__name__)

_NEWEST_COMMITS = 10


class DeltaLog:
    """The ``_delta_log`` of the dataset's folder."""

    def __init__(self, spec: PublishingSpec, filesystem: Filesystem) -> None:
        self._spec = spec
        self._filesystem = filesystem
        self._folder = layout.dataset_dir(spec)
        self._newest = NewestTable(filesystem, self._folder)

    @cached_property
    def _commits(self) -> DeltaCommits:
        from dil.publishing.delta_commits import DeltaCommits  # Arrow, which only a publish needs

        return DeltaCommits(self._spec, self._filesystem, self._newest)

    def partition_fields(self) -> Sequence[str] | None:
        """Return the columns by which the table is partitioned.

        Raises:
            ConfigError: the table has properties that a job cannot obey.
        """
        table = self._newest.look()
        if table is None:
            return None
        metadata = table.metadata()
        self._refuse_properties(metadata.configuration)
        return metadata.partition_columns

    def files(self) -> Sequence[TableFile]:
        """Return the files of the newest version."""
        self._newest.look()
        return self._newest.files()

    def next_sequence(self) -> int:
        """Return the table's next version."""
        table = self._newest.look()
        return 0 if table is None else table.version() + 1

    def has(self, intent: Intent) -> bool:
        """Return whether the table has the application transaction of an intent."""
        return self._newest.has(intent)

    def fence(self, intent: Intent) -> None:
        """Write an intent's application transaction, and note that the intent was given up."""
        for _ in range(ATTEMPTS):
            table = self._newest.look()
            if table is None or has_commit(table, intent):
                return
            try:
                table.create_write_transaction(
                    [],
                    "append",
                    table.schema(),
                    list(self._spec.table.partition_fields),
                    commit_properties=commit_properties(
                        intent.commit, intent.sequence, gives_up=True
                    ),
                )
            except CommitFailedError as error:
                log.info("another writer changed the Delta table: %s", words(error))
            except (DeltaError, OSError) as error:
                raise WriteError(
                    f"the Delta table at {self._folder} refused a commit: {words(error)}",
                    "The publish was not given up. Try again.",
                ) from error
        raise gave_up(self._spec)

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether the table records that an intent was given up."""
        table = self._newest.look()
        return table is not None and is_given_up(table, intent)

    def is_set_back(self, source: str, landed: int) -> bool:
        """Return whether the table was restored to before a source's last commit of rows."""
        table = self._newest.look()
        if table is None:
            return False
        if _is_older_copy(table, source, landed):
            return True
        count = _NEWEST_COMMITS  # each is a file of the log, and the last publish is mostly near
        while True:
            entries = table.history(count)
            for entry, is_out in self._with_undone(entries):
                if _is_by(source, entry) and not is_compaction(entry["dil.run"]):
                    return is_out
            if len(entries) < count:
                return False
            count *= _NEWEST_COMMITS

    def runs_set_back(self, source: str, landed: int, runs: frozenset[str]) -> frozenset[str]:
        """Return the runs whose commits a RESTORE undid, or that an older copy of the log lacks."""
        table = self._newest.look()
        if table is None or _is_older_copy(table, source, landed):
            return runs
        ours = (each for each in self._with_undone(table.history()) if _is_by(source, each[0]))
        return runs & {entry["dil.run"] for entry, is_out in ours if is_out}

    def _with_undone(
        self, entries: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[Mapping[str, Any], bool]]:
        """Yield the newest commits, the last one first, and whether a RESTORE undid each."""
        reached = entries[0]["version"]
        for number, entry in enumerate(entries):
            is_out = entry["version"] > reached
            if not is_out and entry.get("operation") == "RESTORE":
                reached = self._restored_version(entry, entries[number + 1 :])
            yield entry, is_out

    def _restored_version(
        self, restore: Mapping[str, Any], before: Sequence[Mapping[str, Any]]
    ) -> int:
        """Return the version to which a RESTORE leads; ``before`` are the commits before it.

        The time of a RESTORE by Spark is a text in an unknown zone. It leads to before the jobs'
        commits whose files it removed, and at least to before the last one of rows.
        """
        wanted = restore.get("operationParameters", {})
        target, instant = wanted.get("version"), wanted.get("datetime")
        if target is not None:
            return int(target)
        if instant is not None and instant.isdecimal():
            return self._newest.version_at(int(instant))
        removed = self._newest.names_removed_in(restore["version"])
        runs = frozenset[str]().union(*map(layout.run_ids_in, removed))
        ours = [each for each in before if "dil.run" in each]
        undone = [each["version"] for each in ours if each["dil.run"] in runs]
        undone += [each["version"] for each in ours if not is_compaction(each["dil.run"])][:1]
        return min(undone, default=0) - 1

    def require_fit(self, commit: Commit, live: frozenset[str]) -> None:
        """Raise if the table cannot take the columns or partition values of staged files."""
        self._commits.require_fit(commit, live)

    def commit(self, intent: Intent) -> None:
        """Commit to the table; if another writer commits first, commit on top of its version."""
        self._commits.commit(intent)

    def make_durable(self, intent: Intent) -> None:
        """Sync the part of the log that was written since the intent.

        The numbers of intents are ahead of the versions after an older copy replaced the log.
        """
        table = self._newest.look()
        last = -1 if table is None else table.version()
        first = intent.sequence if intent.sequence <= last else max(last - ATTEMPTS, 0)
        versions = range(first, last + 1)
        kinds = ("json", "checkpoint.parquet")
        names = [f"{version:020}.{kind}" for version in versions for kind in kinds]
        folder = f"{self._folder}/_delta_log"
        paths = [f"{folder}/{name}" for name in (*names, "_last_checkpoint")]
        make_durable(self._filesystem, paths)

    def marks_deleted_rows(self) -> bool:
        """Return whether the table's protocol allows deletion vectors."""
        table = self._newest.look()
        return table is not None and marks_deleted_rows(table)

    def marked_files(self) -> frozenset[str]:
        """Return the URIs of files with a deletion vector."""
        return self._commits.marked_files()

    def unremovable(self, files: Collection[str]) -> frozenset[str]:
        """Return the files that DIL cannot remove because they have a deletion vector."""
        return self._commits.unremovable(files)

    def vacuum(self, hours: int, now_ms: int, *, is_look: bool) -> tuple[str, ...]:
        """Delete files that only old versions need, by the library's clock; return their paths."""
        del now_ms
        return self._commits.vacuum(hours, is_look=is_look)

    def close(self) -> None:
        """Do nothing: no connection is open between calls."""

    def _refuse_properties(self, properties: Mapping[str, str]) -> None:
        for name, value in sorted(properties.items()):
            is_mapped = name == "delta.columnMapping.mode" and value != "none"
            is_kept = name == "delta.appendOnly" and value == "true"
            is_kept = is_kept and self._spec.mode is not PublishMode.APPEND
            if is_mapped or is_kept or name.startswith("delta.constraints."):
                raise ConfigError.single(
                    FORMAT_KEY,
                    f'is "delta", but the table at {self._folder} has the property {name}={value},'
                    " which this job cannot obey",
                    "Publish to another extract.table.name, or drop the property.",
                )


def _is_by(source: str, entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("dil.source") == source)


def _is_older_copy(table: DeltaTable, source: str, landed: int) -> bool:
    """Return whether the log lacks a source's last commit, because an older copy replaced it."""
    known = table.transaction_version(source)
    return known is not None and known < landed
