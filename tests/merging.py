"""A dataset in a folder that staged rows are merged into, without a source, state or Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dil.model.dataset import PublishedFile
from dil.model.destination import MergeSpec
from dil.model.job import Job, OutputFormat, PublishMode
from dil.publishing.results import FinishedUnit, PublishableResults, PublishTarget
from dil.publishing.run_commit import build_commit
from dil.reshaping import Reshaping, reshape
from dil.reshaping.files import DatasetFiles, row_file
from dil.storage import Folder, LocalFilesystem
from dil.types.schema_lines import OP_COLUMN, with_columns
from dil.types.schema_text import parse_schema, schema_text
from dil.writing.formats import writer_for
from dil.writing.rolling import OutputFolder
from dil.writing.staging import StagedWriter
from tests.unit.publishing.published import job, report, unit

FILES = LocalFilesystem()
Rows = Sequence[dict[str, Any]]


def in_order(function: Callable[[Any], Any], items: Sequence[Any], size: int) -> list[Any]:
    """Run a stage in this process."""
    return [function(item) for item in items]


@dataclass
class Lake:
    """One dataset; each run stages work units, is reshaped and then published."""

    folder: Path
    spec: MergeSpec | None = field(default_factory=lambda: MergeSpec(("id",), ("at",)))
    form: OutputFormat = OutputFormat.PARQUET
    mode: PublishMode = PublishMode.MERGE
    stage: Callable[..., list[Any]] = in_order
    bucket_rows: int = 1_000_000
    target_bytes: int = 128 * 1024 * 1024
    row_group_rows: int = 65_536
    shares: bool = False
    changelog: bool = False
    known: str = ""
    live: tuple[PublishedFile, ...] = ()
    runs: int = 0
    changes: list[list[dict[str, Any]]] = field(default_factory=list)

    @cached_property
    def job(self) -> Job:
        """Return the job, with what the tests choose."""
        base = job(self.folder)
        return replace(
            base,
            publishing=replace(
                base.publishing,
                mode=self.mode,
                merge=self.spec,
                shares_files=self.shares,
                keeps_changelog=self.changelog,
            ),
            writing=replace(
                base.writing,
                format=self.form,
                target_bytes=self.target_bytes,
                row_group_rows=self.row_group_rows,
            ),
        )

    def stage_unit(self, number: int, *tables: pa.Table) -> FinishedUnit:
        """Write rows as the task of one work unit would, a file for each table."""
        writer_class = writer_for(self.form)
        staged, schema = [], None
        for at, table in enumerate(tables):
            folder = self.folder / "staged" / str(self.runs) / f"{number}-{at}"
            output = OutputFolder(Folder(FILES, str(folder)), self.job.writing, writer_class)
            writer = StagedWriter(output)
            for batch in table.to_batches(self.row_group_rows):
                writer.write(batch)
            staged += writer.finish()
            schema = writer.schema or schema
        done = report(unit(number), *staged)
        text = "" if schema is None else schema_text(schema)
        return FinishedUnit(unit(number), replace(done, schema=text))

    def reshaped(
        self, *finished: FinishedUnit, now: int = 0, has_all_rows: bool = False
    ) -> PublishableResults:
        """Return what a run of these work units would publish."""
        place = self.job.publishing
        target = PublishTarget(
            run_id=f"r{self.runs}",
            output_dir=f"{place.final_dir}/{place.dataset_path}",
            live=self.live,
            untracked=(),
            system_time=now,
            horizon=now,
            known_schema=self.known,
            begins_changelog=not self.changes,
        )
        work = Reshaping(
            self.job,
            target,
            now,
            has_all_rows,
            self.stage,
            self.bucket_rows,
        )
        shaped = reshape(work, finished, FILES)
        self.commit = build_commit(self.job, target, shaped, FILES)
        return shaped

    def run(
        self, *finished: FinishedUnit, now: int = 0, has_all_rows: bool = False
    ) -> PublishableResults:
        """Publish a run of these work units."""
        shaped = self.reshaped(*finished, now=now, has_all_rows=has_all_rows)
        if self.commit.changelog_dir:
            known = with_columns(self.commit.schema or self.known, [OP_COLUMN])
            paths = [move.source for move in self.commit.changelog_moves]
            self.changes.append([row for path in paths for row in self._rows(path, known)])
        for move in self.commit.moves:
            target = FILES.path_of(move.target.uri)
            FILES.make_folder(target.rpartition("/")[0])
            FILES.move(move.source, target)
        gone = {file.uri for file in self.commit.removes}
        for uri in gone:
            FILES.delete_file(FILES.path_of(uri))
        kept = (file for file in self.live if file.uri not in gone)
        self.live = (*kept, *(move.target for move in self.commit.moves))
        self.known = self.commit.schema or self.known
        self.runs += 1
        return shaped

    def table(self) -> pa.Table:
        """Return all rows; files of a merged dataset have one type for a column."""
        tables = [self._table(FILES.path_of(file.uri)) for file in self.live]
        assert [table.num_rows for table in tables] == [file.rows for file in self.live]
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows in the order of their keys."""
        rows = self.table().to_pylist()
        return sorted(rows, key=lambda row: tuple(row[name] for name in self.spec.keys))

    def rows_of(self, file: PublishedFile) -> list[dict[str, Any]]:
        """Return the rows of one file in their order."""
        return self._rows(FILES.path_of(file.uri), self.known)

    def _rows(self, path: str, known: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._table(path, known).to_pylist()
        return rows

    def _table(self, path: str, known: str = "") -> pa.Table:
        if path.endswith(".parquet"):
            return pq.read_table(path)
        dataset_files = DatasetFiles(self.job.publishing.final_dir, "", self.job.writing)
        file = row_file(FILES, path, parse_schema(known or self.known))
        return pa.Table.from_batches(file.batches(dataset_files), schema=file.schema)
