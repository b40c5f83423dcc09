"""Chooses the work units of a preview, and previews the first request of one without sending it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from dil.errors import ConfigError
from dil.extraction.parameters import ParameterScope, first_request
from dil.extraction.payload_rows import PayloadRows
from dil.model.job import Job
from dil.model.secondary import SecondaryRows, SecondaryVariables
from dil.model.work_unit import WorkUnit
from dil.planning import plan_everything
from dil.publishing.run_commit import recorded_schema
from dil.run import plan_builder
from dil.run.inputs import read_inputs
from dil.secrets import learn
from dil.spi.connector import Connector, SessionContext
from dil.spi.plugin_failures import translated_plugin_errors
from dil.spi.registry import load
from dil.spi.request_view import RequestView
from dil.state import open_store
from dil.task.delivery import payload_batches

RUN_ID = "preview"
# At most so many due work units are tried to find one with rows.
_MOST_TRIED = 5


@dataclass(frozen=True, slots=True)
class ChosenUnits:
    """The work units to try in turn, possibly none, and the facts that a run would know."""

    work_units: tuple[WorkUnit, ...]
    is_due: bool
    full_extract: bool
    known_schema: str


def choose_units(
    job: Job,
    secondary: SecondaryRows,
    now_ms: int,
    signature: str | None,
    clock: Callable[[], int] | None,
) -> ChosenUnits:
    """Return the work units to try, and whether the next run would take them."""
    units = plan_builder.list_units(job, now_ms, secondary.activation)
    with open_store(job.state, job.name, clock=clock or (lambda: now_ms)) as store:
        due = plan_builder.plan_due_units(job, store, now_ms, units)
        known_schema = recorded_schema(store)

    def chosen(*units: WorkUnit, is_due: bool) -> ChosenUnits:
        return ChosenUnits(units, is_due, due.full_extract, known_schema)

    wanted = (unit for unit in due.work_units if signature in (None, unit.signature))
    found = tuple(islice(wanted, _MOST_TRIED))
    if found:
        return chosen(*found, is_due=True)
    every = plan_everything(job.planning, now_ms=now_ms, activation=units).work_units
    if signature is None and every:
        return chosen(every[-1], is_due=False)
    if signature is None and job.planning.of_source and not units:
        return chosen(is_due=False)
    named = next((unit for unit in every if unit.signature == signature), None)
    if named is None and signature is None:
        raise ConfigError.single(
            "", f"{job.name} has no work unit at all", "`dil plan --all` says why."
        )
    if named is None:
        raise ConfigError.single(
            "--signature",
            f"{signature} is no work unit of {job.name}",
            "`dil plan --all --signatures` names them.",
        )
    return chosen(named, is_due=False)


def scope_of(
    work_unit: WorkUnit, variables: SecondaryVariables, *, full_extract: bool
) -> ParameterScope:
    """Return the values that parameters can see; secrets among them are masked from now on."""
    for secret in variables.used_by(work_unit.unit):
        learn(secret)
    return ParameterScope.of(work_unit, full_extract=full_extract, secondary=variables)


def preview_request(
    job: Job, *, now_ms: int, signature: str | None = None, clock: Callable[[], int] | None = None
) -> tuple[WorkUnit | None, RequestView | None]:
    """Return a work unit and its first request; nothing is sent to the source.

    The work unit is None if there is none. The request is None if the connector cannot describe it
    or there is no row to send. Arguments and errors are as for ``preview_source``.
    """
    secondary = read_inputs(job)
    chosen = choose_units(job, secondary, now_ms, signature, clock)
    if not chosen.work_units:
        return None, None
    unit = chosen.work_units[0]
    scope = scope_of(unit, secondary.variables, full_extract=chosen.full_extract)
    values = first_request(job.extraction, scope)
    if job.has_input("payload"):
        payload = PayloadRows(payload_batches(job, values.variables), job.name, unit.signature)
        if not payload.left:
            return unit, None
        row, key = payload.take()
        values = replace(values, payload=row, idempotency_key=key)
    connector: Connector = load(job.source.connector)()
    reader = connector.spark_reader(job)
    if reader is not None:
        read = reader.read(values)
        text = read.options.get("query") or read.options.get("dbtable", "")
        return unit, RequestView("query", read.location, text=text)
    context = SessionContext(job, unit, RUN_ID, now_ms, 1)
    with (
        translated_plugin_errors(job.source.connector.qualname),
        connector.open(context) as session,
    ):
        return unit, session.describe(values)
