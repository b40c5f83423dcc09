"""The checkpoint folder of a stream: its epoch, and the range of each of its last micro-batches.

The chain is the truth, and the checkpoint is only a copy: if the checkpoint is deleted, a new epoch
begins. If the chain was restored from a backup, the checkpoint shows that the chain is older than
the stream. ``offsets/N`` is written before micro-batch N runs, ``commits/N`` after its commit.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence

from dil.errors import DilError, StateError
from dil.model.json import JsonObject, compact
from dil.model.stream import MicroBatch, StreamState
from dil.storage import Filesystem

log = logging.getLogger(__name__)

EPOCH, OFFSETS, COMMITS = "dil_epoch", "offsets", "commits"
KEPT = 100
# A range with more work units has only their number, not their names.
_MOST_NAMED = 2_000


class CheckpointAheadError(StateError):
    """The checkpoint has micro-batches that the chain lacks; waiting does not help."""


class CheckpointFolder:
    """The checkpoint of one stream in a folder of its own."""

    def __init__(self, files: Filesystem, folder: str) -> None:
        self._files = files
        self._folder = folder.rstrip("/")

    def begin(self, known: StreamState | None, *, forces_new: bool = False) -> str:
        """Return the epoch, continued or new; ``known`` is the chain's newest micro-batch.

        Raises:
            CheckpointAheadError: the checkpoint is ahead of the chain.
            WriteError: the folder cannot be written.
        """
        written, path = "", f"{self._folder}/{EPOCH}"
        if self._files.exists(path):
            with self._files.open_input(path) as content:
                written = content.read().decode().strip()
        last = max(self._numbers(COMMITS), default=-1)
        if written and not forces_new:
            if known is not None and known.batch.epoch == written:
                if last <= known.batch.number:
                    return written
                raise _ahead(self._folder, f"micro-batch {last}", f"{known.batch.number}")
            if last >= 0:
                chain = "none" if known is None else f"epoch {known.batch.epoch}"
                raise _ahead(self._folder, f"epoch {written}", chain)
        epoch = secrets.token_hex(4)
        self.delete()
        self._files.put(path, f"{epoch}\n".encode())
        if known is not None:
            log.info(
                "the checkpoint %s is gone or of another chain: epoch %s begins, after the last "
                "commit of the chain",
                self._folder,
                epoch,
            )
        return epoch

    def plan(
        self, batch: MicroBatch, start: JsonObject, signatures: Sequence[str], now_ms: int
    ) -> None:
        """Write the work units that a micro-batch is about to read.

        Raises:
            WriteError: the folder cannot be written.
        """
        named = list(signatures[:_MOST_NAMED])
        members: JsonObject = {
            "v": 1,
            "epoch": batch.epoch,
            "batchId": batch.number,
            "plannedAt": now_ms,
            "start": start,
            "count": len(signatures),
            "workUnits": named,
        }
        self._put(OFFSETS, batch.number, compact(members))

    def commit(self, batch: MicroBatch, end: JsonObject) -> None:
        """Write the end of a committed micro-batch; the commit counts even without this record."""
        try:
            self._put(COMMITS, batch.number, compact({"v": 1, "end": end}))
            for kind in (OFFSETS, COMMITS):
                self._files.delete_file(f"{self._folder}/{kind}/{batch.number - KEPT}")
        except DilError as error:
            log.warning("the checkpoint could not be written: %s", error.message)

    def delete(self) -> None:
        """Delete the checkpoint's own files, the epoch first, and nothing else in the folder."""
        self._files.delete_file(f"{self._folder}/{EPOCH}")
        for kind in (OFFSETS, COMMITS):
            for number in self._numbers(kind):
                self._files.delete_file(f"{self._folder}/{kind}/{number}")

    def _put(self, kind: str, number: int, text: str) -> None:
        self._files.put(f"{self._folder}/{kind}/{number}", f"{text}\n".encode())

    def _numbers(self, kind: str) -> list[int]:
        names = [
            each.path.rpartition("/")[2] for each in self._files.files(f"{self._folder}/{kind}")
        ]
        return [int(name) for name in names if name.isdecimal()]


def _ahead(folder: str, own: str, chain: str) -> CheckpointAheadError:
    return CheckpointAheadError(
        f"the checkpoint {folder} is ahead of the chain: the checkpoint is at {own}, the chain at "
        f"{chain}",
        "Was the state restored from an older backup? Restore the newest one: dil state restore"
        " JOB.conf FILE. Without a backup, read everything again: move the dataset away, run dil "
        "state forget JOB.conf --all --keep-files --yes, then run the stream once with "
        "--force-new-epoch. That option alone is enough if the dataset is as old as the state, or "
        "if the folder is of another stream.",
    )
