"""Runs a timeseries table's queries, which may share a connection."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from dil.errors import WriteError
from dil.model.closed_labels import LabelMark
from dil.model.dataset import Commit, Intent, PublishedFile
from dil.model.job import PublishingSpec
from dil.publishing.layout import run_ids_in
from dil.publishing.timeseries.changes import label_changes_of, without_loaded
from dil.publishing.timeseries.engines import (
    FileTables,
    MysqlTables,
    PostgresqlTables,
    Tables,
)
from dil.publishing.timeseries.in_steps import StepLoader
from dil.publishing.timeseries.in_transaction import TransactionLoader, dropped_by
from dil.publishing.timeseries.loading import LabelLoading, TimeseriesTable
from dil.publishing.timeseries.names import Names
from dil.publishing.timeseries.partitions import PartitionedTables
from dil.publishing.timeseries.registry import LabelEntry, LabelState, Registry
from dil.publishing.timeseries.rotation import Rotation, rotate
from dil.publishing.warehouse.access import Access
from dil.publishing.warehouse.dialect import Connection, Dialect, Table
from dil.publishing.warehouse.records import LoadsFound
from dil.publishing.warehouse.rows import WarehouseRows
from dil.storage import Filesystem
from dil.text.warehouse_url import Engine, WarehouseAddress, read_warehouse_url
from dil.text.windows import windows_of

_SHUT = {
    LabelState.CLOSED: "is closed: its rows are final",
    LabelState.DROPPED: "was dropped, but rows of it were read again",
}


class TimeseriesAccess(Access):
    """The tables of one job's labels."""

    def __init__(
        self,
        address: WarehouseAddress,
        schema: str,
        table: str,
        spec: PublishingSpec,
        filesystem: Filesystem,
    ) -> None:
        super().__init__(address, schema, table, spec, filesystem)
        warehouse = spec.warehouse
        if warehouse is None or warehouse.labels is None:
            raise TypeError("the job has no timelabels")
        names = Names(self._table)
        self._series = TimeseriesTable(
            self._dialect,
            _tables_for(address.engine, self._dialect, names, is_native=warehouse.is_native),
            names,
            Registry(self._dialect, self._table),
            self._records,
            windows_of(warehouse.labels),
            warehouse,
            self._files,
            self._late,
        )
        tables = self._series.tables
        self._loading = LabelLoading(
            self._dialect,
            self._table,
            self._records,
            spec,
            self._files,
            tables.rehearse,
            tables=tables,
        )

    def check(self) -> None:
        """Check that the database answers, and that the table fits the job."""
        super().check()
        self._attempts.run(self._check_own)

    def spared(self, commit: Commit) -> Commit:
        """Return a commit without the files whose rows their labels already have."""
        known = {entry.label: entry for entry in self.labels()}
        return without_loaded(commit, known, self._series.windows, self._series.spec.retention_ms)

    def loads(self, names: Collection[str]) -> LoadsFound:
        """Return whether the loads of some files are recorded.

        Files whose label is past its retention are not loaded, and so not listed, but their run is
        recorded.
        """
        found = super().loads(names)
        return replace(found, are_listed=found.are_listed or not self._of_other_runs(names))

    def lacks(self, names: Collection[str]) -> frozenset[str]:
        """Return the files, among some names, that are not listed and whose run is not recorded."""
        return self._of_other_runs(super().lacks(names))

    def require_fit(self, commit: Commit) -> None:
        """Check that the labels accept rows, and that these rows fit."""
        series = self._series
        self._attempts.run(self._check_own)
        known = {entry.label: entry for entry in self.labels()}
        label_changes = label_changes_of(commit, known, series.windows, series.spec.retention_ms)
        reopens = () if commit.closed_labels is None else commit.closed_labels.reopens
        for label in label_changes.changes.keys() - {each.label for each in reopens}:
            why = _SHUT.get(known[label].state, "") if label in known else ""
            if why:
                raise WriteError(
                    f"timelabel {label} of {self._table.name} {why}",
                    f"To load it again, reopen it: `dil timelabels reopen JOB.conf {label}`.",
                )
        staying = known.keys() - label_changes.gone
        self._require_tables([known[label] for label in sorted(staying) if known[label].is_live])
        super().require_fit(commit)
        if commit.moves:
            self._attempts.run(partial(self._require_view, commit=commit))
        if isinstance(series.tables, PostgresqlTables):
            going = dropped_by(series, known, label_changes)
            self._attempts.run(partial(series.tables.require_free, tables=going))

    def carry_out(self, intent: Intent) -> None:
        """Load the labels, unless the database has recorded the commit."""
        self._attempts.run(
            lambda connection: self._loader(connection).carry_out(intent), is_last=True
        )

    def labels(self) -> tuple[LabelEntry, ...]:
        """Return the registry's labels, in order of time."""
        return self._attempts.run(self._labels)

    def expired(self, before: int) -> tuple[PublishedFile, ...]:
        """Return the live files of labels that end before an instant in epoch ms UTC."""
        gone = {each.label for each in self.labels() if each.is_over(before)}
        return tuple(file for file in self.live() if file.timelabel in gone) if gone else ()

    def set_state(self, labels: frozenset[str], state: LabelState) -> None:
        """Give labels another state; their rows stay unchanged.

        A label that is reopened counts as not loaded.
        """

        def put(connection: Connection) -> None:
            known = self._series.registry.entries(connection)
            connection.begin()
            for label in sorted(labels & known.keys()):
                entry = replace(known[label], state=state)
                waits = state is LabelState.REOPENED
                after = replace(entry, loaded_at=None) if waits else entry
                self._series.registry.put(connection, after)
            connection.commit()

        self._attempts.run(put)

    def mark(self, marks: Sequence[LabelMark]) -> None:
        """Record which labels were closed and reopened, in this order; may be repeated."""
        registry = self._series.registry

        def put(connection: Connection) -> None:
            registry.make(connection)
            known = registry.entries(connection)
            connection.begin()
            for mark in marks:
                state = LabelState(mark.state)
                entry = known.get(mark.label) or LabelEntry(mark.label, mark.low, mark.high)
                if entry.state is LabelState.DROPPED and not mark.waits:
                    continue  # The label's rows are gone; closing it does not change that.
                known[mark.label] = replace(
                    entry,
                    state=state,
                    closed_at=mark.at if state is LabelState.CLOSED else None,
                    loaded_at=None if mark.waits else entry.loaded_at,
                )
                registry.put(connection, known[mark.label])
            connection.commit()

        self._attempts.run(put)

    def drop_empty(self, labels: frozenset[str]) -> None:
        """Drop labels that have no live files."""
        if labels:
            self._attempts.run(
                lambda connection: self._loader(connection).drop_empty(labels), is_last=True
            )

    def rotate(self, rotation: Rotation) -> LabelEntry | None:
        """Turn the table into a label's table; return None if the table had no rows to rotate."""
        return self._attempts.run(
            lambda connection: rotate(self._series, connection, rotation), is_last=True
        )

    def _of_other_runs(self, names: Collection[str]) -> frozenset[str]:
        """Return the files, among some names, whose run is not recorded."""
        runs = {name: run_ids_in(name) for name in names}
        known = self._recorded(frozenset().union(*runs.values()))
        return frozenset(name for name, possible in runs.items() if known.isdisjoint(possible))

    def _recorded(self, run_ids: Collection[str]) -> frozenset[str]:
        def found(connection: Connection) -> frozenset[str]:
            if not self._is_recorded(connection):
                return frozenset()
            return self._records.runs(connection, run_ids)

        return self._attempts.run(found) if run_ids else frozenset()

    def _has_table(self, connection: Connection) -> bool:
        """Return True: no label needs the base table, which the next run creates again."""
        del connection
        return True

    def _check_own(self, connection: Connection) -> None:
        self._series.tables.require_own(connection)
        held = {entry.object for entry in self._labels(connection) if entry.is_live}
        self._series.tables.require_empty(connection, held)

    def _require_tables(self, entries: Sequence[LabelEntry]) -> None:
        """Raise if the table of a label is gone; the view fails if one of its tables is."""
        names, dialect = self._series.names, self._dialect
        view = dialect.full(names.view)
        try:
            self._attempts.run(lambda connection: connection.rows(f"SELECT 1 FROM {view} LIMIT 0"))
        except WriteError:  # Or there is no view, which a publish creates.
            gone = self._attempts.run(
                lambda connection: [
                    each
                    for each in entries
                    if dialect.table(connection, names.of(each.object)) is None
                ]
            )
            for each in gone:
                raise WriteError(
                    f"the table {each.object} of timelabel {each.label} is gone, but the registry"
                    f" of {self._table.name} has it",
                    "Nothing was published. Restore the table, or give its rows up: dil timelabels"
                    f" drop JOB.conf {each.label} --yes. Then dil timelabels reopen and dil state"
                    " forget let a run read them again.",
                ) from None

    def _require_view(self, connection: Connection, *, commit: Commit) -> None:
        rows = WarehouseRows(commit, self._files, adds_signature=True)
        table_changes = self._series.table_changes(connection, rows)
        table = self._dialect.table(connection, self._table)
        columns = {
            each.name: each for each in (*(table.columns if table else ()), *table_changes.columns)
        }
        self._series.tables.require_view(connection, Table(tuple(columns.values())))

    def _loader(self, connection: Connection) -> StepLoader | TransactionLoader:
        tables = self._series.tables
        if isinstance(tables, MysqlTables):
            return StepLoader(self._series, tables, connection)
        return TransactionLoader(self._series, connection)

    def _labels(self, connection: Connection) -> tuple[LabelEntry, ...]:
        if not self._series.registry.is_there(connection):
            return ()
        return tuple(self._series.registry.entries(connection).values())


def open_access(spec: PublishingSpec, filesystem: Filesystem) -> TimeseriesAccess:
    """Return the access to the labels of a job that has a warehouse and timelabels."""
    warehouse = spec.warehouse
    if warehouse is None:
        raise TypeError("the job publishes to no warehouse")
    address = read_warehouse_url(warehouse.url.reveal())
    schema = warehouse.schema or address.engine.default_schema
    return TimeseriesAccess(address, schema, warehouse.table, spec, filesystem)


def _tables_for(engine: Engine, dialect: Dialect, names: Names, *, is_native: bool) -> Tables:
    """Return the tables of a kind of database; on PostgreSQL they may be partitions."""
    if is_native and engine is Engine.POSTGRESQL:
        return PartitionedTables(dialect, names)
    if engine is Engine.POSTGRESQL:
        return PostgresqlTables(dialect, names)
    if engine is Engine.MYSQL:
        return MysqlTables(dialect, names)
    return FileTables(dialect, names)
