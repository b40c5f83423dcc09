"""The last act of an operator, read from the chain.

Chains are long: blocks are read one by one, and memory grows with the number of work units, not
with the number of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dil.model.closed_labels import LabelWindow
from dil.model.dataset import UnitEntry
from dil.model.json import JsonObject
from dil.spi.state_store import changed_uris
from dil.state.blocks.canonical import instant_of
from dil.state.blocks.source_state import COMMITTED, delta_in, is_removal
from dil.text.windows import label_start


@dataclass(frozen=True, slots=True)
class LastAct:
    """An operator's last act, and the later changes to its work units; times epoch ms UTC.

    ``sequence`` is the block of the act's ResetState: the block before it has the state to return
    to. ``signatures`` are the act's work units, and ``rows`` their index rows after the act, None
    for a removed row. ``overwritten`` are the work units that runs committed or failed to read
    since. After ``settled``, ``signatures`` and ``overwritten`` only have work units whose row the
    act changed; ``named`` are the act's other work units, and ``read_since`` are the named work
    units that runs committed since. ``added`` and ``removed`` are URIs of files that the act added
    or removed. ``has_files_since`` says whether other files came or went since. ``closed`` and
    ``reopened`` are the timelabels that the act closed and reopened.
    """

    verb: str
    act_id: str
    reason: str
    sequence: int
    signatures: frozenset[str]
    overwritten: frozenset[str]
    watermark_before: int | None
    watermark_after: int | None
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    has_files_since: bool = False
    rows: Mapping[str, UnitEntry | None] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    read_since: frozenset[str] = frozenset()
    closed: tuple[LabelWindow, ...] = ()
    reopened: tuple[LabelWindow, ...] = ()

    def settled(self, then: Iterable[UnitEntry]) -> LastAct:
        """Return the act, with the rows that it changed separated from the rows that it only names.

        Args:
            then: All rows of the index just before the act.
        """
        before = {entry.signature: entry for entry in then if entry.signature in self.signatures}
        named = frozenset(
            signature for signature, row in self.rows.items() if before.get(signature) == row
        )
        return replace(
            self,
            signatures=self.signatures - named,
            overwritten=self.overwritten - named,
            named=named,
            read_since=self.read_since & named,
        )

    def watermark_to_restore(self, now: int | None) -> int | None:
        """Return the watermark before the act, epoch ms UTC; None if runs have raised it since."""
        before, after = self.watermark_before, self.watermark_after
        if before == after:
            return now
        was_lowered = before is not None and (after is None or before > after)
        if now == after or not was_lowered or now is None or before is None:
            return before
        return max(now, before)


def last_act(resets: Iterable[JsonObject], blocks: Iterable[JsonObject]) -> LastAct | None:
    """Return the newest act of an operator, None if there is none.

    Args:
        resets: Blocks, newest first, that include all ResetState blocks; only the blocks from the
            newest back to the act are read.
        blocks: All blocks, newest first; only the blocks from the newest back to the data block
            before the act are read, and none if there is no act.
    """
    act = next((block for block in resets if _is_act(block["event"])), None)
    if act is None:
        return None
    reset: Any = act["event"]
    sequence = _sequence(act)
    last_own = sequence + int(reset["dataBlocks"])
    since: set[str] = set()
    read_since: set[str] = set()
    own: dict[str, UnitEntry | None] = {}
    first: Any = None  # the data block with the act's files and its watermark
    before = None
    has_files_since = False
    for block in blocks:
        event: Any = block["event"]
        if not _is_data(event):
            continue
        if _sequence(block) > last_own:
            since.update(_signatures(block))
            read_since.update(_signatures(block, COMMITTED))
            has_files_since = has_files_since or bool(event.get("newData"))
        elif _sequence(block) > sequence:
            own.update((str(row["sig"]), _entry(row)) for row in delta_in(block))
            first = block
        else:
            before = _instant(event["newWatermark"])
            break
    added, removed = ([], []) if first is None else changed_uris(first)
    return LastAct(
        verb=str(reset["act"]),
        act_id=str(reset["actId"]),
        reason=str(reset["reason"]),
        sequence=sequence,
        signatures=frozenset(own),
        overwritten=frozenset(since & own.keys()),
        watermark_before=before,
        watermark_after=before if first is None else _instant(first["event"]["newWatermark"]),
        added=frozenset(added),
        removed=frozenset(removed),
        has_files_since=has_files_since,
        rows=own,
        read_since=frozenset(read_since & own.keys()),
        closed=_windows(reset, "closed"),
        reopened=_windows(reset, "reopened"),
    )


def act_ids(resets: Iterable[JsonObject]) -> list[str]:
    """Return the ids of operators' acts, newest first, from all ResetState blocks."""
    events: Iterable[Any] = (block["event"] for block in resets)
    return [str(event["actId"]) for event in events if _is_act(event)]


def watermark_at(blocks: Iterable[JsonObject], sequence: int) -> int | None:
    """Return the dataset's watermark just after a block, epoch ms UTC, None if it had none."""
    for block in blocks:
        event: Any = block["event"]
        if _sequence(block) <= sequence and _is_data(event):
            return _instant(event["newWatermark"])
    return None


@dataclass(frozen=True, slots=True)
class FilesSince:
    """URIs of files that came after a block, and of files that existed at the block and left.

    ``late`` are the files of late rows that came.
    """

    came: frozenset[str]
    left: frozenset[str]
    late: frozenset[str]


def files_since(blocks: Iterable[JsonObject], sequence: int) -> FilesSince:
    """Return the files that came and left after a block.

    A removed file may have come back, so the first later block that adds or removes a file decides.
    """
    came: set[str] = set()
    left: set[str] = set()
    late: set[str] = set()
    for block in blocks:
        if _sequence(block) <= sequence:
            break
        event: Any = block["event"]
        late.update(str(part["path"]) for part in (event.get("lateData") or {}).get("parts") or ())
        added, removed = changed_uris(block)
        came.update(added)
        came.difference_update(removed)
        left.difference_update(added)
        left.update(removed)
    return FilesSince(frozenset(came), frozenset(left), frozenset(late))


def blocks_of_act(resets: Iterable[JsonObject], sequence: int) -> range | None:
    """Return the blocks of the act that begins before a block and ends after it, None if none does.

    Args:
        resets: Blocks, newest first, with all ResetState blocks among them.
        sequence: The sequence of the block.
    """
    for block in resets:
        start = _sequence(block)
        if start <= sequence and _is_act(block["event"]):
            event: Any = block["event"]
            end = start + int(event["dataBlocks"])
            return range(start, end + 1) if start < sequence < end else None
    return None


def changed_since(blocks: Iterable[JsonObject], instant_text: str) -> frozenset[str]:
    """Return the signatures that blocks changed after an instant, given as system-time text.

    No block has an earlier time than the block before it, whatever the clock was (V05).
    """
    found: set[str] = set()
    for block in blocks:
        if str(block["systemTime"]) <= instant_text:
            break
        found.update(_signatures(block))
    return frozenset(found)


def pruned_units(
    resets: Iterable[JsonObject], blocks: Iterable[JsonObject], signatures: Iterable[str]
) -> frozenset[str]:
    """Return the work units whose record ``dil state prune`` removed, and no later block has again.

    Args:
        resets: All ResetState blocks.
        blocks: All blocks, newest first; read down to the last mention of each work unit, and not
            at all if nothing was ever pruned.
        signatures: The work units to look for.
    """
    acts: list[Any] = [block for block in resets if _is_act(block["event"])]
    prunes = [
        range(_sequence(act) + 1, _sequence(act) + 1 + int(act["event"]["dataBlocks"]))
        for act in acts
        if act["event"]["act"] == "prune"
    ]
    unseen = set(signatures) if prunes else set()
    found: set[str] = set()
    for block in blocks if unseen else ():
        named = unseen.intersection(_signatures(block))
        unseen -= named
        if any(_sequence(block) in each for each in prunes):
            found |= named
        if not unseen:
            break
    return frozenset(found)


def _windows(reset: Mapping[str, Any], word: str) -> tuple[LabelWindow, ...]:
    labels = reset.get("timelabels", {}).get(word, ())
    return tuple(
        LabelWindow(label_start(each["timelabel"]), each["windowEnd"], each["timelabel"])
        for each in labels
    )


def _is_act(event: Any) -> bool:  # the JSON edge
    return bool(event["kind"] == "ResetState" and "actId" in event)


def _is_data(event: Mapping[str, Any]) -> bool:
    return bool(event["kind"] == "AddData")


def _sequence(block: JsonObject) -> int:
    return int(str(block["sequenceNumber"]))


def _instant(text: str | None) -> int | None:
    return None if text is None else instant_of(text)


def _signatures(block: JsonObject, status: str = "") -> list[str]:
    return [str(row["sig"]) for row in delta_in(block) if status in ("", row.get("status"))]


def _entry(row: Mapping[str, Any]) -> UnitEntry | None:
    """Return the index row in a delta, None for a row that is removed."""
    if is_removal(row):
        return None
    names = ("low", "expectedHigh", "high", "status", "attempts")
    values: tuple[Any, ...] = tuple(map(row.get, names))
    return UnitEntry(str(row["sig"]), *values)
