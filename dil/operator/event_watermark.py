"""Sets the event watermark of a job by hand, and takes that back while no run has used it."""

from __future__ import annotations

from dataclasses import dataclass

from dil.errors import ConfigError, StateError
from dil.eventtime.kept import open_kept
from dil.model.event_tally import EVENT_TIME
from dil.model.event_time import EventTimeSpec, Strategy
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.operator.session import OperatorSession
from dil.text.zones import iso

_KEPT = ("state", "watermark", "effective")
SET = "set"


@dataclass(frozen=True, slots=True)
class WatermarkChange:
    """A change of the watermark that an operator asks for.

    ``before`` and ``after`` are epoch ms UTC, None for no watermark. ``members`` are the members of
    the checkpoint after the change.
    """

    before: int | None
    after: int | None
    members: JsonObject


def event_spec(job: Job) -> EventTimeSpec:
    """Return a job's settings of event time.

    Raises:
        ConfigError: the job has no event watermark.
    """
    if job.events is None:
        what = f"is not set, so {job.name} has no event watermark"
        raise ConfigError.single("ms.event.column", what, "Set it, and set ms.event.watermark.")
    if job.events.strategy is Strategy.NONE:
        what = f"is none, so {job.name} has no event watermark"
        raise ConfigError.single("ms.event.watermark", what, "Set it to manual, for example.")
    return job.events


def propose_watermark(session: OperatorSession, to: int, reason: str) -> WatermarkChange:
    """Return the change that sets the watermark; ``to`` is epoch ms UTC.

    Raises:
        ConfigError: the job has no event watermark, the watermark is not before ``to``, or ``to``
            is too far ahead.
    """
    spec, store = event_spec(session.job), session.store
    found = store.checkpoint(EVENT_TIME)
    before = open_kept(spec, found)
    now = before.watermark.watermark
    if now is not None and to <= now:
        raise ConfigError.single(
            "--set",
            f"{iso(to)} is not after the watermark {iso(now) or now}, which never goes back",
            "Name a later time. ms.late.action=flag publishes late rows, and marks them.",
        )
    if to > session.now_ms + spec.max_future_ms:
        raise ConfigError.single(
            "--set",
            f"{iso(to)} is further ahead of now than ms.event.max.future, and every row would be"
            " late",
            "Name an earlier time.",
        )
    after = open_kept(spec, found, floor=to)
    members = {name: value for name, value in after.members().items() if name in _KEPT}
    undo: JsonObject = {
        "before": {name: found.get(name) for name in _KEPT},
        "head": _head(session),
        "at": session.clock(),
        "to": to,
        "reason": reason,
    }
    return WatermarkChange(now, to, {"strategy": spec.strategy.value, **members, SET: undo})


def propose_undo(session: OperatorSession) -> WatermarkChange:
    """Return the change that takes back an operator's last change.

    Raises:
        StateError: there is no such change, or a run has since published rows that were judged by
            the changed watermark.
    """
    spec, found = event_spec(session.job), session.store.checkpoint(EVENT_TIME)
    undo = found.get(SET)
    if not isinstance(undo, dict):
        raise StateError(
            f"no operator has set the event watermark of {session.job.name}",
            "There is nothing to take back.",
        )
    if undo.get("head") != _head(session):
        raise StateError(
            "a run has published since the event watermark was set, and its rows were judged by it",
            "The watermark never goes back. ms.late.action=flag publishes late rows, and marks"
            " them.",
        )
    members: JsonObject = {**undo["before"], SET: None}
    before = open_kept(spec, found).watermark.watermark
    return WatermarkChange(before, open_kept(spec, members).watermark.watermark, members)


def apply_watermark(session: OperatorSession, change: WatermarkChange) -> None:
    """Save a change that this session proposed.

    Raises:
        LeaseLostError: the lease was taken over.
    """
    session.store.change_checkpoint(session.require_lease(), EVENT_TIME, change.members)


def _head(session: OperatorSession) -> str | None:
    head = session.store.head()
    return None if head is None else str(head["hash"])
