"""Closes and reopens timelabels by hand (rule T33), and lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dil.errors import ConfigError, StateError
from dil.model.closed_labels import ClosedLabels, LabelWindow
from dil.model.dataset import UnitEntry
from dil.model.event_tally import EVENT_TIME
from dil.model.job import Job
from dil.model.timelabels import TimelabelSpec
from dil.observe.progress import counted
from dil.operator.amendments.preview import Preview, preview_of
from dil.operator.session import OperatorSession
from dil.operator.timelabels import no_labels, require_label
from dil.publishing.closed_labels import waits_for_events, window_of
from dil.publishing.destination import destination_for
from dil.publishing.layout import dataset_dir
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.run.closed_labels import load_closed_labels
from dil.run.schedules import with_schedules
from dil.spi.state_store import StateStore
from dil.state.amendments.operations import Proposal
from dil.state.blocks.canonical import instant_of
from dil.state.blocks.events import CLOSE_BOOKS
from dil.state.blocks.source_state import OPEN, SKIPPED
from dil.storage import filesystem_for
from dil.text.windows import Windows, label_text, windows_of
from dil.text.zones import find_zone, moment

_NAMED = 3
_MISSING = (*OPEN, SKIPPED)


def propose_close(session: OperatorSession, labels: Sequence[str], *, force: bool) -> Preview:
    """Propose to close complete labels; if ``force`` is true, also labels that lack rows.

    Raises:
        ConfigError: the job never closes labels, or a text is no label of the job.
        StateError: a label is not complete, and ``force`` is false.
    """
    spec, closed = _require_closing(session.job, session.store)
    windows = windows_of(spec)
    chosen = [each for each in _named(labels, windows) if not closed.is_closed(each)]
    missing = [what for each in chosen for what in _missing(session, each)]
    if missing and not force:
        raise StateError(
            f"{counted(len(missing), 'reason')} not to close: {'; '.join(missing)}",
            "Run the job until it has read all rows of the label. --force closes the label with"
            " the rows that it has.",
        )
    notes = tuple(f"closed although {what}" for what in missing)
    return preview_of(session, Proposal("close", notes=notes, closes=tuple(chosen)))


def propose_reopen(session: OperatorSession, labels: Sequence[str]) -> Preview:
    """Propose to reopen closed labels, for the next run that reads them.

    Raises:
        ConfigError: the job never closes labels, or a text is no label of the job.
    """
    spec, closed = _require_closing(session.job, session.store)
    chosen = [each for each in _named(labels, windows_of(spec)) if closed.is_closed(each)]
    notes = (
        "this makes no work unit due: use `dil state forget` to let the next run read work units "
        "again",
        "jobs that read this dataset do not run again because of this",
    )
    return preview_of(session, Proposal("reopen", notes=notes, reopens=tuple(chosen)))


def closed_among(job: Job, store: StateStore, labels: Sequence[str]) -> list[str]:
    """Return the closed labels among ``labels``.

    Raises:
        ConfigError: the job never closes labels, or a text is no label of the job.
    """
    job = with_schedules(job, store)
    spec, closed = _require_closing(job, store)
    return [each.label for each in _named(labels, windows_of(spec)) if closed.is_closed(each)]


@dataclass(frozen=True, slots=True)
class LabelListing:
    """The labels of a job, oldest first; ``place`` is where the job's rows are."""

    place: str
    entries: tuple[LabelEntry, ...]


def list_known_labels(job: Job, store: StateStore) -> LabelListing:
    """Return the labels that a job has published or closed, with their rows.

    Raises:
        ConfigError: the job has no timelabels.
    """
    job = with_schedules(job, store)
    spec = job.planning.timelabel
    if spec is None:
        raise no_labels()
    closed, windows = load_closed_labels(job, store) or ClosedLabels(), windows_of(spec)
    rows: dict[str, int] = {}
    destination = destination_for(job.publishing, filesystem_for(job.publishing.final_dir))
    for file in destination.live():
        if file.timelabel:
            rows[file.timelabel] = rows.get(file.timelabel, 0) + file.rows
    closed_at = _closed_at(store)
    labels = {*rows, *closed.reopened, *_labels_of(closed, windows)}
    entries = (
        _entry(window_of(label, windows), closed, rows, closed_at) for label in sorted(labels)
    )
    place = job.publishing.relation or dataset_dir(job.publishing)
    return LabelListing(place, tuple(entries))


def _entry(
    window: LabelWindow, closed: ClosedLabels, rows: dict[str, int], closed_at: dict[str, int]
) -> LabelEntry:
    state = LabelState.LOADED
    if closed.is_closed(window):
        state = LabelState.CLOSED
    elif window.label in closed.reopened:
        state = LabelState.REOPENED
    return LabelEntry(
        window.label,
        window.low,
        window.high,
        state,
        rows.get(window.label, 0),
        closed_at=closed_at.get(window.label) if state is LabelState.CLOSED else None,
    )


def _labels_of(closed: ClosedLabels, windows: Windows) -> Iterator[str]:
    for stretch in closed.stretches:
        low = stretch.low
        while low < stretch.high:
            yield label_text(low)
            low = windows.at(low).high


def _closed_at(store: StateStore) -> dict[str, int]:
    """Return when each label was last closed, epoch ms UTC."""
    found: dict[str, int] = {}
    for block in store.blocks_of_kind(CLOSE_BOOKS):  # newest first
        event = block["event"]
        label = str(event["timelabel"]) if isinstance(event, dict) else ""
        found.setdefault(label, instant_of(str(block["systemTime"])))
    return found


def _require_closing(job: Job, store: StateStore) -> tuple[TimelabelSpec, ClosedLabels]:
    closed, spec = load_closed_labels(job, store), job.planning.timelabel
    if closed is None or spec is None:
        raise ConfigError.single(
            "ms.timelabel.close",
            "is never: the job closes no timelabels",
            "Set ms.timelabel.close=manual, or auto, and ms.late.after.close.",
            job.properties.origin("ms.timelabel.close"),
        )
    return spec, closed


def _named(labels: Sequence[str], windows: Windows) -> list[LabelWindow]:
    found = []
    for label in dict.fromkeys(labels):
        require_label(label)
        window = window_of(label, windows)
        whole = windows.at(window.low)
        if whole.low != window.low:
            raise ConfigError.single(
                "TIMELABEL",
                f'"{label}" begins inside the period {label_text(whole.low)}',
                "`dil timelabels JOB.conf` lists the labels.",
            )
        found.append(window)
    return found


def _missing(session: OperatorSession, window: LabelWindow) -> Iterator[str]:
    """Yield a text for each reason why a label is not complete."""
    utc, label = find_zone("UTC"), window.label
    if window.high > session.now_ms:
        yield f"the period of {label} ends at {moment(window.high, utc)} UTC"
    open_units: list[UnitEntry] = []
    reached = None
    for entry in session.store.unit_entries():
        is_inside = entry.low < window.high and entry.expected_high > window.low
        if entry.status in _MISSING:
            open_units += [entry] if is_inside else []
        elif entry.high is not None:
            reached = entry.high if reached is None else max(reached, entry.high)
    if open_units:
        names = ", ".join(each.signature for each in open_units[:_NAMED])
        more = f" and {len(open_units) - _NAMED} more" if len(open_units) > _NAMED else ""
        is_are = "is" if len(open_units) == 1 else "are"
        yield (
            f"{counted(len(open_units), 'work unit')} of {label} {is_are} not committed: "
            f"{names}{more}"
        )
    if reached is None or reached < window.high:
        upto = "nothing" if reached is None else f"nothing after {moment(reached, utc)} UTC"
        yield f"{upto} was read, and {label} ends at {moment(window.high, utc)} UTC"
    if waits_for_events(session.job):
        mark = session.store.checkpoint(EVENT_TIME).get("watermark")
        if not isinstance(mark, int) or mark < window.high:
            at = f"at {moment(mark, utc)} UTC" if isinstance(mark, int) else "not set"
            yield f"the event-time watermark is {at}, and {label} ends later"
