"""Drops, reopens and rotates the timelabels of a warehouse table by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dil.errors import ConfigError
from dil.model.dataset import Commit, OperatorAct, source_name
from dil.model.destination import TableKind, WarehouseSpec
from dil.model.job import Job, PublishMode
from dil.model.timelabels import TimelabelSpec
from dil.operator.session import refuse_unfinished_publish
from dil.publishing.publisher import Publisher
from dil.publishing.timeseries.access import TimeseriesAccess, open_access
from dil.publishing.timeseries.changes import DROP
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.publishing.timeseries.rotation import Rotation
from dil.run.lease import leased
from dil.spi.state_store import StateStore
from dil.storage import filesystem_for
from dil.text.windows import label_start, label_text, windows_of

Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The warehouse table of a job and its labels; ``schedule`` gives the starts of labels."""

    job: Job
    spec: WarehouseSpec
    schedule: TimelabelSpec
    access: TimeseriesAccess

    def entries(self) -> tuple[LabelEntry, ...]:
        """Return the labels, oldest first."""
        return self.access.labels()

    def named(self, labels: Sequence[str]) -> list[LabelEntry]:
        """Return the entries of these labels, in this order.

        Raises:
            ConfigError: a text is not a label, or not one of this table.
        """
        known = {entry.label: entry for entry in self.entries()}
        for label in labels:
            require_label(label)
            if label not in known:
                raise ConfigError.single(
                    "TIMELABEL",
                    f'"{label}" is no label of this table',
                    "`dil timelabels` lists them.",
                )
        return [known[label] for label in dict.fromkeys(labels)]

    def require_droppable(self) -> None:
        """Refuse to drop labels of a table that does not separate rows by label.

        Raises:
            ConfigError: the table is a regular table.
        """
        if self.spec.kind is not TableKind.TIMESERIES:
            raise ConfigError.single(
                "ms.warehouse.table.kind", "is regular", "drop is for timeseries tables."
            )

    def drop(
        self, store: StateStore, chosen: Sequence[LabelEntry], reason: str, clock: Clock
    ) -> list[LabelEntry]:
        """Drop labels with their rows as a commit in the chain; return their new entries.

        A drop of a label without rows is not in the chain, which records published files only.

        Raises:
            ConfigError: the table has no labels to drop.
            LeaseHeldError: a run is under way.
            StateError: an earlier publish is unfinished.
            WriteError: the database refused; the next run finishes the publish.
        """
        self.require_droppable()
        names = frozenset(entry.label for entry in chosen)
        with leased(self.job, store, DROP, clock) as lease:
            refuse_unfinished_publish(self.job, store)
            files = [file for file in self.access.live() if file.timelabel in names]
            if files:
                now = clock()
                commit = Commit(
                    run_id=lease.holder.run_id,
                    config_digest=self.job.digest,
                    source_name=source_name(self.job.name),
                    moves=(),
                    removes=tuple(files),
                    schema="",
                    system_time=now,
                    horizon=now,
                    act=OperatorAct(DROP, reason or DROP),
                )
                Publisher.of(self.job, store).publish(lease, commit)
            self.access.drop_empty(names - {file.timelabel for file in files})
        return self._entries_of(names)

    def reopen(
        self, store: StateStore, chosen: Sequence[LabelEntry], clock: Clock
    ) -> list[LabelEntry]:
        """Let closed or dropped labels be loaded again; return their new entries.

        Raises:
            LeaseHeldError: a run is under way.
        """
        names = frozenset(entry.label for entry in chosen)
        with leased(self.job, store, "reopen", clock):
            self.access.set_state(names, LabelState.REOPENED)
        return self._entries_of(names)

    def rotate(
        self, label: str | None, *, now_ms: int, clock: Clock, takes_empty: bool = False
    ) -> tuple[str, LabelEntry | None]:
        """Rename an events table to the table of a label, and create a new, empty events table.

        Args:
            label: The label; None means the label of the period that ended before ``now_ms``.
            now_ms: Epoch ms UTC.
            clock: The real clock, epoch ms UTC.
            takes_empty: Whether a table without rows is rotated, too.

        Returns:
            The label and its entry; the entry is None if an empty table was left alone.

        Raises:
            ConfigError: the job replaces rows of the table, or the text is no label.
            WriteError: there is no table, or it has objects that a new table would lack.
        """
        if self.spec.kind is not TableKind.REGULAR:
            raise ConfigError.single(
                "ms.warehouse.table.kind",
                "is timeseries, and its table is always empty",
                "Runs load its labels; rotate is for tables that other programs write into.",
            )
        mode = self.job.publishing.mode
        if mode is not PublishMode.APPEND:
            raise ConfigError.single(
                "ms.publish.mode",
                f"is {mode}, but rows that were rotated away cannot be replaced",
                "Rotate only tables to which rows are only added: ms.publish.mode=append.",
            )
        text = label or label_text(windows_of(self.schedule).of_run(now_ms).low)
        require_label(text)
        return text, self.access.rotate(Rotation(text, clock(), takes_empty=takes_empty))

    def _entries_of(self, names: frozenset[str]) -> list[LabelEntry]:
        return [entry for entry in self.entries() if entry.label in names]


def open_labels(job: Job) -> LabelTable:
    """Return the labels of a job's warehouse table, without asking the database yet.

    Raises:
        ConfigError: the job has no warehouse, or no schedule that names labels.
    """
    spec = job.publishing.warehouse
    if job.planning.timelabel is None:
        raise no_labels()
    if spec is None or spec.labels is None:
        raise ConfigError.single(
            "ms.warehouse.url",
            "is not set, but this command works on the table of a database",
            "`dil timelabels JOB.conf` lists the labels of a job that publishes files.",
        )
    access = open_access(job.publishing, filesystem_for(job.publishing.final_dir))
    return LabelTable(job, spec, spec.labels, access)


def no_labels() -> ConfigError:
    """Return the error for a job that has no timelabels."""
    return ConfigError.single(
        "ms.timelabel.schedule",
        "is not set, so the job has no timelabels",
        "Set it, or ms.timelabel.every or ms.timelabel.unit, to give each period of its data a "
        "label.",
    )


def require_label(text: str) -> None:
    """Refuse a text that is no timelabel.

    Raises:
        ConfigError: the text is no timelabel.
    """
    try:
        label_start(text)
    except ValueError:
        raise ConfigError.single(
            "TIMELABEL", f'"{text}" is no timelabel', "Write 14 digits: 20180305080000."
        ) from None
