"""``dil timelabels``: lists the labels of a job, and lets operators change them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dil.cli.arguments import utf_8_text
from dil.cli.groups import LazyGroup
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.state.amending import Request, act_command, conclude, operator_session
from dil.cli.state.opening import instant, opened
from dil.cli.stdout import emit, emit_json, emit_lines, results_only
from dil.errors import ConfigError
from dil.operator.amendments import closed_among, list_known_labels, propose_close, propose_reopen
from dil.operator.timelabels import open_labels
from dil.publishing.closed_labels import keeps_registry
from dil.run.process import real_clock
from dil.state import open_store
from dil.text.zones import find_zone, moment

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.publishing.timeseries.registry import LabelEntry

_HELP = ("-h", "--help")
_WITHOUT = "nothing was changed; --yes does it"


class _ListingGroup(LazyGroup):
    """A group that lists labels unless the first argument is a verb or a misspelt verb."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the verb ``list`` if the arguments leave it out."""
        is_verb = not args or args[0] in (*self.commands, *_HELP) or self._is_misspelt(args)
        return super().parse_args(ctx, args if is_verb else ["list", *args])

    def _is_misspelt(self, args: list[str]) -> bool:
        """Return whether the word in place of the job file is similar to a verb."""
        word, more = Path(args[0]), args[1:]
        is_no_file = not word.suffix or bool(more and not more[0].startswith("-"))
        near = difflib.get_close_matches(args[0], self.commands, n=1)
        return bool(near) and is_no_file and not word.exists()


@click.group(cls=_ListingGroup)
def timelabels() -> None:
    """List the timelabels of a job that closes them, or of a warehouse table.

    dil timelabels JOB.conf [--json] lists them. Verbs that change something show a preview, and act
    with --yes; rotate is meant for schedulers and acts at once.
    """


@timelabels.command("list")
@job_command()
def list_labels(call: JobCall) -> int:
    """List the labels with window, state, rows, table, and the time of their load."""
    with results_only():
        job = call.job(secrets=False)
        warehouse = job.publishing.warehouse
        has_labels = warehouse is not None and warehouse.labels is not None
        # If the job never closes labels, the registry of its database lists the labels of an events
        # table, too.
        if keeps_registry(job) or (has_labels and not _closes_labels(job)):
            table = open_labels(job)
            name, entries = table.spec.table, table.entries()
            places = {"table": name, "view": f"{name}_view"}
        else:
            with open_store(job.state, job.name, clock=real_clock) as store:
                listing = list_known_labels(job, store)
            places, entries = {"dataset": listing.place}, listing.entries
    if call.as_json:
        emit_json({"job": job.name, **places, "labels": [_json(entry) for entry in entries]})
        return 0
    emit(f"{job.name}  {', '.join(f'{word} {name}' for word, name in places.items())}; ")
    emit("windows are UTC\n")
    if not entries:
        emit("no timelabel is known yet\n")
    emit_lines(_rows(entries))
    return 0


@timelabels.command(short_help="Drop labels with their rows.")
@job_command()
@click.argument("labels", metavar="[TIMELABEL]...", nargs=-1)
@click.option("--before", metavar="TIME", help="Drop labels whose window ends at or before this.")
@click.option("--reason", callback=utf_8_text, default="", help="Why, kept in the chain.")
@click.option("--yes", is_flag=True, help="Do it. Without it only the preview is shown.")
def drop(
    call: JobCall, *, labels: tuple[str, ...], before: str | None, reason: str, yes: bool
) -> int:
    """Drop labels with their rows; the chain keeps the record of their publishes.

    A run that reads rows of a dropped label again fails until the label is reopened.
    """
    with opened(call) as (job, store):
        table = open_labels(job)
        table.require_droppable()
        until = None if before is None else instant(before, "--before", job)
        if bool(labels) == (until is not None):
            what, fix = "needs to know which labels", "Name labels, or give --before."
            raise ConfigError.single("dil timelabels drop", what, fix)
        if until is None:
            found = table.named(labels)
        else:
            found = [each for each in table.entries() if each.end_ms <= until]
        chosen = [each for each in found if each.is_live]
        is_done = bool(yes and chosen)
        if is_done:
            chosen = table.drop(store, chosen, reason, real_clock)
    _show_outcome(call, job, "dropped", chosen, is_done=is_done)
    return 0


_labels_argument = click.argument("labels", metavar="TIMELABEL...", nargs=-1, required=True)


@act_command("close", "Close labels: their rows are final.")
@_labels_argument
@click.option("--force", is_flag=True, help="Close labels even if rows are missing.")
def close(request: Request, *, labels: tuple[str, ...], force: bool) -> int:
    """Close labels: their rows are final from then on.

    An incomplete label is refused, and the message names the missing part.
    """
    with operator_session(request, "close") as session:
        return conclude(request, session, propose_close(session, labels, force=force))


@act_command("reopen", "Let closed or dropped labels be loaded again.")
@_labels_argument
def reopen(request: Request, *, labels: tuple[str, ...]) -> int:
    """Let closed or dropped labels be loaded again; their rows stay until then.

    This makes no work unit due: use `dil state forget` for that.
    """
    with opened(request.call) as (job, store):
        # The labels were closed in the job's chain, or else in the registry of its database.
        is_in_chain = _closes_labels(job) and (
            not keeps_registry(job) or bool(closed_among(job, store, labels))
        )
    if is_in_chain:
        with operator_session(request, "reopen") as session:
            return conclude(request, session, propose_reopen(session, labels))
    with opened(request.call) as (job, store):
        table = open_labels(job)
        chosen = table.named(labels)
        if request.is_agreed:
            chosen = table.reopen(store, chosen, real_clock)
    _show_outcome(request.call, job, "reopened", chosen, is_done=request.is_agreed)
    return 0


timelabels.add_command(close)
timelabels.add_command(reopen)


@timelabels.command(short_help="Turn an events table into the table of a label.")
@job_command(quiet=False)
@now_option
@click.option(
    "--label",
    metavar="TIMELABEL",
    help="The label; unset: the label of the period that ended last.",
)
@click.option("--empty", is_flag=True, help="Rotate a table without rows, too.")
def rotate(call: JobCall, *, now: str | None, label: str | None, empty: bool) -> int:
    """Turn an events table into the table of a label, and begin a new events table.

    The label is that of the period that ended last. If the label exists already, the rows that came
    since are added to it.
    """
    with results_only():
        now_ms = call.invocation.now(now)
        job = call.job(secrets=False)
        table = open_labels(job)
        text, entry = table.rotate(label, now_ms=now_ms, clock=real_clock, takes_empty=empty)
    if call.as_json:
        emit_json({"job": job.name, "timelabel": text, "rotated": entry and _json(entry)})
    elif entry is None:
        emit(f"{job.name}  {table.spec.table} has no rows: nothing to rotate\n")
    else:
        emit(f"{job.name}  {table.spec.table} rotated\n")
        emit_lines(_rows([entry]))
    return 0


def _closes_labels(job: Job) -> bool:
    return job.planning.timelabel is not None and job.planning.timelabel.closes


def _show_outcome(
    call: JobCall, job: Job, word: str, chosen: Sequence[LabelEntry], *, is_done: bool
) -> None:
    if call.as_json:
        emit_json({"job": job.name, word: is_done, "labels": [_json(each) for each in chosen]})
        return
    is_preview = bool(chosen) and not is_done
    head = f"would be {word}; {_WITHOUT}" if is_preview else word if chosen else f"nothing {word}"
    emit(f"{job.name}  {head}\n")
    emit_lines(_rows(chosen))


def _json(entry: LabelEntry) -> dict[str, object]:
    return {
        "timelabel": entry.label,
        "start": entry.start_ms,
        "end": entry.end_ms,
        "state": str(entry.state),
        "rows": entry.rows,
        "object": entry.object or None,
        "attempt": entry.attempt,
        "sequence": entry.seq,
        "loaded_at": entry.loaded_at,
        "closed_at": entry.closed_at,
    }


def _rows(entries: Sequence[LabelEntry]) -> Iterator[str]:
    """Yield labels as a table; no line if there are none."""
    if not entries:
        return
    utc = find_zone("UTC")

    def time(ms: int | None) -> str:
        return "-" if ms is None else moment(ms, utc)

    table = [("timelabel", "from", "to", "state", "rows", "table", "loaded", "closed")]
    for each in entries:
        is_again = each.state == "REOPENED" and not each.waits
        state = f"{each.state}, loaded again" if is_again else str(each.state)
        times = time(each.start_ms), time(each.end_ms), time(each.loaded_at), time(each.closed_at)
        table.append(
            (each.label, *times[:2], state, f"{each.rows:,}", each.object or "-", *times[2:])
        )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rows = table[0].index("rows")
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[rows] = row[rows].rjust(widths[rows])
        yield f"  {'  '.join(cells)}".rstrip()
