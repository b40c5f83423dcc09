"""Refuses inputs that a derived dataset read before and cannot go on reading as set up now.

The last data block only has the positions of the present inputs, so an input that was left out
meanwhile would be read from its beginning: its rows would be doubled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from dil.errors import StateError
from dil.model.derived import REBUILD_COMMAND, InputSlice
from dil.model.job import QueryMode
from dil.state.blocks.block import listed, transform_inputs
from dil.state.chain.chain_rows import config_event_at
from dil.state.databases.database import Transaction
from dil.state.derived.inputs import StoredInput, open_input


def refuse_inputs_read_before(
    tx: Transaction, dataset_id: str, slices: Sequence[InputSlice]
) -> None:
    """Refuse to begin an input whose rows the dataset already has.

    It reads nothing if no input is new, else one block for each earlier query of the dataset.

    Raises:
        StateError: an earlier query read the input, and the dataset was not rebuilt since.
    """
    new = [item.dataset_id for item in slices if item.prev_block_hash is None]
    own = open_input(tx, dataset_id) if new else None
    if own is None:
        return
    for name in new:
        if _was_read(own, name):
            raise StateError(
                f"input {json.dumps(name)} was read by an earlier query of"
                f" {json.dumps(dataset_id)}, then left out of ms.query.inputs: it would be read"
                " from its beginning, and its rows would be doubled",
                f"To read the whole inputs once and replace this dataset: {REBUILD_COMMAND}. Or"
                " give the job another job.name and table.",
            )


def refuse_other_reading(
    tx: Transaction, dataset_id: str, slices: Sequence[InputSlice], closed: frozenset[str]
) -> None:
    """Refuse an input that is in ``closed`` now but was not when it was read, or the reverse.

    The input's position does not say which labels were open there: rows of these labels would be
    read twice, or never. ``slices`` continue the slices of the last data block, and say how these
    slices were read.

    Raises:
        StateError: there is such an input.
    """
    read = [item for item in slices if item.prev_block_hash is not None]
    own = open_input(tx, dataset_id) if read else None
    if own is None:
        return
    before = _read_by_label(own, read)
    for item in read:
        name = item.dataset_id
        if (name in before) == (name in closed):
            continue
        how = (
            "closed is set, and rows of this input were read without it: rows of labels that are "
            "open would be doubled"
            if name in closed
            else "closed is not set, and this input was read by its closed timelabels: rows of "
            "labels that were open would never be read"
        )
        raise StateError(
            f"input {json.dumps(name)} of ms.query.inputs: {how}",
            "Set it as it was. Or, to read the whole inputs once and replace this dataset:"
            f" {REBUILD_COMMAND}.",
        )


def _read_by_label(own: StoredInput, read: Sequence[InputSlice]) -> frozenset[str]:
    """Return the inputs of which only rows of closed timelabels were read.

    The last data block says this for each input, unless an earlier release wrote that block. The
    transform in force says it, too. It is read only if the data block does not say it, or if the
    transform is newer than the data block.
    """
    is_newer = (own.source_sequence or 0) > (own.data_sequence or 0)
    if is_newer or any(item.closed is None for item in read):
        event = config_event_at(own.tx, own.dataset_id, own.source_sequence)
        return frozenset() if event is None else frozenset(map(str, listed(event, "closed")))
    return frozenset(item.dataset_id for item in read if item.closed)


def _was_read(own: StoredInput, name: str) -> bool:
    """Return whether the dataset has rows of an input that its last block does not have."""
    at = own.last_until(own.sequence, ("SetTransform",))
    while at is not None:
        event = config_event_at(own.tx, own.dataset_id, at)
        if name in transform_inputs(event):
            return True
        if event is not None and event.body.get("mode") == QueryMode.FULL.value:
            return False  # that block rebuilt the dataset without the input
        at = own.last_until(at - 1, ("SetTransform",))
    return False
