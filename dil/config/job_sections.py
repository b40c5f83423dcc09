"""Effective properties to the sections of a job."""

from __future__ import annotations

from pathlib import Path

from dil.config.csv_json import csv_section
from dil.config.egress_checks import egress_section, resumes
from dil.config.findings import Findings
from dil.config.output_checks import FILE_NAME
from dil.config.paths import is_local
from dil.config.preprocessing import dump_name, expansion
from dil.config.publishing_section import path_of
from dil.config.state_server import SERVER_KINDS, note_unused_server, state_server
from dil.config.tables_section import is_of_files
from dil.model.contract import ContractMode, QuarantineSpec
from dil.model.job import (
    Blocks,
    ClassRef,
    CommitPolicy,
    ConversionSpec,
    ExtractionSpec,
    OutputFormat,
    PreprocessorSpec,
    RunningSpec,
    SourceSpec,
    StateSpec,
    WritingSpec,
)
from dil.model.properties import Properties
from dil.model.settings import Pagination, SchemaCleansing, SessionKeyField

DEFAULT_STATE_FOLDER = ".dil"
_AT_JOB_LEVEL = "publish.data.at.job.level"
_REPLACES = "data.publisher.replace.final.dir"


def source_section(values: Properties, connector: ClassRef) -> SourceSpec:
    """Return where rows come from."""
    return SourceSpec(
        connector,
        values.text("ms.source.uri"),
        values.secret("source.conn.username"),
        values.secret("source.conn.password"),
    )


def extraction_section(
    values: Properties, extractor: ClassRef, preprocessors: tuple[PreprocessorSpec, ...] = ()
) -> ExtractionSpec:
    """Return how responses become rows and how pages are walked."""
    session = values["ms.session.key.field"]
    cleansing = values.typed("ms.schema.cleansing", SchemaCleansing)
    return ExtractionSpec(
        extractor=extractor,
        parameters=values.typed("ms.parameters", tuple),
        pagination=values.typed("ms.pagination", Pagination),
        session=session if isinstance(session, SessionKeyField) else None,
        total_count_field=values.text("ms.total.count.field"),
        call_interval_ms=values.integer("ms.call.interval.millis"),
        wait_timeout_s=values.integer("ms.wait.timeout.seconds"),
        data_field=values.text("ms.data.field"),
        csv=csv_section(values),
        output_schema=values.typed("ms.output.schema", tuple) or None,
        filters_by_schema=values.boolean("ms.enable.schema.based.filtering"),
        cleansing=cleansing if cleansing.enabled else None,
        default_types=tuple(values.typed("ms.data.default.type", dict).items()),
        charset=values.text("ms.source.data.character.set"),
        extra_content_types=_content_types(values.typed("ms.http.response.type", dict)),
        primary_keys=values.typed("extract.primary.key.fields", tuple),
        delta_fields=values.typed("extract.delta.fields", tuple),
        min_records=values.integer("ms.work.unit.min.records"),
        egress=egress_section(values),
        preprocessors=preprocessors,
        expansion=expansion(values),
    )


def _content_types(members: dict[str, str]) -> tuple[str, ...]:
    """Return the accepted types in lower case, none without a Content-Type (B7.8)."""
    if "content-type" not in {name.lower() for name in members}:
        return ()
    return tuple(media_type.lower() for media_type in members.values())


def conversion_section(values: Properties, converters: tuple[ClassRef, ...]) -> ConversionSpec:
    """Return what happens to rows between extractor and writer."""
    return ConversionSpec(
        converters=converters,
        encrypted_fields=values.typed("ms.encryption.fields", tuple),
        keeps_columns=values.boolean("converter.avro.nullify.fields.enabled"),
        derived_fields=values.typed("ms.derived.fields", tuple),
        date_formats=values.typed("converter.avro.date.format", tuple),
        timestamp_formats=values.typed("converter.avro.timestamp.format", tuple),
        time_formats=values.typed("converter.avro.time.format", tuple),
        zone=values.text("converter.avro.date.timezone"),
        binary_charset=values.text("converter.avro.binary.charset"),
        max_failures=values.integer("converter.avro.max.conversion.failures"),
        contract=ContractMode(values.text("ms.schema.contract")),
        quarantine=_quarantine(values),
    )


def _quarantine(values: Properties) -> QuarantineSpec:
    most = values.integer("ms.quarantine.max.rows")
    return QuarantineSpec(values.boolean("ms.quarantine.enabled"), None if most < 0 else most)


def writing_section(values: Properties) -> WritingSpec:
    """Return how rows become files; OTHER stands for Avro (spec README 15)."""
    return WritingSpec(
        format=_output_format(values),
        codec=values.text("writer.codec.type"),
        deflate_level=values.integer("writer.deflate.level"),
        record_count_in_names=values.boolean("writer.include.record.count.in.file.names"),
        target_bytes=values.integer("ms.writer.target.bytes"),
        row_group_rows=values.integer("ms.writer.row.group.rows"),
        epoch_seconds=values.boolean("converter.is.epoch.time.in.seconds"),
        record_name=values.text("extract.table.name"),
        record_namespace=values.text("extract.namespace"),
        file_name=dump_name(values),
        file_prefix=values.text(FILE_NAME) or "part",
        blocks=Blocks(
            values.optional_integer("writer.file.replication.factor"),
            values.optional_integer("writer.file.block.size"),
        ),
    )


def _output_format(values: Properties) -> OutputFormat:
    """Return the format of files; those of tables and of what is loaded are Parquet."""
    if not is_of_files(values):
        return OutputFormat.PARQUET
    word = values.text("writer.output.format").lower()
    return OutputFormat.AVRO if word == "other" else OutputFormat(word)


def running_section(
    values: Properties, plugin_folders: tuple[str, ...], findings: Findings
) -> RunningSpec:
    """Return how work units are executed."""
    interval = values["task.retry.intervalinsec"]
    return RunningSpec(
        commit_policy=_commit_policy(values, findings),
        max_retries=values.integer("task.maxretries"),
        retry_interval_s=interval if isinstance(interval, int) else None,
        threads=values.integer("taskexecutor.threadpool.size"),
        lease_s=values.integer("ms.lease.seconds"),
        disabled=values.boolean("job.disabled"),
        plugin_path=plugin_folders,
        page_commit_s=_page_commit(values),
    )


def _commit_policy(values: Properties, findings: Findings) -> CommitPolicy:
    """Return what a failed work unit means for the others.

    Where tasks publish for themselves (behaviour.md B14.4) each that succeeds is published. Here
    that is done together, at the end of the run, so that readers see it at once.
    """
    policy = values.text("job.commit.policy")
    if policy == "partial":
        findings.notice("job.commit.policy", 'is "partial"', "Write successful; it means the same.")
    if values.boolean(_AT_JOB_LEVEL):
        return CommitPolicy.FULL if policy == "full" else CommitPolicy.SUCCESSFUL
    if values.boolean(_REPLACES):
        findings.problem(
            _AT_JOB_LEVEL,
            f"is false, and {_REPLACES} is true: each task would take out what others published",
            "Leave one of them out.",
        )
    else:
        findings.notice(
            _AT_JOB_LEVEL,
            "is false: work units that succeed are published though others fail, all at the end",
            "Write job.commit.policy=successful; it means the same here.",
        )
    return CommitPolicy.SUCCESSFUL


def _page_commit(values: Properties) -> int | None:
    """Return the seconds between two savings of progress, None for none inside work units."""
    if resumes(values):
        return 0
    if values.text("ms.state.cursor.commit") == "unit":
        return None
    return values.integer("ms.state.cursor.commit.seconds")


def state_section(values: Properties, folder: Path, findings: Findings) -> StateSpec:
    """Return where watermarks are kept.

    fs on a local path is SQLite there, elsewhere it is the file log (spec README 24).
    """
    kind = values.text("dataset.state.store.type") or values.text("state.store.type")
    if kind in SERVER_KINDS:
        server = state_server(values, kind, findings)
        enabled = values.boolean("state.store.enabled")
        return StateSpec(kind, enabled=enabled, is_default_place=False, server=server)
    note_unused_server(values, kind, findings)
    is_default_place = not values.text("state.store.dir")
    directory = (
        str(folder / DEFAULT_STATE_FOLDER)
        if is_default_place
        else path_of(values, "state.store.dir", folder, findings)
    )
    if kind == "fs":
        kind = "sqlite" if is_local(directory) else "filelog"
    if kind != "filelog" and not is_local(directory):
        findings.problem(
            "state.store.dir",
            f"is {directory}, and state.store.type={kind} needs a folder of this machine",
            "Set state.store.type=fs, or name a local folder.",
        )
    return StateSpec(
        kind=kind,
        directory=directory,
        enabled=values.boolean("state.store.enabled") and kind != "noop",
        is_default_place=is_default_place,
    )
