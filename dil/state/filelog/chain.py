"""The chain as plain files, one per block, for readers without dil (rule C33).

The files are written from the journal, after the block's entry: the next writer adds files that a
crashed writer did not write.
"""

from __future__ import annotations

from dil.state.blocks.canonical import canonical
from dil.state.chain.chain_rows import read_tip
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.filelog.folder import JobFolder


class ChainFiles:
    """Keeps a job's block files complete up to the head."""

    def __init__(self, folder: JobFolder, job: str) -> None:
        self._folder = folder
        self._job = job
        self._written = -1

    def complete(self, tx: Transaction) -> None:
        """Write the missing files of blocks, oldest first, then the hint.

        Raises:
            StateError: a file cannot be written, or has another block.
        """
        head = tx.row(sql.HEAD, self._job)
        if head is None or head[4] == self._written:
            return
        for sequence in range(self._first_missing(tx, head[4]), head[4] + 1):
            self._folder.put_block(sequence, self._content(tx, sequence))
        self._folder.put_head(self._hint(tx))
        self._written = head[4]

    def set_aside(self, name: str) -> None:
        """Move all files away, the files of the newest blocks first.

        So after a crash the rest begins with the first block, has no gap, and can be completed.
        """
        self._written = -1
        self._folder.set_chain_aside(name)

    def _first_missing(self, tx: Transaction, head: int) -> int:
        """Return the sequence of the first block without a file; files are written oldest first."""
        for sequence in range(head, self._written, -1):
            found = self._folder.block(sequence)
            if found is not None:
                if found != self._content(tx, sequence):
                    raise self._folder.other_block(sequence)
                return sequence + 1
        return self._written + 1

    def _content(self, tx: Transaction, sequence: int) -> bytes:
        row = tx.row(sql.BLOCK, self._job, sequence)
        return b"" if row is None else bytes(row[1])

    def _hint(self, tx: Transaction) -> bytes:
        tip = read_tip(tx, self._job)
        if tip is None:
            raise AssertionError("a chain with a head has a tip")
        return canonical(
            {
                "seq": tip.head.sequence,
                "hash": tip.hash,
                "dataSeq": tip.data_sequence,
                "configSeq": tip.source_sequence,
                "schemaSeq": tip.schema_sequence,
                "offset": tip.last_offset,
            }
        )
