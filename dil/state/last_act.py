"""The last act of an operator, as the chain tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dil.model.json import JsonObject
from dil.state.canonical import instant_of


@dataclass(frozen=True, slots=True)
class LastAct:
    """What was done, and what happened to its work units since; times epoch ms UTC.

    ``sequence`` is that of its ResetState: the block before it is the state to go back to.
    ``overwritten`` are its work units that runs committed since. ``added`` and ``removed`` are
    URIs of files that it brought back or took away.
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

    def watermark_to_restore(self, now: int | None) -> int | None:
        """Return the watermark of before the act, unless runs carried it further since."""
        before, after = self.watermark_before, self.watermark_after
        if before == after:
            return now
        was_lowered = before is not None and (after is None or before > after)
        if now == after or not was_lowered or now is None or before is None:
            return before
        return max(now, before)


@dataclass(slots=True)
class _Search:
    """Blocks newest first: what is behind the act, then the act, then what was before it."""

    later: list[JsonObject] = field(default_factory=list)
    act: Mapping[str, Any] | None = None
    sequence: int = 0


def last_act(blocks: Iterable[JsonObject]) -> LastAct | None:
    """Return the newest act of an operator, None when there is none.

    Args:
        blocks: All blocks, newest first; read down to the data block before the act.
    """
    search = _Search()
    for block in blocks:
        event: Any = block["event"]
        if search.act is not None:
            if _is_data(event):
                return _found(search, _instant(event["newWatermark"]))
        elif event["kind"] == "ResetState" and "actId" in event:
            search.act, search.sequence = event, int(str(block["sequenceNumber"]))
        elif _is_data(event):
            search.later.append(event)
    return None if search.act is None else _found(search, None)


def watermark_at(blocks: Iterable[JsonObject], sequence: int) -> int | None:
    """Return the dataset's watermark just after a block, epoch ms UTC, None when it had none."""
    for block in blocks:
        event: Any = block["event"]
        if int(str(block["sequenceNumber"])) <= sequence and _is_data(event):
            return _instant(event["newWatermark"])
    return None


def files_since(blocks: Iterable[JsonObject], sequence: int) -> frozenset[str]:
    """Return the URIs of all files that blocks behind ``sequence`` added."""
    found: set[str] = set()
    for block in blocks:
        if int(str(block["sequenceNumber"])) <= sequence:
            break
        found.update(_paths(block["event"], "parts"))
    return frozenset(found)


def changed_since(blocks: Iterable[JsonObject], instant_text: str) -> frozenset[str]:
    """Return the signatures that blocks changed whose system time is after a text of that form."""
    found: set[str] = set()
    for block in blocks:
        if str(block["systemTime"]) <= instant_text:
            break
        found.update(_signatures(block["event"]))
    return frozenset(found)


def _found(search: _Search, before: int | None) -> LastAct:
    act: Mapping[str, Any] = search.act or {}
    own = search.later[len(search.later) - int(act["dataBlocks"]) :]
    since = search.later[: len(search.later) - len(own)]
    signatures = frozenset(each for event in own for each in _signatures(event))
    overwritten = frozenset(each for event in since for each in _signatures(event)) & signatures
    first: Mapping[str, Any] = own[-1]
    return LastAct(
        verb=str(act["act"]),
        act_id=str(act["actId"]),
        reason=str(act["reason"]),
        sequence=search.sequence,
        signatures=signatures,
        overwritten=overwritten,
        watermark_before=before,
        watermark_after=_instant(first["newWatermark"]),
        added=frozenset(_paths(first, "parts")),
        removed=frozenset(_paths(first, "removes")),
    )


def _is_data(event: Mapping[str, Any]) -> bool:
    return bool(event["kind"] == "AddData")


def _instant(text: str | None) -> int | None:
    return None if text is None else instant_of(text)


def _signatures(event: Any) -> Sequence[str]:  # noqa: ANN401 - the JSON edge
    state = event.get("newSourceState")
    delta = state["value"].get("delta", ()) if state else ()
    return [str(row["sig"]) for row in delta]


def _paths(event: Any, member: str) -> Sequence[str]:  # noqa: ANN401 - the JSON edge
    new_data = event.get("newData")
    return [str(part["path"]) for part in (new_data or {}).get(member) or ()]
