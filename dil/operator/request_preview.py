"""Previews the first request that a run would send, without sending it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dil.extraction.parameters import first_request
from dil.extraction.payload_rows import PayloadRows
from dil.model.job import Job
from dil.model.work_unit import WorkUnit
from dil.operator.previewed_units import RUN_ID, choose_units, scope_of
from dil.run.inputs import read_inputs
from dil.spi.connector import Connector, SessionContext
from dil.spi.plugin_failures import translated_plugin_errors
from dil.spi.registry import load
from dil.spi.request_view import RequestView
from dil.task.delivery import payload_batches


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
        batches = payload_batches(job, values.variables)
        payload = PayloadRows(batches, job.name, unit.signature)
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
