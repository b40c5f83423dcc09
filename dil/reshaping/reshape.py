"""Reshapes staged files for publishing; loads Arrow only if files have to change."""

from __future__ import annotations

from collections.abc import Sequence

from dil.errors import ConversionError
from dil.publishing.results import FinishedUnit, PublishableResults
from dil.reshaping.reshaping import Reshaping, are_files_shared, fits_as_it_is
from dil.storage import Filesystem


def reshape(
    work: Reshaping, finished: Sequence[FinishedUnit], filesystem: Filesystem
) -> PublishableResults:
    """Return results whose files have one schema, merged or shared if the job says so.

    Raises:
        ConversionError: columns have unlike kinds, values do not fit their type, keys are null, or
            no column marks deletes. The staged files of the work unit are not used again: the next
            run reads the work unit again. If ``keeps_others`` is true, this error is not raised:
            the results then have the failure of the work unit.
        SourceContractError: more rows are missing at the source than may be deleted.
        WriteError: files cannot be written.
    """
    shaped = PublishableResults(finished)
    if not fits_as_it_is(work, finished):
        own = work.job.writing.own
        if own is not None:
            raise ConversionError(
                "work units of this job have unlike columns, and files of"
                f" {own.ref.qualname} cannot be rewritten with one schema",
                "Give the columns of this job with ms.output.schema.",
            )
        from dil.reshaping.steps import apply_steps

        shaped = apply_steps(work, finished, filesystem)
    if are_files_shared(work, shaped.finished):
        from dil.reshaping.sharing import share

        shaped = share(work, shaped, filesystem)
    return shaped
