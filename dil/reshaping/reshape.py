"""From staged files to what is published; Arrow is loaded where they cannot stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

from dil.publishing import Finished, Shaped
from dil.reshaping.reshaping import Reshaping, are_files_shared, fits_as_it_is
from dil.storage import Filesystem


def reshape(work: Reshaping, finished: Sequence[Finished], filesystem: Filesystem) -> Shaped:
    """Return results whose files have one schema, merged or put together where the job says so.

    Raises:
        ConversionError: columns of unlike kinds, values that their type does not hold, keys that
            are null, no column that tells of deletes. What the work unit staged is not used again:
            the next run reads anew. With ``keeps_others`` it is the failure of the work unit in
            what is returned.
        SourceContractError: more rows are missing at the source than may be deleted.
        WriteError: files cannot be written.
    """
    shaped = Shaped(finished)
    if not fits_as_it_is(work, finished):
        from dil.reshaping.steps import carry_out

        shaped = carry_out(work, finished, filesystem)
    if are_files_shared(work, shaped.finished):
        from dil.reshaping.sharing import share

        shaped = share(work, shaped, filesystem)
    return shaped
