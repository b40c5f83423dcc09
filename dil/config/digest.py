"""Makes one digest of all settings that decide which rows are extracted and how they are written.

The digest is stored with staged work, page logs, plans, backfills and runs; later releases compare
it. So this module itself writes the name of every value: no name and no order of classes, fields or
enum members reaches the digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache

from dil.config.entry import Entry
from dil.config.property import Property
from dil.config.table import PLUGIN_PREFIX, TABLE
from dil.model.destination import MergeSpec, TableSpec, WarehouseSpec
from dil.model.job import PublishingSpec, WritingSpec
from dil.model.json import JsonObject, JsonValue, compact
from dil.model.timelabels import TimelabelSpec
from dil.sections.http import BODY
from dil.text.lenient_json import JsonError, parse

VERSION = 2
# The first defaults of properties whose default has changed since version 2 began. The digest
# leaves out a first default, but contains a newer default.
FORMER_DEFAULTS: Mapping[str, str] = {}


def digest(entries: Mapping[str, Entry], publishing: PublishingSpec, writing: WritingSpec) -> str:
    """Return ``2:`` and the SHA-256 of the effective configuration as hexadecimal digits.

    The digest leaves out properties that only control the run: threads, retries, state, lease,
    logs, pacing. Blanks and line ends of JSON values do not count. A property whose value is its
    default is left out, even if it is written, so that new properties change no digest. The place
    and the mode of publishing enter the digest in resolved form: a relative path means another
    place after the job file moves, and several properties together choose the folder and the mode.
    """
    document: JsonObject = {
        "properties": dict(sorted(_properties(entries))),
        "publishing": _publishing(publishing),
        "writing": _writing(writing),
    }
    return f"{VERSION}:{hashlib.sha256(compact(document).encode()).hexdigest()}"


def _properties(entries: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    # Any other property has its first default.
    for entry in (TABLE[name] for name in {**entries, **FORMER_DEFAULTS} if name in TABLE):
        written = entries.get(entry.name)
        text = _text(entry.name, written.text) if written else normal_default(entry.default)
        first = FORMER_DEFAULTS.get(entry.name, entry.default)
        if entry.identity and text != normal_default(first):
            yield entry.name, shown(entry, text)
    yield from plugin_texts(entries)


def _text(name: str, text: str) -> str:
    # A body is sent as it is written: no other text has its meaning, even if it looks like JSON.
    return text if name == BODY else normal(text)


def shown(entry: Property, text: str) -> str:
    """Return the text as it enters a digest: a secret only as its own hash."""
    return hashlib.sha256(text.encode()).hexdigest() if entry.secret else text


def plugin_texts(entries: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    """Yield the properties of plug-ins, each with the hash of its value."""
    for key, written in entries.items():
        if key.startswith(PLUGIN_PREFIX):
            yield key, hashlib.sha256(written.text.encode()).hexdigest()


def normal(text: str) -> str:
    """Return a property's text in one form: JSON is written compactly."""
    stripped = text.strip()
    if not stripped.startswith(("[", "{")):
        return stripped
    try:
        value, _ = parse(stripped)
    except JsonError:
        return stripped
    return compact(value)


@cache
def normal_default(text: str) -> str:
    """Return the normalised text of a default; a process asks for the same defaults again."""
    return normal(text)


def _publishing(spec: PublishingSpec) -> JsonObject:
    # The catalog is missing: the place of a dataset's registration changes no row.
    return _said(
        {
            "dataset_path": spec.dataset_path,
            "dir_mode": spec.dir_mode,
            "extract_id_zone": spec.extract_id_zone,
            "file_mode": spec.file_mode,
            "final_dir": spec.final_dir,
            "layout": spec.layout.value,
            "merge": None if spec.merge is None else _merge(spec.merge),
            "mode": spec.mode.value,
            "run_folder": spec.run_folder,
            "table": _table(spec.table),
            "warehouse": None if spec.warehouse is None else _warehouse(spec.warehouse),
        }
    )


def _merge(spec: MergeSpec) -> JsonObject:
    return _said(
        {
            "delete_words": list(spec.delete_words),
            "deletes_missing": spec.deletes_missing,
            "delta_fields": list(spec.delta_fields),
            "keys": list(spec.keys),
            "max_deleted_percent": spec.max_deleted_percent,
            "op_field": spec.op_field,
            "soft": spec.is_soft,
        }
    )


def _table(spec: TableSpec) -> JsonObject:
    # Only the presence of the catalog's address counts: it may hold a password, and may change.
    return _said(
        {
            "catalog": spec.catalog_uri is not None,
            "catalog_warehouse": spec.catalog_warehouse,
            "format": spec.format.value,
            "name": spec.name,
            "namespace": spec.namespace,
            "partition_fields": list(spec.partition_fields),
        }
    )


def _warehouse(spec: WarehouseSpec) -> JsonObject:
    # The address is missing: it may hold a password, and a server may move. The digest has the
    # property that separates labels.
    return _said(
        {
            "kind": spec.kind.value,
            "labels": None if spec.labels is None else _labels(spec.labels),
            "max_partitions": spec.max_partitions,
            "operation": spec.operation.value,
            "retention_ms": spec.retention_ms,
            "schema": spec.schema,
            "table": spec.table,
        }
    )


def _labels(spec: TimelabelSpec) -> JsonObject:
    return _said(
        {
            "catches_up": spec.catches_up,
            "column": spec.column,
            "dated": spec.is_dated,
            "every_ms": spec.every_ms,
            "first_period": spec.first_period,
            "schedule": spec.schedule,
            "splits": spec.splits,
            "unit": None if spec.unit is None else spec.unit.value,
            "zone": spec.zone,
        }
    )


def _writing(spec: WritingSpec) -> JsonObject:
    # The settings of HDFS files are left out here, because their properties are in the digest.
    return _said(
        {
            "codec": spec.codec,
            "deflate_level": spec.deflate_level,
            "epoch_seconds": spec.epoch_seconds,
            "file_name": spec.file_name,
            "file_prefix": spec.file_prefix,
            "format": spec.format.value,
            "record_count_in_names": spec.record_count_in_names,
            "record_name": spec.record_name,
            "record_namespace": spec.record_namespace,
            "row_group_rows": spec.row_group_rows,
            "target_bytes": spec.target_bytes,
        }
    )


def _said(values: Mapping[str, JsonValue]) -> JsonObject:
    """Return the members that are neither None, false nor empty, in the order of their names.

    All other members are left out, so that a new member whose default is one of these values
    changes no digest.
    """
    return {
        name: value
        for name, value in sorted(values.items())
        if not (value is None or value is False or value in ("", []))
    }
