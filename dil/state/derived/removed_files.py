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
    while gone := _gone(chain, first, end):
        removing = (
            number
            for number, data in chain.slices(end, chain.sequence)
            if any(part.path in gone for part in data.removes)
        )
        later = next(removing, None)
        if later is None:
            break  # no block removed the file: the reader reports that it is gone
        end = later
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


def _gone(chain: StoredInput, first: int, end: int) -> set[str]:
    """Return the files that blocks ``(first, end]`` added and that are no longer live.

    There are none if these blocks have a changelog: the changelog is read then, and its files stay.
    """
    left: set[str] = set()
    for _, event in chain.events_with_data(first, end):
        if event.changelog is not None:
            return set()
        if event.new_data is not None:
            left.difference_update(part.path for part in event.new_data.removes)
            left.update(part.path for part in event.new_data.parts or ())
    return {path for path in left if not is_live(chain.tx, chain.dataset_id, path)}
