"""Moves the end of a slice that was cut to the first block at which all its files still exist.

A block after the cut may have removed files that the slice would read, as a compaction and a run
that replaces do: then these files are deleted, and the slice continues to that block.
"""

from __future__ import annotations

from collections import Counter

from dil.state.blocks.events import Slice
from dil.state.chain.slices import is_live
from dil.state.derived.inputs import StoredInput


def end_with_files(chain: StoredInput, first: int, end: int) -> int:
    """Return the sequence of the first block from ``end`` on at which no file of the slice is gone.

    Raises:
        StateError: a block is damaged.
    """
    if chain.first_after(end - 1, ("ResetState",)) is not None:  # only acts bring files back
        end = _end_with_files_back(chain, first, end)
    gone: set[str] = set()
    # Files of blocks behind the end: they count when the slice extends to them.
    behind: set[str] = set()
    has_changelog = False
    for low, high in ((first, end), (end, chain.sequence)):
        if low == end and not gone:
            break
        for number, event in chain.events_with_data(low, high):
            is_inside = number <= end
            if not (is_inside or gone):
                break
            has_changelog |= event.changelog is not None
            if is_inside and has_changelog:  # the changelog is read, and its files stay
                return end
            if event.new_data is None:
                continue
            removed = {part.path for part in event.new_data.removes}
            added = (part.path for part in event.new_data.parts or ())
            behind -= removed
            behind.update(path for path in added if not is_live(chain.tx, chain.dataset_id, path))
            extends = not is_inside and bool(gone & removed)
            if is_inside or extends:
                gone = (gone - removed) | behind
                behind = set()
            if extends:
                end = number
                gone = set() if has_changelog else gone
    # If no block removes a file that is gone, the reader reports it.
    return end


def _end_with_files_back(chain: StoredInput, first: int, end: int) -> int:
    """Return the block from ``end`` on by which files that left earlier have returned.

    An act that undid another act brought them back. If they do not return, the reader of the rows
    reports it.
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
