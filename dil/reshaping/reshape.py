"""From staged files to what is published; Arrow is loaded where they cannot stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

from dil.errors import ConversionError
from dil.model.job import WritingSpec
from dil.publishing import Finished, PublishableResults
from dil.reshaping.reshaping import Reshaping, are_files_shared, fits_as_it_is
from dil.storage import Filesystem


def reshape(
    work: Reshaping, finished: Sequence[Finished], filesystem: Filesystem
) -> PublishableResults:
    """Return results whose files have one schema, merged or put together where the job says so.

    Raises:
        ConversionError: columns of unlike kinds, values that their type does not hold, keys that
            are null, no column that marks deletes. What the work unit staged is not used again:
            the next run reads anew. With ``keeps_others`` it is the failure of the work unit in
            what is returned.
        SourceContractError: more rows are missing at the source than may be deleted.
        WriteError: files cannot be written.
    """
    shaped = PublishableResults(finished)
    if not fits_as_it_is(work, finished):
        _refuse_unreadable(work.job.writing)
        from dil.reshaping.steps import apply_steps

        shaped = apply_steps(work, finished, filesystem)
    if are_files_shared(work, shaped.finished):
        from dil.reshaping.sharing import share

        shaped = share(work, shaped, filesystem)
    return shaped


def _refuse_unreadable(writing: WritingSpec) -> None:
    """Refuse to bring files of a class of the job's own into one schema."""
    if writing.own is not None:
        raise ConversionError(
            "work units of this job have unlike columns, and files of"
            f" {writing.own.ref.qualname} are not written anew to bring them into one schema",
            "Give the columns of this job with ms.output.schema.",
        )
