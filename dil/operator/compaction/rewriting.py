"""Rewrites the rows of several files as one, in a schema that they all fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.dataset import PublishedFile
from dil.model.job import Job
from dil.model.schema_text import parse_schema
from dil.model.task import StagedFile
from dil.observe.progress import counted
from dil.operator.compaction.planning import FileGroup
from dil.reshaping.files import RowFile, Workshop, row_file, unknown_column
from dil.storage import Filesystem
from dil.writing.ownership import give
from dil.writing.widening import conform


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Writes files of a job into ``staging``; ``schema`` is the dataset's recorded one, as text."""

    job: Job
    filesystem: Filesystem
    staging: str
    schema: str

    def rewrite(self, name: str, group: FileGroup) -> tuple[StagedFile, ...]:
        """Write the rows of a group into one file.

        Raises:
            ConversionError: its files do not hold what was published.
        """
        job, filesystem = self.job, self.filesystem
        # As large as the group becomes: it was cut to the target already.
        writing = replace(job.writing, target_bytes=max(8 * group.bytes, 1 << 30))
        workshop = Workshop(job.publishing.final_dir, self.staging, writing)
        known = parse_schema(self.schema)
        sources = [
            row_file(filesystem, filesystem.path_of(file.uri), known) for file in group.files
        ]
        target = _joint_schema(sources, known)
        batches = (
            conform(batch, target)
            for source, file in zip(sources, group.files, strict=True)
            for batch in _checked_rows(source, file, workshop)
        )
        staged = workshop.write(name, batches, StagedFile("", 0, 0, ""))
        give(staged, job.writing.owner, job.writing.group)
        return staged


def _checked_rows(
    source: RowFile, file: PublishedFile, workshop: Workshop
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, and check that they are as many as were published.

    Raises:
        ConversionError: there are more or fewer.
    """
    rows = 0
    for batch in source.batches(workshop):
        rows += batch.num_rows
        yield batch
    if rows != file.rows:
        raise ConversionError(
            f"{file.uri} has {counted(rows, 'row')}, and {file.rows:,} were published",
            "Nothing was done with it. `dil state verify` lists such files.",
        )


def _joint_schema(sources: Sequence[RowFile], known: pa.Schema) -> pa.Schema:
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
