"""Records an operator's act: one change of the work-unit index, appended, never rewritten.

An act is a ResetState block that names it, followed by data blocks whose deltas have the changed
rows. If the act only closes or reopens timelabels, CloseBooks and ReopenBooks blocks follow
instead. A large act has several data blocks, so that no block is larger than servers accept; all
are written in one transaction. A run that forgets work units changes the index in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dil.model.closed_labels import LabelWindow
from dil.model.dataset import Commit, OperatorAct, UnitEntry
from dil.model.json import JsonObject, JsonValue
from dil.state.blocks.canonical import watermark_text
from dil.state.blocks.events import ConfigEvent, SourceState
from dil.state.chain.label_closing import LabelCloser
from dil.state.chain.writer import ChainWriter
from dil.state.databases import sql
from dil.state.databases.database import Transaction
from dil.state.runs import run_rows
from dil.state.work_units.amended_rows import AmendedIndex

ROWS_PER_BLOCK = 5_000


def record_act(tx: Transaction, job: str, commit: Commit, act: OperatorAct) -> int | None:
    """Record an operator's act; return its last block's sequence, None if it wrote no block.

    Raises:
        CommitConflictError: another writer moved the head.
        StateError: a rule of the chain would break.
    """
    if act.runs_before is not None:
        run_rows.drop_swept(tx, job, act.runs_before)
    has_files = bool(commit.moves or commit.removes)
    if not (act.changed or act.removed or has_files or commit.closed_labels):
        return None
    writer = ChainWriter(tx, job, commit.system_time, horizon=commit.horizon)
    writer.begin()
    if commit.schema not in ("", writer.schema):
        writer.set_schema(commit.schema)
    chunks: list[Sequence[UnitEntry | str]] = []
    if act.changed or act.removed or has_files:  # oldest partitions first, in at least one block
        changed = sorted(act.changed, key=lambda each: (each.low, each.signature))
        chunks = _parts([*changed, *act.removed]) or [[]]
    writer.draft(_reset(act, commit, len(chunks)))
    index = AmendedIndex(tx, job, run_rows.read_counters(tx, job).era)
    for number, chunk in enumerate(chunks, start=1):
        is_last = number == len(chunks)
        state, replaced = _changed_rows(writer, index, chunk, commit, is_last=is_last)
        # The first data block has the files and the watermark.
        event = writer.data_event(commit if number == 1 else None)
        if number == 1 and act.sets_watermark:
            watermark = None if act.watermark is None else watermark_text(act.watermark)
            event = replace(event, new_watermark=watermark)
        writer.draft(replace(event, new_source_state=state), replaced=replaced)
        writer.write()
    if commit.closed_labels is not None:
        closer = LabelCloser(tx, job, commit, commit.closed_labels)
        closer.reopen(writer)
        closer.close(writer, writer.summary)
        writer.write()
    # Crashed runs staged work that was planned from rows which the act has just changed.
    tx.change(sql.SUPERSEDED_RUNS, job, commit.run_id)
    return writer.next_sequence - 1


def record_forgotten(
    tx: Transaction, job: str, commit: Commit, writer: ChainWriter, era: int
) -> None:
    """Remove the records of the work units that a run forgets, in data blocks of their own.

    They precede the block with the run's files: a state between the two never has a record of a
    success whose rows are gone.
    """
    index, chunks = AmendedIndex(tx, job, era), _parts(commit.run.forgotten)
    for number, chunk in enumerate(chunks, start=1):
        is_last = number == len(chunks)
        state, replaced = _changed_rows(writer, index, chunk, commit, is_last=is_last)
        event = replace(writer.data_event(), new_source_state=state)
        if writer.draft_if_changed(event, replaced=replaced):
            writer.write()


def _changed_rows(
    writer: ChainWriter,
    index: AmendedIndex,
    chunk: Sequence[UnitEntry | str],
    commit: Commit,
    *,
    is_last: bool,
) -> tuple[SourceState, Mapping[str, str]]:
    """Change rows of the index; return the state for their block, and the replaced row hashes."""
    changes = index.apply(chunk, writer.next_sequence)
    if is_last:
        index.count_coverage()
    summary = index.summary(writer.summary, changes, is_last=is_last)
    rows = list(changes.rows.values())
    return summary.as_state(commit.source_name, rows, changes.removed), changes.replaced


def _reset(act: OperatorAct, commit: Commit, data_blocks: int) -> ConfigEvent:
    """Return the event that names the act and, as ``dataBlocks``, the number of its data blocks."""
    body: JsonObject = {
        "fields": ["sourceState", *(["watermark"] if act.sets_watermark else [])],
        "reason": act.reason,
        "act": act.verb,
        "actId": commit.run_id,
        "dataBlocks": data_blocks,
    }
    if commit.closed_labels is not None and commit.closed_labels.forced:
        closed, reopened = _shown(commit.closed_labels.closes), _shown(commit.closed_labels.reopens)
        body = {**body, "timelabels": {"closed": closed, "reopened": reopened}}
    return ConfigEvent("ResetState", body)


def _shown(windows: Sequence[LabelWindow]) -> list[JsonValue]:
    return [{"timelabel": each.label, "windowEnd": each.high} for each in windows]


def _parts(wanted: Sequence[UnitEntry | str]) -> list[Sequence[UnitEntry | str]]:
    """Return the changes of each data block."""
    starts = range(0, len(wanted), ROWS_PER_BLOCK)
    return [wanted[start : start + ROWS_PER_BLOCK] for start in starts]
