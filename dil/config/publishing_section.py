"""Where files become visible. Source: behaviour.md B14.3, spec README 20."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from dil.config.catalog import catalog_section, refuse_catalog_of_dumps
from dil.config.findings import Findings
from dil.config.identity import DatasetSection
from dil.config.job_paths import path_of
from dil.config.merging import merge_spec
from dil.config.preprocessing import dump_mode, is_file_dump
from dil.config.tables import (
    FIELDS,
    FORMAT,
    TablesSection,
    is_of_files,
    refuse_table_of_dumps,
    table_spec,
)
from dil.config.timelabels_section import SCHEDULE, TimelabelsSection
from dil.config.timeseries import is_timeseries
from dil.config.warehouse import URL, WarehouseSection, warehouse_section
from dil.config.writing import PATH_TYPE, WritingSection
from dil.model.destination import Layout, Operation
from dil.model.job import PathType, PublishingSpec, PublishMode, TableType
from dil.model.properties import Properties
from dil.model.suggestions import quote

_LAYOUT = "ms.publish.layout"
_LABEL_FOLDERS = frozenset("ymdhn")
_REPLACING = (PublishMode.REPLACE, PublishMode.WINDOW_REPLACE, PublishMode.MERGE)
_OPERATIONS = {
    Operation.REPLACE: PublishMode.REPLACE,
    Operation.INSERT: PublishMode.APPEND,
    Operation.UPSERT: PublishMode.MERGE,
}


def publish_mode(values: Properties) -> PublishMode:
    """Return the mode; unset it follows ``data.publisher.replace.final.dir``.

    Where each run has a folder of its own there is nothing to replace. Of dumped files each
    replaces the one of its own name, no other. For tables and warehouses it follows the table's
    type, and whether there are keys (spec README 20). What a run read of a timelabel takes the
    place of the earlier reading, always.
    """
    if is_file_dump(values):
        return PublishMode.APPEND
    word = values["ms.publish.mode"]
    if isinstance(word, str):
        return PublishMode(word)
    if is_timeseries(values):
        return PublishMode.WINDOW_REPLACE
    warehouse = values.section(WarehouseSection)
    if warehouse.operation is not None and warehouse.url is not None:
        return _OPERATIONS[warehouse.operation]
    if values.boolean("data.publisher.replace.final.dir") and not has_run_folder(values):
        return PublishMode.REPLACE
    return PublishMode.APPEND if is_of_files(values) else _mode_of_table(values)


def _mode_of_table(values: Properties) -> PublishMode:
    dataset = values.section(DatasetSection)
    if dataset.table_type is TableType.SNAPSHOT_ONLY:
        return PublishMode.REPLACE
    if dataset.table_type is TableType.SNAPSHOT_APPEND and dataset.primary_keys:
        return PublishMode.MERGE
    return PublishMode.APPEND


def has_run_folder(values: Properties) -> bool:
    """Tell whether each run publishes into a folder of its own.

    A mode that replaces, and folders by timelabel, need one folder for all runs, so there is one
    unless the path type was written out.
    """
    writing = values.section(WritingSection)
    if is_file_dump(values) or not is_of_files(values):
        return False
    is_by_label = values["ms.publish.layout"] == Layout.TIMELABEL
    is_shared = is_by_label or values["ms.publish.mode"] in _REPLACING
    if is_shared and PATH_TYPE not in values.explicit:
        return False
    return (
        values.boolean("data.publisher.appendExtractToFinalDir")
        and not writing.path
        and writing.path_type is PathType.DEFAULT
    )


def publishing_section(values: Properties, folder: Path, findings: Findings) -> PublishingSpec:
    """Return where and how files are published; what is wrong goes to findings."""
    if is_file_dump(values):
        return _dump_section(values, folder, findings)
    writing = values.section(WritingSection)
    dir_mode: object = writing.dir_mode
    if dir_mode is None:
        dir_mode = values["data.publisher.permissions"]
    mode = _checked_mode(values, findings)
    final_dir = path_of(values, "data.publisher.final.dir", folder, findings)
    return PublishingSpec(
        final_dir=final_dir,
        dataset_path=_dataset_path(values, findings),
        run_folder=has_run_folder(values),
        mode=mode,
        extract_id_zone=values.section(DatasetSection).extract_id_zone,
        dir_mode=dir_mode if isinstance(dir_mode, int) else None,
        file_mode=writing.file_mode,
        layout=Layout(values.text("ms.publish.layout")),
        merge=merge_spec(values, mode, findings),
        table=table_spec(values, folder, final_dir, findings),
        warehouse=warehouse_section(values, folder, findings),
        catalog=catalog_section(values, folder, findings, run_folder=has_run_folder(values)),
    )


def _dump_section(values: Properties, folder: Path, findings: Findings) -> PublishingSpec:
    """Return where dumped files go: their names alone say where below the final directory."""
    refuse_table_of_dumps(values, findings)
    refuse_catalog_of_dumps(values, findings)
    dir_mode = values["data.publisher.permissions"]
    return PublishingSpec(
        final_dir=path_of(values, "data.publisher.final.dir", folder, findings),
        dataset_path="",
        mode=PublishMode.APPEND,
        dir_mode=dir_mode if isinstance(dir_mode, int) else None,
        file_mode=dump_mode(values),
    )


def _checked_mode(values: Properties, findings: Findings) -> PublishMode:
    mode = publish_mode(values)
    replaces = values.boolean("data.publisher.replace.final.dir")
    if replaces and values["ms.publish.mode"] is None and mode is PublishMode.APPEND:
        findings.notice(
            "data.publisher.replace.final.dir",
            "has no effect, because each run has a folder of its own",
            "Set writer.file.path.type=namespace_table, or ms.publish.mode.",
        )
    if replaces and values["ms.publish.mode"] is not None and mode is not PublishMode.REPLACE:
        findings.problem(
            "ms.publish.mode", "contradicts data.publisher.replace.final.dir=true", "Keep one."
        )
    is_known = findings.is_sound(PATH_TYPE, "writer.file.path")
    if mode in _REPLACING and is_known and has_run_folder(values):
        findings.problem(
            "ms.publish.mode",
            "cannot replace files while each run has a folder of its own",
            "Set writer.file.path.type=namespace_table or tablename.",
        )
    return mode


def _dataset_path(values: Properties, findings: Findings) -> str:
    """Return the dataset's folder below the final directory, without the run's folder."""
    if not values.boolean("data.publisher.appendExtractToFinalDir"):
        return ""
    writing, dataset = values.section(WritingSection), values.section(DatasetSection)
    if writing.path:
        return _relative(writing.path, findings)
    if writing.path_type is PathType.TABLENAME:
        return dataset.table
    return str(PurePosixPath(dataset.namespace.replace(".", "/"), dataset.table))


def _relative(text: str, findings: Findings) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts:
        findings.problem(
            "writer.file.path",
            f'is "{text}"',
            "Write a path below data.publisher.final.dir, without .. in it.",
        )
    elif any(part.startswith(("_", ".")) for part in path.parts):
        findings.problem(
            "writer.file.path",
            f'is "{text}"',
            "Folders that begin with _ or . hold no published data.",
        )
    return str(path)


def check_layout(values: Properties, findings: Findings) -> None:
    """Refuse folders by timelabel where there can be none."""
    if values[_LAYOUT] != Layout.TIMELABEL or is_file_dump(values):
        return
    if not values.section(TimelabelsSection).is_set:
        findings.problem(
            _LAYOUT, 'is "timelabel", and the job has no timelabels', f"Set {SCHEDULE} too."
        )
    if not is_of_files(values):
        key = URL if values.section(WarehouseSection).url else FORMAT
        findings.problem(
            _LAYOUT,
            f'is "timelabel", which is a layout of plain files, and {key} is set',
            f"Leave one of them out. {FIELDS} keeps the rows of a table apart.",
        )
    elif has_run_folder(values):
        findings.problem(
            _LAYOUT,
            'is "timelabel", and each run has a folder of its own',
            "Set writer.file.path.type=namespace_table or tablename.",
        )
    for name in values.section(TablesSection).partition_fields:
        if name in _LABEL_FOLDERS:
            findings.problem(
                FIELDS,
                f"names {quote(name)}, which is a folder of {_LAYOUT}=timelabel, too",
                "Rename the column with ms.schema.cleansing.",
            )
