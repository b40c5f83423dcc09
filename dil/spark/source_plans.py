"""Plans a query over the source of a job, on the driver: its columns and its work units."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dil.errors import ConfigError
from dil.execution.executor import job_of_tasks
from dil.model.arrow import typed_schema
from dil.model.job import Job
from dil.model.secondary import SecondaryVariables
from dil.model.task import RunContext
from dil.model.work_unit import WorkUnit
from dil.operator.source_preview import PreviewLimits, preview_source
from dil.planning import plan_everything
from dil.publishing.run_commit import recorded_schema
from dil.run import plan_builder
from dil.run.inputs import read_inputs
from dil.spark.options import SourceOptions
from dil.spi.connector import Connector
from dil.spi.registry import load
from dil.state import open_store

_RUN_ID = "spark-read"


def source_job(options: SourceOptions) -> Job:
    """Return the job whose source a query reads, with the requested range of time.

    Raises:
        ConfigError: the job file is wrong, or a query cannot read its source.
    """
    job = options.load()
    _refuse(job)
    start, end = options.text("from"), options.text("to")
    if not (start or end):
        return job
    if not job.planning.is_dated or job.planning.composite:
        raise ConfigError.single(
            "from" if start else "to",
            "is given, but the job has no datetime watermark with one range",
            "Leave it out, or filter the rows in Spark.",
        )
    spec = replace(job.planning, start=start or job.planning.start, end=end or job.planning.end)
    return replace(job, planning=spec)


def source_schema(options: SourceOptions, job: Job) -> pa.Schema:
    """Return the columns of a job's rows: as declared, else as in the source's first rows.

    Raises:
        ConfigError: the source has no rows from which to infer the columns.
        SourceError: the source refuses.
    """
    schema = _declared(job)
    if schema is None:
        found = preview_source(
            job,
            now_ms=options.now_ms,
            rows=options.preview_rows,
            rules=PreviewLimits(skips_empty=True),
        )
        schema = found.rows.schema
    if not schema.names:
        raise ConfigError.single(
            "schema",
            "cannot be inferred: the source gave no rows",
            'Give the columns: .schema("id bigint, name string"), or ms.output.schema in the job'
            " file.",
        )
    return schema


def _declared(job: Job) -> pa.Schema | None:
    """Return the columns of ms.output.schema; None if other properties change the columns."""
    conversion, columns = job.conversion, job.extraction.output_schema
    changes = (conversion.derived_fields, conversion.converters, conversion.encrypted_fields)
    if columns is None or any(changes) or not job.extraction.filters_by_schema:
        return None
    return typed_schema(columns)


def _refuse(job: Job) -> None:
    """Refuse jobs whose source gives no rows, or whose requests change data at the source.

    Raises:
        ConfigError: the source gives no rows, or a request changes data.
    """
    connector = load(job.source.connector)
    problem = connector.changes(job) if issubclass(connector, Connector) else None
    if job.has_input("payload") or problem is not None:
        raise ConfigError.single(
            "conf",
            "sends rows, but a query may read the source more than once",
            "Use `dil run`.",
            job.properties.origin("source.class"),
        )
    if job.writing.file_name:
        raise ConfigError.single("conf", "copies files and reads no rows", "Use `dil run`.")
    if issubclass(connector, Connector) and connector.spark_reader(job) is not None:
        raise ConfigError.single(
            "ms.jdbc.reader",
            "is spark, which reads by a separate Spark job",
            'Leave it out, or give .option("ms.jdbc.reader", "driver").',
        )


def planned_units(job: Job, options: SourceOptions) -> tuple[tuple[WorkUnit, ...], RunContext]:
    """Return the work units of a query, and the context that all its tasks share.

    Raises:
        ConfigError: the configuration does not fit its state.
        SourceError: secondary input or the source's list of units cannot be read.
    """
    now_ms = options.now_ms
    secondary = read_inputs(job)
    listed = plan_builder.list_units(job, now_ms, secondary.activation)
    known_schema = ""
    if options.keeps_history:
        with open_store(job.state, job.name, clock=lambda: now_ms) as store:
            plan = plan_builder.plan_due_units(job, store, now_ms, listed)
            known_schema = recorded_schema(store)
    else:
        plan = plan_everything(job.planning, now_ms=now_ms, activation=listed)
    run = run_context(job, now_ms, secondary.variables, full_extract=plan.full_extract)
    return tuple(plan.work_units), replace(run, known_schema=known_schema)


def run_context(
    job: Job, now_ms: int, secondary: SecondaryVariables, *, full_extract: bool
) -> RunContext:
    """Return the context that the tasks of a query or of a micro-batch share."""
    return RunContext(
        job=job_of_tasks(job),
        run_id=_RUN_ID,
        run_now=now_ms,
        full_extract=full_extract,
        staging_dir="",
        secondary=secondary,
    )
