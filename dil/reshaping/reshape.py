"""From staged files to what is published; Arrow is loaded where they cannot stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

from dil.publishing import Finished, Shaped
from dil.reshaping.reshaping import Reshaping, fits_as_it_is
from dil.storage import Filesystem


def reshape(work: Reshaping, finished: Sequence[Finished], filesystem: Filesystem) -> Shaped:
    """Return results whose files have one schema, and that are merged where the job says so.

    Raises:
        ConversionError: columns of unlike kinds, values that their type does not hold, keys that
            are null, no column that tells of deletes. What the work unit staged is not used again:
            the next run reads anew. With ``keeps_others`` it is the failure of the work unit in
            what is returned.
        SourceContractError: more rows are missing at the source than may be deleted.
        WriteError: files cannot be written.
    """
    if fits_as_it_is(work, finished):
        return Shaped(finished)
    from dil.reshaping.steps import carry_out

    return carry_out(work, finished, filesystem)
