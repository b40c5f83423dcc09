"""The digest that recognises the records of releases that had no digest version.

Those releases hashed the ``repr`` of classes under the names of that time. The texts below give the
same bytes and are frozen: they follow no class, field or enum member of today. Nothing is recorded
with this digest any more; it is only compared with the records of earlier releases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache

from dil.config.digest import normal, normal_default, plugin_texts, shown
from dil.config.entry import Entry
from dil.config.table import TABLE
from dil.model.destination import MergeSpec, TableSpec, WarehouseSpec
from dil.model.job import PublishingSpec, WritingSpec
from dil.model.timelabels import TimelabelSpec

# The properties that had a line for any value. A later property has a line only if its value is not
# its default: no earlier release ran such a job.
_TEXT = """
converter.avro.binary.charset converter.avro.date.format converter.avro.date.timezone
converter.avro.max.conversion.failures converter.avro.nullify.fields.enabled
converter.avro.time.format converter.avro.timestamp.format converter.classes
converter.csv_to_json.custom_order converter.is.epoch.time.in.seconds
data.publisher.appendExtractToFinalDir data.publisher.final.dir data.publisher.final.dir.group
data.publisher.fs.uri data.publisher.permissions data.publisher.replace.final.dir
extract.delta.fields extract.extractIdTimeZone extract.is.full extract.namespace
extract.primary.key.fields extract.table.name extract.table.type fs.uri ms.abstinent.period
ms.abstinent.period.days ms.authentication ms.csv ms.data.default.type ms.data.field
ms.derived.fields ms.egress.batch.field ms.egress.batch.rows ms.egress.failed.max.rows
ms.egress.failed.rows ms.enable.dynamic.full.load ms.enable.schema.based.filtering
ms.encryption.fields ms.extract.preprocessor.parameters ms.extract.preprocessors
ms.extractor.class ms.extractor.target.file.name ms.extractor.target.file.permission
ms.grace.period ms.grace.period.days ms.hdfs.reader.parse.json.strings ms.http.request.headers
ms.http.request.method ms.http.response.type ms.http.status.reasons ms.http.statuses
ms.jdbc.cursor.delay ms.jdbc.invalid.dates ms.jdbc.partition.by ms.jdbc.partition.column
ms.jdbc.partitions ms.jdbc.reader ms.jdbc.schema.refactor ms.jdbc.statement
ms.merge.delete.limit.percent ms.merge.delete.missing ms.merge.deletes ms.merge.op.deletes
ms.merge.op.field ms.normalizer.batch.break ms.normalizer.batch.size ms.output.schema
ms.output.system.columns ms.pagination ms.parameters ms.publish.layout ms.publish.mode
ms.quarantine.enabled ms.quarantine.max.rows ms.range.generator.batch.size
ms.range.generator.max.value ms.schema.cleansing ms.schema.contract ms.secondary.input
ms.session.key.field ms.sftp.private.key.passphrase ms.source.data.character.set
ms.source.files.decompress ms.source.files.once ms.source.files.pattern ms.source.s3.parameters
ms.source.schema.urn ms.source.uri ms.table.format ms.table.partition.fields ms.target.schema
ms.target.schema.urn ms.timelabel.catchup ms.timelabel.column ms.timelabel.every
ms.timelabel.first.run ms.timelabel.schedule ms.timelabel.split ms.timelabel.timezone
ms.timelabel.unit ms.timeseries.physical ms.timezone ms.total.count.field ms.validation.attributes
ms.warehouse.operation ms.warehouse.table.kind ms.watermark ms.work.unit.min.records
ms.work.unit.partial.partition ms.work.unit.partition ms.writer.row.group.rows
ms.writer.target.bytes publish.data.at.job.level source.class source.conn.host
source.conn.password source.conn.private.key source.conn.username source.filebased.fs.uri
writer.codec.type writer.deflate.level writer.dir.permissions writer.file.block.size
writer.file.group writer.file.name writer.file.owner writer.file.path writer.file.path.type
writer.file.permissions writer.file.replication.factor writer.fs.uri
writer.include.record.count.in.file.names writer.output.format writer.partitioner.class
"""
_NAMES = frozenset(_TEXT.split())


def legacy_digest(
    entries: Mapping[str, Entry], publishing: PublishingSpec, writing: WritingSpec
) -> str:
    """Return the digest of this configuration in earlier releases, as hexadecimal digits."""
    lines = (
        *_properties(entries),
        ("publishing", _publishing(publishing)),
        ("writing", _writing(writing)),
    )
    text = "".join(f"{name}={value}\n" for name, value in sorted(lines))
    return hashlib.sha256(text.encode()).hexdigest()


def _properties(entries: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    lines = dict(_default_lines())
    for name, written in entries.items():
        if name not in TABLE:
            continue
        entry, text = TABLE[name], normal(written.text)
        if name in _NAMES or (entry.identity and text != normal_default(entry.default)):
            lines[name] = shown(entry, text)
    yield from lines.items()
    yield from plugin_texts(entries)


@cache
def _default_lines() -> Mapping[str, str]:
    """Return the lines of a job that sets no property."""
    named = (TABLE[name] for name in _NAMES)
    return {each.name: shown(each, normal_default(each.default)) for each in named}


def _publishing(spec: PublishingSpec) -> str:
    return (
        f"PublishingSpec(final_dir={spec.final_dir!r}, dataset_path={spec.dataset_path!r}, "
        f"run_folder={spec.run_folder}, mode={_member('PublishMode', spec.mode)}, "
        f"extract_id_zone={spec.extract_id_zone!r}, dir_mode={spec.dir_mode}, "
        f"file_mode={spec.file_mode}, layout={_member('Layout', spec.layout)}, "
        f"merge={_merge(spec.merge)}, table={_table(spec.table)}, "
        f"warehouse={_warehouse(spec.warehouse)})"
    )


def _merge(spec: MergeSpec | None) -> str:
    if spec is None:
        return "None"
    return (
        f"MergeSpec(keys={spec.keys!r}, delta_fields={spec.delta_fields!r}, "
        f"op_field={spec.op_field!r}, delete_words={spec.delete_words!r}, "
        f"is_soft={spec.is_soft}, deletes_missing={spec.deletes_missing}, "
        f"max_deleted_percent={spec.max_deleted_percent})"
    )


def _table(spec: TableSpec) -> str:
    catalog = "None" if spec.catalog_uri is None else "Secret(***)"
    return (
        f"TableSpec(format={_member('TableFormat', spec.format)}, namespace={spec.namespace!r}, "
        f"name={spec.name!r}, partition_fields={spec.partition_fields!r}, "
        f"catalog_uri={catalog}, catalog_warehouse={spec.catalog_warehouse!r})"
    )


def _warehouse(spec: WarehouseSpec | None) -> str:
    if spec is None:
        return "None"
    return (
        f"WarehouseSpec(schema={spec.schema!r}, table={spec.table!r}, "
        f"kind={_member('TableKind', spec.kind)}, "
        f"operation={_member('Operation', spec.operation)}, labels={_labels(spec.labels)}, "
        f"retention_ms={spec.retention_ms}, max_partitions={spec.max_partitions})"
    )


def _labels(spec: TimelabelSpec | None) -> str:
    if spec is None:
        return "None"
    unit = "None" if spec.unit is None else _member("LabelUnit", spec.unit)
    return (
        f"TimelabelSpec(schedule={spec.schedule!r}, every_ms={spec.every_ms}, unit={unit}, "
        f"zone={spec.zone!r}, is_dated={spec.is_dated}, column={spec.column!r}, "
        f"splits={spec.splits}, catches_up={spec.catches_up}, first_period={spec.first_period})"
    )


def _writing(spec: WritingSpec) -> str:
    return (
        f"WritingSpec(format={_member('OutputFormat', spec.format)}, codec={spec.codec!r}, "
        f"deflate_level={spec.deflate_level}, "
        f"record_count_in_names={spec.record_count_in_names}, "
        f"target_bytes={spec.target_bytes}, row_group_rows={spec.row_group_rows}, "
        f"epoch_seconds={spec.epoch_seconds}, record_name={spec.record_name!r}, "
        f"record_namespace={spec.record_namespace!r}, file_name={spec.file_name!r}, "
        f"file_prefix={spec.file_prefix!r})"
    )


def _member(kind: str, word: str) -> str:
    """Return the former ``repr`` of an enum member, which was named by its word in capitals."""
    text = str(word)
    return f"<{kind}.{text.upper()}: {text!r}>"
