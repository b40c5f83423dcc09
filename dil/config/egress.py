"""Rows to send, and the audit of requests: properties, checks, the parts of a job.

See docs/egress.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le

from dil.config.findings import Findings
from dil.config.read_context import path_of
from dil.model.destination import AuditSpec, EgressSpec
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Bool, Int, Long, PathText, Section, Text, no_effect, prop
from dil.sections.http import IDEMPOTENCY_HEADER, METHOD, SendingSection
from dil.sections.secondary import SECONDARY, SecondarySection

_FAILED = "ms.egress.failed.rows"
_ROWS = "ms.egress.batch.rows"
_FIELD = "ms.egress.batch.field"
_TOPIC = "ms.kafka.audit.topic.name"
_AUDIT_DIR = "ms.audit.dir"
COMMIT, RESUME = "ms.state.cursor.commit", "ms.egress.resume"
_ONCE = frozenset({"POST", "PATCH"})


@dataclass(frozen=True, slots=True)
class ProgressSection(Section):
    """When progress inside a work unit is kept."""

    commit: Annotated[Literal["unit", "page"], ONE_OF] = prop(
        COMMIT,
        "How often progress inside a work unit is kept: `unit` at its end, `page` also between "
        "its pages, so that a later attempt or run continues from there.",
        default="unit",
        identity=False,
    )
    commit_s: Annotated[Long, Ge(0), Le(86_400)] = prop(
        "ms.state.cursor.commit.seconds",
        "With `ms.state.cursor.commit=page`: seconds of work between two saves of progress inside "
        "a work unit; 0 saves after every page.",
        default=1,
        identity=False,
    )


@dataclass(frozen=True, slots=True)
class EgressSection(Section):
    """The settings by which rows are sent and requests are recorded."""

    failed_rows: Annotated[Literal["fail", "keep"], ONE_OF] = prop(
        _FAILED,
        "What happens to a payload row that the receiver refuses for good, by a status that is "
        "neither success nor warning and is not about credentials, quota or a temporary failure. "
        "fail: the work unit fails. keep: the row and the response are kept in the dataset's "
        "folder `_failed`, and the next row is sent.",
        default="fail",
    )
    max_failed_rows: Annotated[Long, Ge(-1)] = prop(
        "ms.egress.failed.max.rows",
        "Most refused rows that a work unit keeps before it fails; -1 is no limit.",
        default=-1,
    )
    batch_rows: Annotated[Int, Ge(1)] = prop(
        _ROWS,
        "Number of payload rows in one request, in the array `ms.egress.batch.field` of its body.",
        default=1,
    )
    batch_field: Text = prop(
        _FIELD,
        "The member of the body that holds the rows of a batch. With it even a single row is "
        "sent as an array.",
        default="",
    )
    resumes: Bool = prop(
        RESUME,
        "Whether a later attempt continues after the last row that the receiver has "
        "acknowledged, in place of sending the work unit from its first row. Progress is kept"
        " after every row, as with `ms.state.cursor.commit` page.",
        default=False,
        identity=False,
    )
    sends_again: Bool = prop(
        "ms.egress.send.again",
        "For one run, with -D: send the rows of work units although an earlier attempt may "
        "have sent them.",
        default=False,
        identity=False,
    )
    audits: Bool = prop(
        "ms.audit.enabled",
        "Records every request before it is sent, and its outcome, in files of JSON lines. Secrets "
        "are masked.",
        default=False,
        identity=False,
    )
    audit_dir: PathText = prop(
        _AUDIT_DIR,
        "Folder of the audit, on a local path. Unset: `_audit` in the dataset's folder.",
        default="",
        identity=False,
    )
    is_audit_required: Bool = prop(
        "ms.audit.required",
        "Whether a request that cannot be recorded fails the work unit and is not sent.",
        default=True,
        identity=False,
    )
    audit_topic: Text = no_effect(
        _TOPIC,
        "Topic of the audit in DIL's documents. The audit goes to files, see `ms.audit.dir`.",
    )
    kafka_brokers: Text = no_effect(
        "ms.kafka.brokers",
        "Brokers of the audit producer. The audit goes to files, see `ms.audit.dir`.",
    )
    kafka_client_id: Text = no_effect(
        "ms.kafka.clientId",
        "Client id of the audit producer. The audit goes to files, see `ms.audit.dir`.",
    )
    kafka_schema_registry_url: Text = no_effect(
        "ms.kafka.schema.registry.url",
        "Schema registry of the audit producer. The audit goes to files, see `ms.audit.dir`.",
    )


def resumes(values: Properties) -> bool:
    """Return whether progress is kept after every row that is sent."""
    return values.section(EgressSection).resumes and values.section(SecondarySection).has_payload


def progress_key(values: Properties) -> str:
    """Return the property that keeps progress inside work units; empty if none does."""
    if resumes(values):
        return RESUME
    return COMMIT if values.section(ProgressSection).commit == "page" else ""


def egress_section(values: Properties) -> EgressSpec:
    """Return the egress part of a job: the settings of sending rows."""
    egress = values.section(EgressSection)
    most = egress.max_failed_rows
    return EgressSpec(
        keeps_refused=egress.failed_rows == "keep",
        max_refused=None if most < 0 else most,
        sends_again=egress.sends_again,
        batch_rows=egress.batch_rows,
        batch_field=egress.batch_field,
    )


def audit_section(values: Properties, folder: Path, findings: Findings) -> AuditSpec:
    """Return the audit part of a job; relative paths start at the job file's folder."""
    egress = values.section(EgressSection)
    return AuditSpec(
        enabled=egress.audits,
        directory=path_of(egress.audit_dir, _AUDIT_DIR, folder, findings),
        is_required=egress.is_audit_required,
    )


def check_egress(values: Properties, findings: Findings) -> None:
    """Add findings for properties of sending and of the audit that have no effect."""
    if not findings.is_sound(SECONDARY, COMMIT):
        return
    egress, sending = values.section(EgressSection), values.section(SendingSection)
    has_payload = values.section(SecondarySection).has_payload
    for key, is_asked in (
        (_FAILED, egress.failed_rows == "keep"),
        (RESUME, egress.resumes),
        (_ROWS, egress.batch_rows > 1),
        (_FIELD, bool(egress.batch_field)),
    ):
        if is_asked and not has_payload:
            what = f"has no effect: {SECONDARY} has no rows to send"
            findings.notice(key, what, "Add an entry of category payload, or remove it.")
    if has_payload and egress.batch_rows > 1 and not egress.batch_field:
        findings.problem(
            _ROWS,
            f"is {egress.batch_rows}, and no member of the body is named for the rows",
            f"Name the member that holds them: {_FIELD}=records.",
        )
    origin = findings.origins.get(METHOD)
    is_known = bool(sending.idempotency_header) or sending.repeats_unsafe
    if has_payload and origin is not None and sending.method in _ONCE and not is_known:
        findings.information(
            f"rows are sent by {sending.method} without {IDEMPOTENCY_HEADER}: once the receiver "
            "took one, a failed work unit is not sent again before somebody has checked it "
            "(ms.egress.send.again)",
            origin,
        )
    if egress.audits and egress.audit_topic:
        findings.notice(
            _TOPIC,
            "is named, and the audit goes to files in place of Kafka",
            "Read them from ms.audit.dir, which is _audit in the dataset's folder unless set.",
        )
