"""Keys of the last rows of pages, which lead to the next pages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors.jdbc.cursor import KeyWatch
from dil.errors import SourceContractError


def watched(*batches: list[int | None]) -> KeyWatch:
    """Return the watch of a full page of these batches."""
    watch = KeyWatch(("id",), sum(map(len, batches)))
    for keys in batches:
        watch.see(pa.record_batch({"id": pa.array(keys, pa.int64())}))
    return watch


@pytest.mark.parametrize("batches", [[[1, 2, 2]], [[1, 2], [2]], [[1], [2], [2]], [[1, None]]])
def test_a_full_page_whose_last_rows_share_a_key_or_have_none_leads_nowhere(batches):
    with pytest.raises(SourceContractError):
        watched(*batches).check()


@pytest.mark.parametrize("batches", [[[1, 1, 2]], [[1, 1], [2]], [[2], [2], [3]]])
def test_rows_that_share_a_key_inside_a_page_do_no_harm(batches):
    watch = watched(*batches)
    watch.check()
    assert watch.last == {"id": batches[-1][-1]}
