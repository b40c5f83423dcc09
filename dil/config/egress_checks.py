"""Checks of rows to send and of the audit; the sections of a job that hold them.

Source: behaviour.md B16.
"""

from __future__ import annotations

from pathlib import Path

from dil.config.findings import Findings
from dil.config.publishing_section import path_of
from dil.config.secondary_checks import KEY as SECONDARY
from dil.config.secondary_checks import has_payload
from dil.model.egress import AuditSpec, EgressSpec
from dil.model.properties import Properties

_FAILED = "ms.egress.failed.rows"
_MOST = "ms.egress.failed.max.rows"
_ROWS = "ms.egress.batch.rows"
_FIELD = "ms.egress.batch.field"
_RESUME = "ms.egress.resume"
_AUDIT = "ms.audit.enabled"
_TOPIC = "ms.kafka.audit.topic.name"
_COMMIT = "ms.state.cursor.commit"
_METHOD = "ms.http.request.method"
_KEY = "ms.http.idempotency.header"
_UNSAFE = "ms.http.retry.unsafe"
_ONCE = frozenset({"POST", "PATCH"})


def resumes(values: Properties) -> bool:
    """Tell whether progress is kept after every row that is sent."""
    return values.boolean(_RESUME) and has_payload(values)


def progress_key(values: Properties) -> str:
    """Return the property that keeps progress inside work units, empty text where none does."""
    if resumes(values):
        return _RESUME
    return _COMMIT if values.text(_COMMIT) == "page" else ""


def egress_section(values: Properties) -> EgressSpec:
    """Return how rows are sent."""
    most = values.integer(_MOST)
    return EgressSpec(
        keeps_refused=values.text(_FAILED) == "keep",
        max_refused=None if most < 0 else most,
        sends_again=values.boolean("ms.egress.send.again"),
        batch_rows=values.integer(_ROWS),
        batch_field=values.text(_FIELD),
    )


def audit_section(values: Properties, folder: Path, findings: Findings) -> AuditSpec:
    """Return where requests are recorded; a relative path starts at the job file's folder."""
    return AuditSpec(
        enabled=values.boolean(_AUDIT),
        directory=path_of(values, "ms.audit.dir", folder, findings),
        is_required=values.boolean("ms.audit.required"),
    )


def check_egress(values: Properties, findings: Findings) -> None:
    """Check that what is said about rows to send and about the audit has its effect."""
    if not findings.is_sound(SECONDARY, _COMMIT):
        return
    _check_rows(values, findings)
    if has_payload(values):
        _check_sending(values, findings)
    if values.boolean(_AUDIT) and values.text(_TOPIC):
        findings.notice(
            _TOPIC,
            "is named, and the audit goes to files in place of Kafka",
            "Read them from ms.audit.dir, which is _audit in the dataset's folder unless set.",
        )


def _check_rows(values: Properties, findings: Findings) -> None:
    """Say what has no effect, because there are no rows to send."""
    told = {
        _FAILED: values.text(_FAILED) == "keep",
        _RESUME: values.boolean(_RESUME),
        _ROWS: values.integer(_ROWS) > 1,
        _FIELD: bool(values.text(_FIELD)),
    }
    for key, is_asked in told.items():
        if is_asked and not has_payload(values):
            findings.notice(
                key,
                f"has no effect: {SECONDARY} has no rows to send",
                "Add an entry of category payload, or remove it.",
            )


def _check_sending(values: Properties, findings: Findings) -> None:
    if values.integer(_ROWS) > 1 and not values.text(_FIELD):
        findings.problem(
            _ROWS,
            f"is {values.integer(_ROWS)}, and nothing says where the rows go in the body",
            f"Name the member that holds them: {_FIELD}=records.",
        )
    origin = findings.origins.get(_METHOD)
    is_known = bool(values.text(_KEY)) or values.boolean(_UNSAFE)
    if origin is not None and values.text(_METHOD).upper() in _ONCE and not is_known:
        findings.information(
            f"rows are sent by {values.text(_METHOD)} without {_KEY}: once one was taken, a work"
            " unit that fails is not sent again before somebody has looked"
            " (ms.egress.send.again)",
            origin,
        )
