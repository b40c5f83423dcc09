"""The documents that the state store keeps for each run, so that they can be read later.

Three documents: ``outcome`` is small, for lists of runs; ``report`` is the JSON report;
``work_units`` has one row for each work unit. All are bounded in size and go with the run's row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import cast

from dil.errors import DilError
from dil.model.json import JsonObject, JsonValue
from dil.model.messages import shortened
from dil.model.report import ReportedFailure, RunReport, RunStatus, UnitRun
from dil.model.stream import MicroBatch
from dil.observe.redaction import redactor, secrets_of
from dil.observe.report import redacted, report_json
from dil.run.active_run import ActiveRun
from dil.spi.state_store import StateStore
from dil.state.databases.outage import without_waiting

OUTCOME, REPORT, WORK_UNITS = "outcome", "report", "work_units"

_MOST_FAILURES = 1_000
_MOST_CAUSES = 100
_MOST_CHARACTERS = 2_000
_MOST_NOTES = 100
_COLUMNS = ("signature", "outcome", "attempts", "seconds", "rows", "requests", "code")
_OTHER_CAUSE = "the cause was not kept, because the run had too many different causes"

log = logging.getLogger(__name__)


def keep_report(run: ActiveRun, report: RunReport) -> None:
    """Keep a run's report without its files, which the chain names; secrets are masked.

    A run that found nothing due has no row, and keeps no documents. The run itself is complete, so
    an error of the store is only logged as a warning.
    """
    if report.status is RunStatus.NOTHING_DUE:
        return
    holder = run.lease.holder.run_id
    documents = run_documents(report, redactor(secrets_of(run.job)), holder)
    try:
        with without_waiting():
            run.store.keep_run_details(run.lease, run.run_id, documents)
    except DilError as error:
        log.warning("the report was not kept in the state store: %s", error.message)


def run_documents(
    report: RunReport, redact: Callable[[str], str], holder: str = ""
) -> dict[str, JsonObject]:
    """Return the documents of a run by kind; ``holder`` is the run id of the lease."""

    def clean(text: str) -> str:
        # Databases refuse lone surrogates.
        return shortened(redact(text).encode("utf-8", "replace").decode(), _MOST_CHARACTERS)

    failures = report.failures[:_MOST_FAILURES]
    causes = [(one.code, one.error, one.fix) for one in failures]
    kept = list(islice(dict.fromkeys(causes), _MOST_CAUSES))
    numbers = {cause: number for number, cause in enumerate(kept)}
    members = report_json(redacted(replace(report, failures=(), notes=()), redact))
    members["notes"] = [clean(note) for note in report.notes[:_MOST_NOTES]]
    members["causes"] = [[code, clean(error), clean(fix)] for code, error, fix in kept]
    members["failed"] = [
        [one.signature, one.code, numbers.get(cause), one.attempts, one.seconds]
        for one, cause in zip(failures, causes, strict=True)
    ]
    members["failures_left_out"] = len(report.failures) - len(failures)
    del members["files"], members["failures"]
    units = report.units
    done = units.succeeded + units.failed + units.adopted
    outcome = {
        "seconds": round(report.seconds, 3),
        "failures": len(report.failures),
        "codes": sorted({one.code for one in report.failures}),
        **({"rows_beside": report.rows_beside} if report.rows_beside else {}),
        **({"stream": {**report.batch.members(), "run_id": holder}} if report.batch else {}),
    }
    table = {
        "columns": _COLUMNS,
        "rows": [[getattr(each, name) for name in _COLUMNS] for each in report.unit_runs],
        "left_out": max(done - len(report.unit_runs), 0),
    }
    documents = {OUTCOME: outcome, REPORT: members, WORK_UNITS: table}
    return cast("dict[str, JsonObject]", documents)


@dataclass(frozen=True, slots=True)
class KeptOutcome:
    """Facts for lists of runs: seconds and number of failures, None if they were not kept.

    ``rows_beside`` counts the rows that went to the table of late rows beside the dataset. If the
    run was a micro-batch of a stream, ``batch`` describes it, and ``stream`` is the run id of the
    stream; else ``batch`` is None, and ``stream`` is empty.
    """

    seconds: float | None = None
    failures: int | None = None
    codes: tuple[str, ...] = ()
    rows_beside: int = 0
    batch: MicroBatch | None = None
    stream: str = ""

    @classmethod
    def from_document(cls, document: JsonObject) -> KeptOutcome:
        """Return the content of an ``outcome`` document."""
        seconds, failures = document.get("seconds"), document.get("failures")
        stream = cast("JsonObject", document.get("stream") or {})
        return cls(
            None if seconds is None else _number(seconds),
            failures if isinstance(failures, int) else None,
            tuple(str(code) for code in _items(document.get("codes"))),
            _count(document.get("rows_beside")),
            MicroBatch.of(stream),
            str(stream.get("run_id") or ""),
        )


@dataclass(frozen=True, slots=True)
class KeptReport:
    """The kept report of a run; ``failures`` has all failures that were kept.

    ``members`` are the members of the JSON report as ``--json`` prints them, failures included.
    """

    seconds: float
    requests: int
    retries: int
    failures: tuple[ReportedFailure, ...]
    notes: tuple[str, ...]
    members: JsonObject

    @classmethod
    def from_document(cls, document: JsonObject) -> KeptReport:
        """Return the content of a ``report`` document; an earlier release may have written it."""
        members = _with_failures(document)
        return cls(
            _number(members.get("seconds")),
            _count(members.get("requests")),
            _count(members.get("retries")),
            tuple(
                ReportedFailure(
                    None if each.get("signature") is None else str(each["signature"]),
                    str(each["code"]),
                    str(each["error"]),
                    str(each.get("fix") or ""),
                    _count(each.get("attempts")),
                    _number(each.get("seconds")),
                )
                for each in _items(members.get("failures"))
                if isinstance(each, Mapping)
            ),
            tuple(str(note) for note in _items(members.get("notes"))),
            members,
        )


@dataclass(frozen=True, slots=True)
class KeptUnitRuns:
    """The ends of a run's work units, failed ones first; ``left_out`` counts units not kept."""

    units: tuple[UnitRun, ...] = ()
    left_out: int = 0

    @classmethod
    def from_document(cls, document: JsonObject) -> KeptUnitRuns:
        """Return the content of a ``work_units`` document."""
        columns = [str(name) for name in _items(document.get("columns"))]
        rows = (
            dict(zip(columns, _items(row), strict=True)) for row in _items(document.get("rows"))
        )
        units = (
            UnitRun(
                str(row["signature"]),
                str(row["outcome"]),
                _count(row.get("attempts")),
                _number(row.get("seconds")),
                _count(row.get("rows")),
                _count(row.get("requests")),
                str(row.get("code") or ""),
            )
            for row in rows
        )
        return cls(tuple(units), _count(document.get("left_out")))

    def members(self) -> list[dict[str, object]]:
        """Return the work units as JSON."""
        return [asdict(each) for each in self.units]


def kept_report(store: StateStore, run_id: str) -> KeptReport | None:
    """Return the report of a run; None if none was kept."""
    document = store.run_detail(run_id, REPORT)
    return None if document is None else KeptReport.from_document(document)


def kept_unit_runs(store: StateStore, run_id: str) -> KeptUnitRuns:
    """Return how the work units of a run ended; empty if no such document was kept."""
    return KeptUnitRuns.from_document(store.run_detail(run_id, WORK_UNITS) or {})


def kept_outcomes(store: StateStore) -> dict[str, KeptOutcome]:
    """Return the kept outcomes of runs, by run id."""
    return {
        run_id: KeptOutcome.from_document(document)
        for run_id, document in store.run_details(OUTCOME)
    }


def _with_failures(document: JsonObject) -> JsonObject:
    """Return a kept report with ``failures`` as a run prints them."""
    if "failed" not in document:
        return document  # no failures, or a report of a release that kept failures in full
    causes = [cast("Sequence[str]", each) for each in _items(document["causes"])]
    failures = []
    for row in _items(document["failed"]):
        signature, code, number, attempts, seconds = cast("Sequence[JsonValue]", row)
        error, fix = causes[number][1:] if isinstance(number, int) else (_OTHER_CAUSE, "")
        spent = {"attempts": attempts, "seconds": seconds} if attempts else {}
        failures.append({"signature": signature, "code": code, "error": error, "fix": fix, **spent})
    others = {name: value for name, value in document.items() if name not in {"failed", "causes"}}
    return {**others, "failures": failures}


def _items(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else []


def _count(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float | Decimal) else 0.0
