"""Shared files written: rows of several files in one, in a schema that fits all, and whose."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.dataset import PublishedFile, UnitRows
from dil.model.task import StagedFile
from dil.observe.progress import counted
from dil.publishing import SharedFile
from dil.publishing.shared_files import refuse_misfit
from dil.reshaping.files import DatasetFiles, RowFile, row_file, unknown_column
from dil.types.widening import conform
from dil.writing.ownership import give


@dataclass(frozen=True, slots=True)
class SharedFilePiece:
    """A file of ``rows`` rows that go into another one, all of them or those of some work units.

    ``units`` say which rows are taken and whose they are, in their order. Where that is unknown, it
    is empty and all are taken.
    """

    path: str
    rows: int
    units: tuple[UnitRows, ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Return where the rows are that are taken, [low, high), as few ranges as will do."""
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
    """Pieces that become one shared file; ``folder`` is the absolute one that it goes to."""

    name: str
    pieces: tuple[SharedFilePiece, ...]
    folder: str
    timelabel: str = ""

    @property
    def units(self) -> tuple[UnitRows, ...]:
        """Return which rows of the new file are whose; empty where it is not known of all."""
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
    """Writes shared files; pickles, to be used by tasks.

    ``known`` are the columns that the pieces may have, with their types where the format of a file
    does not have them.
    """

    dataset_files: DatasetFiles
    known: pa.Schema

    def __call__(self, plan: SharedFilePlan) -> SharedFile:
        """Write the rows of all pieces into one file, in their order.

        Raises:
            ConversionError: a piece does not hold the rows that it should.
            WriteError: the file system refused.
        """
        # However large the rows become in another schema: they were cut to the target before.
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
    """Return what published files of one folder and one timelabel become.

    Args:
        files: The files, in the order of their rows.
        name: How the new file is called in staging.
        path_of: Returns where the file of a URI is.

    Raises:
        StateError: it is said whose the rows of a file are, but not of each of them once.
    """
    for file in files:
        refuse_misfit(file)
    pieces = tuple(SharedFilePiece(path_of(file.uri), file.rows, file.unit_rows) for file in files)
    folder = pieces[0].path.rpartition("/")[0]
    return SharedFilePlan(name, pieces, folder, files[0].timelabel or "")


def rest_of(
    file: PublishedFile, path: str, leaving: frozenset[str], name: str
) -> SharedFilePlan | None:
    """Return what stays of a published file when rows of some work units leave it; None if nothing.

    Args:
        file: The file, of whose rows is known whose they are.
        path: Where it is.
        leaving: The signatures of the work units.
        name: How the new file is called in staging.

    Raises:
        StateError: it is not said of each row once whose it is.
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
    """Yield the rows of a piece, and check that its file has as many as were published.

    Raises:
        ConversionError: there are more or fewer.
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
            "Nothing was done with it. `dil state verify` lists such files.",
        )


def _common_schema(sources: Sequence[RowFile], known: pa.Schema) -> pa.Schema:
    """Return the schema that all files fit: their own, or the recorded types of their columns.

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
            # The type words are those of the last file that has the column.
            field.with_nullable(
                nullable=len(having) < len(sources) or any(each.nullable for each in having)
            ).with_metadata(having[-1].metadata)
            for field in known
            if (having := columns.get(field.name))
        ]
    )
