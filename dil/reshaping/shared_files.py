"""Writes shared files: the rows of several files in one, with a record of their work units."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.dataset import PublishedFile, UnitRows
from dil.model.job import Job
from dil.model.task import StagedFile
from dil.observe.progress import counted
from dil.publishing.results import SharedFile
from dil.publishing.shared_files import refuse_misfit
from dil.reshaping.files import DatasetFiles, RowFile, row_file, unknown_column
from dil.types.schema_text import parse_schema
from dil.types.widening import conform
from dil.writing.ownership import give


@dataclass(frozen=True, slots=True)
class SharedFilePiece:
    """A file of ``rows`` rows that go into a shared file: all rows, or the rows of some work units.

    ``units`` are the ranges of rows to take, with their work units, in order. If the units of rows
    are unknown, ``units`` is empty, and all rows are taken.
    """

    path: str
    rows: int
    units: tuple[UnitRows, ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the ranges [low, high) of the rows to take, as few ranges as possible."""
        if not self.units:
            return ((0, self.rows),)
        found: list[tuple[int, int]] = []
        for each in self.units:
            if found and found[-1][1] == each.start:
                found[-1] = (found[-1][0], each.start + each.rows)
            else:
                found.append((each.start, each.start + each.rows))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class SharedFilePlan:
    """Pieces that become one shared file; ``folder`` is the absolute path of its final folder."""

    name: str
    pieces: tuple[SharedFilePiece, ...]
    folder: str
    timelabel: str = ""

    @property
    def units(self) -> tuple[UnitRows, ...]:
        """Return the ranges of rows by work unit in the new file; empty if any is not known."""
        if not all(piece.units for piece in self.pieces):
            return ()
        units: list[UnitRows] = []
        start = 0
        for piece in self.pieces:
            for each in piece.units:
                last = units[-1] if units else None
                if last is not None and last.signature == each.signature:
                    units[-1] = UnitRows(last.signature, last.start, last.rows + each.rows)
                else:
                    units.append(UnitRows(each.signature, start, each.rows))
                start += each.rows
        return tuple(units)


@dataclass(frozen=True, slots=True)
class SharedFileWriter:
    """Writes shared files; can be pickled, because tasks use it.

    ``known`` are the columns that the pieces may have. Their types are used if the format of the
    files records no types.
    """

    dataset_files: DatasetFiles
    known: pa.Schema

    @classmethod
    def of(cls, job: Job, folder: str, known: str) -> SharedFileWriter:
        """Return the writer of a job's files; ``known`` is the dataset's schema as text."""
        dataset_files = DatasetFiles(job.publishing.final_dir, folder, job.writing)
        return cls(dataset_files, parse_schema(known))

    def __call__(self, plan: SharedFilePlan) -> SharedFile:
        """Write the rows of all pieces into one file, in their order, and return it.

        Raises:
            ConversionError: a piece does not hold the rows that it should.
            WriteError: the file system refused.
        """
        # One file, even if rows become larger in another schema: they were cut to the target
        # before.
        writing = replace(self.dataset_files.writing, target_bytes=sys.maxsize)
        dataset_files = replace(self.dataset_files, writing=writing)
        sources = [
            row_file(dataset_files.filesystem, piece.path, self.known) for piece in plan.pieces
        ]
        target = _common_schema(sources, self.known)
        batches = (
            conform(batch, target)
            for source, piece in zip(sources, plan.pieces, strict=True)
            for batch in _taken_rows(source, piece, dataset_files)
        )
        model = StagedFile("", 0, 0, "", timelabel=plan.timelabel)
        (written,) = dataset_files.write(plan.name, batches, model)
        give([written], writing.owner, writing.group)
        return SharedFile(written, plan.folder, plan.units)


def shared_file_of(
    files: Sequence[PublishedFile], name: str, path_of: Callable[[str], str]
) -> SharedFilePlan:
    """Return the plan that joins published files of one folder and one timelabel.

    Args:
        files: The files, in the order of their rows.
        name: The name of the new file in staging.
        path_of: Returns the path of a URI's file.

    Raises:
        StateError: the recorded ranges of a file do not give each row to exactly one work unit.
    """
    for file in files:
        refuse_misfit(file)
    pieces = tuple(SharedFilePiece(path_of(file.uri), file.rows, file.unit_rows) for file in files)
    folder = pieces[0].path.rpartition("/")[0]
    return SharedFilePlan(name, pieces, folder, files[0].timelabel or "")


def rest_of(
    file: PublishedFile, path: str, leaving: frozenset[str], name: str
) -> SharedFilePlan | None:
    """Return the plan for a published file without the rows of some work units.

    The result is None if no row stays.

    Args:
        file: The file, with the recorded ranges of its work units.
        path: The path of the file.
        leaving: The signatures of the work units whose rows leave.
        name: The name of the new file in staging.

    Raises:
        StateError: the recorded ranges do not give each row to exactly one work unit.
    """
    refuse_misfit(file)
    units = tuple(each for each in file.unit_rows if each.signature not in leaving)
    if not units:
        return None
    folder = path.rpartition("/")[0]
    return SharedFilePlan(
        name, (SharedFilePiece(path, file.rows, units),), folder, file.timelabel or ""
    )


def _taken_rows(
    source: RowFile, piece: SharedFilePiece, dataset_files: DatasetFiles
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece, and check that its file has the number of published rows.

    Raises:
        ConversionError: there are more or fewer rows.
    """
    rows = 0
    for start, batch in source.numbered(dataset_files):
        rows = start + batch.num_rows
        for low, high in piece.ranges:
            first, last = max(low, start), min(high, rows)
            if first < last:
                yield batch.slice(first - start, last - first)
    if rows != piece.rows:
        raise ConversionError(
            f"{piece.path} has {counted(rows, 'row')}, and {piece.rows:,} were published",
            "The file was not changed. `dil state verify` lists such files.",
        )


def _common_schema(sources: Sequence[RowFile], known: pa.Schema) -> pa.Schema:
    """Return a schema for all files: the schema that all have, else their columns as recorded.

    Raises:
        ConversionError: a file has a column that the recorded schema does not have.
    """
    first = sources[0].schema
    if all(source.schema.equals(first, check_metadata=True) for source in sources):
        return first
    columns: dict[str, list[pa.Field]] = defaultdict(list)
    recorded = frozenset(known.names)
    for source in sources:
        for field in source.schema:
            if field.name not in recorded:
                raise unknown_column(source.path, field.name)
            columns[field.name].append(field)
    return pa.schema(
        [
            # The type words come from the last file that has the column.
            field.with_nullable(
                nullable=len(having) < len(sources) or any(each.nullable for each in having)
            ).with_metadata(having[-1].metadata)
            for field in known
            if (having := columns.get(field.name))
        ]
    )
