"""The report of a run: JSON for machines (rule U23), a summary for people."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from dil.errors import QueryError
from dil.model.report import ReportedFailure, RunReport, RunStatus
from dil.observe import event_view
from dil.observe.drift import drift_json, drift_lines
from dil.observe.progress import counted, human_bytes, human_seconds
from dil.storage.replacing import made_beside, replace_file

# Notes that no reader may overlook begin with capitals: NO ROWS, MIXED, ROWS MAY BE MISSING.
_LOUD = re.compile(r"[A-Z]{3,}(?: [A-Z]{2,})*(?::| [0-9])")
_SHOWN_FAILURES = 10
_SHOWN_SIGNATURES = 3
_WORDS = {
    RunStatus.SUCCESS: "SUCCESS",
    RunStatus.FAILED: "FAILED",
    RunStatus.PARTIAL: "PARTIAL",
    RunStatus.NOTHING_DUE: "NOTHING DUE",
}
# What to do next, by error code; the first that applies is shown. Other failures have their own
# advice. Failures in _OWN_ADVICE usually have their own, too: a store that does not answer needs
# other advice than a damaged store.
_NEXT = {
    "DIL-SRC-UNKNOWN": "Check the receiver first, as described above; only then run the job again.",
    "DIL-CONFIG": "Correct the job file; `dil validate JOB.conf` checks it without running.",
    "DIL-PLUGIN-CLASS": "Correct the class name, or install the package that has the class.",
    "DIL-PLAN": "Look at `dil plan JOB.conf --all` and at the properties named above.",
    "DIL-LEASE": "Wait for the other run, or give --wait-lease SECONDS.",
    "DIL-LEASE-LOST": "Another run took over: read its report before you run the job again.",
    "DIL-SRC-AUTH": "Check the credentials of the source, then run the job again.",
    "DIL-QUOTA": "Run the job again when the source's quota is renewed; finished work units are "
    "kept.",
    "DIL-COMMIT-CONFLICT": "Nothing was published. Run the job again: it makes a new plan.",
    "DIL-COMMIT-UNKNOWN": (
        "Nothing was deleted. Run the job again: it first checks what was published, and finishes"
        " it."
    ),
    "DIL-STATE": "Repair the state store first; `dil state verify JOB.conf` says what is wrong.",
    "DIL-INTERNAL": "This is a defect of dil: run with -v and report the traceback.",
}
_OWN_ADVICE = frozenset({"DIL-STATE"})


def redacted(report: RunReport, redact: Callable[[str], str]) -> RunReport:
    """Return the report with its free texts masked; names, files and signatures stay exact."""
    return replace(
        report,
        failures=tuple(
            replace(one, error=redact(one.error), fix=redact(one.fix)) for one in report.failures
        ),
        notes=tuple(redact(note) for note in report.notes),
    )


def report_json(report: RunReport) -> dict[str, object]:
    """Return the report as JSON members; bytes and rows are counts, seconds is wall time.

    A failure of a work unit also has the number and duration of its attempts.
    """
    units = report.units
    return {
        "job": report.job,
        "run_id": report.run_id,
        "status": report.status.value,
        "exit_code": report.exit_code,
        "interrupted": report.is_interrupted,
        "work_units": {
            "planned": units.planned,
            "succeeded": units.succeeded,
            "failed": units.failed,
            "adopted": units.adopted,
            "not_started": units.not_started,
        },
        "rows": report.rows,
        "bytes": report.bytes,
        "files": list(report.files),
        "failures": [
            {
                "signature": one.signature,
                "code": one.code,
                "error": one.error,
                "fix": one.fix,
                **({"attempts": one.attempts, "seconds": one.seconds} if one.attempts else {}),
            }
            for one in report.failures
        ],
        "seconds": round(report.seconds, 3),
        "dataset_dir": report.dataset_dir,
        **({"relation": report.relation} if report.relation else {}),
        **({"database": report.database} if report.database else {}),
        **({"merged": asdict(report.merged)} if report.merged else {}),
        **({"replaced": asdict(report.replaced)} if report.replaced else {}),
        **({"events": event_view.events_json(report.events)} if report.events else {}),
        **({"stream": dict(report.batch.members())} if report.batch else {}),
        "left": report.left,
        "recovered": list(report.recovered),
        "notes": list(report.notes),
        "requests": report.requests,
        "rows_read": report.rows_read,
        "rows_dropped": report.rows_dropped,
        **({"rows_beside": report.rows_beside} if report.rows_beside else {}),
        "retries": report.retries,
        "peak_rss_bytes": report.peak_rss_bytes,
        **drift_json(report),
    }


def write_report(path: Path, report: RunReport) -> None:
    """Write the report as JSON; readers of ``path`` see the old file or the complete new file.

    Raises:
        OSError: the folder is missing or not writable.
    """
    text = json.dumps(report_json(report), ensure_ascii=False, indent=2) + "\n"
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    replace_file(path, text.encode(), mode=mode)


def check_report_place(path: Path) -> None:
    """Check that ``write_report`` can write to ``path``, without leaving a file there.

    Raises:
        OSError: the report cannot be written there.
    """
    target = path.resolve()
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    handle, name = made_beside(target)
    os.close(handle)
    Path(name).unlink()


def report_text(report: RunReport) -> str:
    """Return the summary: what happened, rows, files, failures, and what to do next."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: RunReport) -> Iterator[str]:
    run = f"  run {report.run_id}" if report.run_id else ""
    status = "INTERRUPTED" if report.is_interrupted else _WORDS[report.status]
    yield f"{report.job}  {status} in {human_seconds(report.seconds)}{run}"
    if report.recovered:
        yield _row("recovered", f"finished first: {', '.join(report.recovered)}")
    if report.status is RunStatus.NOTHING_DUE:
        yield _row("work units", "none; nothing was read, nothing has changed")
    else:
        yield from _result(report)
    yield from _failures(report.failures)
    for note in report.notes:
        yield _row(note_label(note), _indented(note))
    step = _next_step(report)
    if step:
        yield _row("next", step)


def note_label(note: str) -> str:
    """Return the label of a note: ``warning`` for notes that no reader may overlook."""
    return "warning" if _LOUD.match(note) else "note"


def _result(report: RunReport) -> Iterator[str]:
    units = report.units
    # A query that fails leaves its work unit without a report of its own.
    has_failed_query = any(one.code == QueryError.code for one in report.failures)
    counts = [f"{units.planned} planned", f"{units.succeeded} succeeded"]
    counts += ["the query failed"] if has_failed_query else [f"{units.failed} failed"]
    counts += [f"{units.adopted} adopted from an earlier run"] if units.adopted else []
    is_unfinished = units.not_started and not has_failed_query
    counts += [f"{units.not_started} not finished"] if is_unfinished else []
    yield _row("work units", ", ".join(counts))
    if report.requests or report.rows_read:
        read = [counted(report.rows_read, "row")]
        # A query sends no requests.
        read += [counted(report.requests, "request")] if report.requests else []
        dropped = report.rows_dropped - report.aside.rows  # another line says where these rows are
        read += [f"{dropped:,} dropped"] if dropped > 0 else []
        read += [f"{report.retries:,} tried again"] if report.retries else []
        yield _row("read", ", ".join(read))
    yield _row("kept aside" if report.is_backfill else "published", _published(report))
    merged, replaced = report.merged, report.replaced
    if merged is not None:
        changes = [f"{merged.inserted:,} inserted", f"{merged.updated:,} updated"]
        changes += [f"{merged.deleted:,} deleted"] if merged.deleted else []
        yield _row("merged", ", ".join(changes))
    if replaced is not None and replaced.before:
        more = replaced.after - replaced.before
        net = f"{abs(more):,} {'more' if more > 0 else 'fewer'}" if more else "as many"
        yield _row("replaced", f"{counted(replaced.before, 'row')} by {replaced.after:,}, {net}")
    if report.relation and report.rows:
        yield _row("where", " in ".join(filter(None, (report.relation, report.database))))
    elif report.files and report.dataset_dir:
        yield _row("where", report.dataset_dir)
    for label, text in event_view.lines(report.events) if report.events else ():
        yield _row(label, text)
    for label, text in drift_lines(report):
        yield _row(label, _indented(text))
    if report.left:
        verb = "is" if report.left == 1 else "are"
        yield _row(
            "left",
            f"{counted(report.left, 'more work unit')} {verb} due, beyond the limit of one run",
        )


def _published(report: RunReport) -> str:
    if report.rows:
        # A warehouse has no files.
        files = f" in {counted(len(report.files), 'file')}" if report.files else ""
        return f"{counted(report.rows, 'row')}{files}, {human_bytes(report.bytes)}"
    if report.rows_beside:
        return f"nothing in the dataset, {counted(report.rows_beside, 'row')} beside it"
    if report.status is RunStatus.FAILED:
        return "nothing"
    if report.is_validation:
        return "nothing: the job only validates"
    # Shown as a warning: a job that quietly stops delivering is the costliest failure.
    if report.rows_dropped:
        return f"ZERO ROWS: no row passed of {counted(report.rows_read, 'row')} read"
    return "ZERO ROWS: every work unit that succeeded was empty"


def _failures(failures: tuple[ReportedFailure, ...]) -> Iterator[str]:
    """Yield each distinct failure once, with advice and the work units that it affected."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for one in failures:
        struck = groups.setdefault((one.code, one.error, one.fix), [])
        struck += [] if one.signature is None else [one.place]
    for (code, error, fix), struck in list(groups.items())[:_SHOWN_FAILURES]:
        first, newline, rest = error.partition("\n")
        shown = error if f"[{code}]" in error else f"{first}  [{code}]{newline}{rest}"
        yield _row("failed", _indented(shown))
        yield from (f"{'':14}{line.strip()}" for line in fix.splitlines())
        yield from (f"{'':14}  {place}" for place in struck[:_SHOWN_SIGNATURES])
        if len(struck) > _SHOWN_SIGNATURES:
            more = len(struck) - _SHOWN_SIGNATURES
            yield f"{'':14}  and {counted(more, 'more work unit')}"
    if len(groups) > _SHOWN_FAILURES:
        more = len(groups) - _SHOWN_FAILURES
        kinds = "kind of failure" if more == 1 else "kinds of failure"
        yield _row("failed", f"{more:,} more {kinds}; --report FILE keeps all of them")


def _next_step(report: RunReport) -> str:
    """Return what to do next, if the failures' own advice does not say it."""
    # Failures that may send rows twice come first, whatever else failed.
    for one in sorted(report.failures, key=lambda each: each.code != "DIL-SRC-UNKNOWN"):
        if one.code in _NEXT and not (one.fix and one.code in _OWN_ADVICE):
            return _NEXT[one.code]
    if report.status is RunStatus.PARTIAL:
        # Only a partial run records which work units failed.
        return "Run the job again: work units that failed are due first."
    if not report.failures:
        return "Run the job again for the remaining work units." if report.left else ""
    if all(one.fix and one.code != "DIL-SRC-TRANSIENT" for one in report.failures):
        return ""
    # Only complete work units are certainly kept.
    if report.units.succeeded or report.units.adopted:
        return "Run the job again: successful work units are kept."
    is_interrupted = all(one.code == "DIL-INTERRUPTED" for one in report.failures)
    return "Run the job again." if is_interrupted else "Run the job again when the cause is fixed."


def _row(label: str, text: str) -> str:
    return f"  {label:<12}{text}"


def _indented(text: str) -> str:
    first, *rest = text.splitlines() or [""]
    return "\n".join([first, *(f"{'':14}{line.strip()}" for line in rest)])
