"""The steps from staged files to the published form: one schema, then the merge."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa

from dil.errors import ConversionError
from dil.model.destination import DELETED_AT
from dil.model.task import Failure
from dil.publishing.page_log import drop_logs
from dil.publishing.results import FinishedUnit, PublishableResults
from dil.publishing.staged import delete_result
from dil.reshaping.files import DatasetFiles, row_file
from dil.reshaping.keys import DELETED_TYPE
from dil.reshaping.merging import Schemas, merge
from dil.reshaping.reshaping import Reshaping, fits_as_it_is
from dil.reshaping.unifying import SchemaConflictError, parts_of, target_schema, unified
from dil.storage import Filesystem
from dil.types.schema_text import merged_text, parse_schema, schema_text

log = logging.getLogger(__name__)


def apply_steps(
    work: Reshaping, finished: Sequence[FinishedUnit], filesystem: Filesystem
) -> PublishableResults:
    """Return merged results of one schema; an earlier attempt's work is repeated from scratch.

    Raises:
        DilError: as in ``reshape``.
    """
    try:
        return _carried_out(work, finished, filesystem)
    except SchemaConflictError as misfit:
        _discard(misfit, finished, work, filesystem)
        errors = misfit.errors
        if not work.keeps_others:
            raise next(iter(errors.values())) from misfit
    for error in errors.values():
        log.error("%s", error.message)
    others = tuple(_without_misfits(each, errors) for each in finished)
    rest = replace(work, has_all_rows=False)
    return (
        PublishableResults(others)
        if fits_as_it_is(rest, others)
        else apply_steps(rest, others, filesystem)
    )


def _carried_out(
    work: Reshaping, finished: Sequence[FinishedUnit], filesystem: Filesystem
) -> PublishableResults:
    filesystem.delete_tree(work.folder)
    dataset_files = DatasetFiles(work.job.publishing.final_dir, work.folder, work.job.writing)
    parts = parts_of(finished, dataset_files)
    known = _known(work, filesystem)
    target = _with_mark(target_schema(known, parts, dataset_files), work)
    results = unified(finished, parts, target, dataset_files, work.stage)
    return merge(work, results, Schemas(known, target), dataset_files)


def _without_misfits(each: FinishedUnit, errors: Mapping[str, ConversionError]) -> FinishedUnit:
    """Return a work unit as failed if its rows do not fit other units' rows."""
    error = errors.get(each.work_unit.signature)
    if error is None or each.report.failure is not None:
        return each
    return replace(each, report=replace(each.report, files=(), failure=Failure.of(error)))


def _known(work: Reshaping, filesystem: Filesystem) -> pa.Schema:
    """Return the recorded schema or, if there is none, the schema of the live files."""
    if work.known or work.merge is None:
        return parse_schema(work.known)
    texts = [
        schema_text(row_file(filesystem, filesystem.path_of(file.uri), pa.schema([])).schema)
        for file in work.live
    ]
    return parse_schema(reduce(lambda one, other: merged_text(one, [other]), texts, ""))


def _with_mark(target: pa.Schema, work: Reshaping) -> pa.Schema:
    """Return the schema; if the job has soft deletes, with the column for their time."""
    if work.merge is None or not work.merge.is_soft:
        return target
    at = target.get_field_index(DELETED_AT)
    if at < 0:
        return target.append(pa.field(DELETED_AT, DELETED_TYPE))
    if target.field(at).type != DELETED_TYPE:
        raise ConversionError(
            f'column "{DELETED_AT}" of the source is {target.field(at).type}, and '
            "ms.merge.deletes=soft keeps the time of a delete in a column of this name",
            "Rename the source's column with ms.derived.fields, or set ms.merge.deletes=hard.",
        )
    return target


def _discard(
    misfit: SchemaConflictError,
    finished: Sequence[FinishedUnit],
    work: Reshaping,
    filesystem: Filesystem,
) -> None:
    """Remove the marks of complete attempts, and kept pages, so that all rows are read again."""
    for each in finished:
        if each.work_unit.signature in misfit.errors:
            delete_result(filesystem, each.report)
    if work.job.has_input("payload"):
        return  # rows that were sent cannot be taken back
    runs = work.folder.rpartition("/")[0].rpartition("/")[0]
    for run in filesystem.folders(runs):
        drop_logs(filesystem, f"{runs}/{run}", misfit.errors)
