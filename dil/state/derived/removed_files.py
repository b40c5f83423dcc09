"""Where a slice that was cut must end, so that its files are still there.

A block behind the cut may have taken away files that the slice would read, as a compaction does:
they are deleted then, and the slice goes on to that block. An act that does so is on record: where
there is none behind the cut, no block is read.
"""

from __future__ import annotations

from collections import Counter

from dil.state.blocks.events import Slice
from dil.state.chain.slices import is_live
from dil.state.derived.inputs import StoredInput


def end_with_files(chain: StoredInput, first: int, end: int) -> int:
    """Return the first block at or behind ``end`` that leaves no file of ``(first, it]`` gone.

    Raises:
        StateError: a block is damaged.
    """
    if chain.first_after(end - 1, ("ResetState",)) is None:
        return end
    end = _end_with_files_back(chain, first, end)
    while gone := _gone(chain, first, end):
        removing = (
            number
            for number, data in chain.slices(end, chain.sequence)
            if any(part.path in gone for part in data.removes)
        )
        later = next(removing, None)
        if later is None:
            break  # no block took it away: who reads it says that it is gone
        end = later
    return end


def _end_with_files_back(chain: StoredInput, first: int, end: int) -> int:
    """Return the block at or behind ``end`` by which files are back that left before it.

    An act brought them, when another one was taken back. Where they do not come back, who reads
    the rows says so.
    """
    left: Counter[str] = Counter()
    for _, data in chain.slices(first, end):
        _count(left, data)
    if not +left:
        return end
    for number, data in chain.slices(end, chain.sequence):
        _count(left, data)
        if not +left:
            return number
    return end


def _count(left: Counter[str], data: Slice) -> None:
    left.update(part.physical_hash for part in data.removes)
    for part in data.parts or ():
        if left[part.physical_hash] > 0:
            left[part.physical_hash] -= 1


def _gone(chain: StoredInput, first: int, end: int) -> set[str]:
    """Return the files that blocks ``(first, end]`` leave and that are not live any more."""
    left: set[str] = set()
    for _, data in chain.slices(first, end):
        left.difference_update(part.path for part in data.removes)
        left.update(part.path for part in data.parts or ())
    return {path for path in left if not is_live(chain.tx, chain.dataset_id, path)}
