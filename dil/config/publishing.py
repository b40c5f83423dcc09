"""Publishing: its properties, and the publish mode that they choose together.

See rules U2 and U14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from dil.config.destinations import (
    DESTINATION,
    OPERATION,
    WarehouseSection,
    is_of_files,
    is_timeseries,
    other_place,
)
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.identity import TABLE_TYPE, DatasetSection
from dil.config.writing import PATH, PATH_TYPE, WritingSection
from dil.model.destination import Layout, Operation
from dil.model.job import PathType, PublishMode, TableType
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Bool, ModeBits, PathText, Section, Text, no_effect, prop
from dil.sections.extraction import ExtractionSection
from dil.sections.query import QuerySection

FINAL_DIR, AT_JOB_LEVEL = "data.publisher.final.dir", "publish.data.at.job.level"
REPLACES = "data.publisher.replace.final.dir"
PUBLISH_MODE, LAYOUT = "ms.publish.mode", "ms.publish.layout"
CHANGELOG = "ms.publish.changelog"
FILE_EACH, GROUP = "ms.output.file.per.work.unit", "data.publisher.final.dir.group"
_REPLACING = (PublishMode.REPLACE, PublishMode.WINDOW_REPLACE, PublishMode.MERGE)
# An operation stands for the first of its publish modes, unless the job sets the mode, too.
_MODES = {
    Operation.REPLACE: (PublishMode.REPLACE,),
    Operation.INSERT: (PublishMode.APPEND, PublishMode.WINDOW_REPLACE),
    Operation.UPSERT: (PublishMode.MERGE,),
}
_Publisher: TypeAlias = Literal[
    "org.apache.gobblin.publisher.BaseDataPublisher",
    "BaseDataPublisher",
    "org.apache.gobblin.publisher.NoopPublisher",
    "NoopPublisher",
]


@dataclass(frozen=True, slots=True)
class PublishingSection(Section):
    """The place where files become visible, and the treatment of earlier files."""

    final_dir: PathText = prop(
        FINAL_DIR,
        "Folder below which all datasets are published: a path (a relative one starts at the job "
        "file's folder), or one of `s3://bucket/folder`, `gs://bucket/folder`, "
        "`abfss://container@account.dfs.core.windows.net/folder`, `webhdfs://host:9870/folder`.",
        default="",
        required=True,
        example="/data/lake",
    )
    mode: Annotated[PublishMode, ONE_OF] | None = prop(
        PUBLISH_MODE,
        "append adds rows; with replace the run's rows replace all earlier rows; with "
        "window_replace a work unit's rows replace the earlier rows of that work unit; with merge "
        "a row replaces the earlier row with the same primary key. Unset: for files append, or "
        "replace with `data.publisher.replace.final.dir`; for tables and warehouses "
        "`extract.table.type` and the keys choose replace, append or merge.",
        default=None,
    )
    layout: Annotated[Layout, ONE_OF] = prop(
        LAYOUT,
        "timelabel puts files into folders y=/m=/d=/h=/n= of their timelabel.",
        default=Layout.DEFAULT,
    )
    keeps_changelog: Bool = prop(
        CHANGELOG,
        "Whether a merge records the rows that it changes, in the folder `<dataset>_changelog` "
        "beside the dataset; the column `op` has the kind of change. For `ms.publish.mode=merge`, "
        "of files and tables.",
        default=False,
        identity=False,
    )
    file_per_unit: Bool = prop(
        FILE_EACH,
        "If false, a run combines the small files of its work units into files of up to "
        "`ms.writer.target.bytes`. For the publish modes append and replace, of files and tables.",
        default=True,
        identity=False,
    )
    replaces: Bool = prop(
        REPLACES,
        "Whether each run replaces the dataset's folder; has no effect if each run has its own "
        "folder.",
        default=False,
    )
    adds_dataset_path: Bool = prop(
        "data.publisher.appendExtractToFinalDir",
        "If false, the relative output folder is not added to the final directory.",
        default=True,
    )
    dir_mode: ModeBits | None = prop(
        "data.publisher.permissions",
        "Permission of folders that publishing makes; unset leaves it to the file system.",
        default=None,
    )
    publisher: Annotated[_Publisher, ONE_OF] = no_effect(
        "data.publisher.type",
        "Gobblin's publisher; NoopPublisher for file dumps only.",
        default="org.apache.gobblin.publisher.BaseDataPublisher",
    )
    job_publisher: Annotated[_Publisher, ONE_OF] | None = no_effect(
        "data.publisher.job.type",
        "Gobblin's publisher at the end of a run; NoopPublisher for file dumps only.",
        default=None,
    )
    task_publisher: Annotated[_Publisher, ONE_OF] | None = no_effect(
        "data.publisher.task.type",
        "Gobblin's publisher at the end of a task; NoopPublisher for file dumps only. Rows are "
        "published at the end of a run, see `publish.data.at.job.level`.",
        default=None,
    )
    group: Text = prop(
        GROUP,
        "Group of the dataset's folders and files, on this machine and on HDFS; wins over "
        "`writer.file.group`. The user who runs the job has to be in the group.",
        default="",
    )
    is_at_job_level: Bool = prop(
        AT_JOB_LEVEL,
        "If false, a run publishes the work units that succeeded even if others failed, as with "
        "`job.commit.policy=successful`. If true, `job.commit.policy` decides.",
        default=True,
    )


def publish_mode(values: Properties) -> PublishMode:
    """Return the publish mode; if it is unset, ``data.publisher.replace.final.dir`` decides.

    If each run has a folder of its own, there is nothing to replace. A dumped file replaces only
    the file of the same name. For tables and warehouses the table's type and its keys decide (rule
    U14). The rows that a run reads for a timelabel always replace the earlier rows of that
    timelabel. A query appends its rows to any destination; with ``ms.query.mode=full`` it replaces
    all rows.
    """
    if values.section(ExtractionSection).is_file_dump:
        return PublishMode.APPEND
    operation = values.section(WarehouseSection).operation
    return values.section(PublishingSection).mode or _implied_mode(values, operation)


def _implied_mode(values: Properties, operation: Operation | None) -> PublishMode:
    """Return the publish mode if ``ms.publish.mode`` is not set.

    ``operation`` is the value of ``ms.warehouse.operation``, None if it is not set.
    """
    section = values.section(PublishingSection)
    if is_timeseries(values):
        return PublishMode.WINDOW_REPLACE
    if operation is not None and values.section(WarehouseSection).url is not None:
        return _MODES[operation][0]
    if section.replaces and not has_run_folder(values):
        return PublishMode.REPLACE
    return _usual_mode(values)


def _usual_mode(values: Properties) -> PublishMode:
    query, dataset = values.section(QuerySection), values.section(DatasetSection)
    if query.inputs:
        return PublishMode.REPLACE if query.mode == "full" else PublishMode.APPEND
    if is_of_files(values):
        return PublishMode.APPEND
    if dataset.table_type is TableType.SNAPSHOT_ONLY:
        return PublishMode.REPLACE
    if dataset.table_type is TableType.SNAPSHOT_APPEND and dataset.primary_keys:
        return PublishMode.MERGE
    return PublishMode.APPEND


def has_run_folder(values: Properties) -> bool:
    """Return whether each run publishes into a folder of its own.

    A mode that replaces, and folders by timelabel, need one folder for all runs. The job then has
    one folder, unless it sets the path type itself.
    """
    section, writing = values.section(PublishingSection), values.section(WritingSection)
    if values.section(ExtractionSection).is_file_dump or not is_of_files(values):
        return False
    is_shared = section.layout is Layout.TIMELABEL or section.mode in _REPLACING
    if is_shared and PATH_TYPE not in values.explicit:
        return False
    return section.adds_dataset_path and not writing.path and writing.path_type is PathType.DEFAULT


def replaces_once(values: Properties, entries: Mapping[str, Entry]) -> bool:
    """Return whether ``-D`` lets this run replace a dataset that the job's other runs do not."""
    is_replace = publish_mode(values) is PublishMode.REPLACE
    return is_replace and mode_of_others(values, entries) is not PublishMode.REPLACE


def mode_of_others(values: Properties, entries: Mapping[str, Entry]) -> PublishMode | None:
    """Return the publish mode of the job's runs without ``-D``; None if the job file is wrong."""
    names = (PUBLISH_MODE, OPERATION, REPLACES, TABLE_TYPE)
    flags = {name for name in names if name in entries and entries[name].origin.is_of_one_run}
    if not flags:
        return publish_mode(values)
    if named := _in_job_file(entries.get(PUBLISH_MODE)):
        return next((mode for mode in PublishMode if mode == named), None)
    named = _in_job_file(entries.get(OPERATION))
    if named and values.section(WarehouseSection).url is not None:
        return next((modes[0] for operation, modes in _MODES.items() if operation == named), None)
    others = values.having(PUBLISH_MODE, None)
    if REPLACES in flags:
        others = others.having(REPLACES, _in_job_file(entries[REPLACES]) == "true")
    kinds = {kind.value.lower(): kind for kind in TableType}
    if TABLE_TYPE in flags and (kind := kinds.get(_in_job_file(entries[TABLE_TYPE]))):
        others = others.having(TABLE_TYPE, kind)
    return _implied_mode(others, None)


def merges_anew(values: Properties, entries: Mapping[str, Entry]) -> bool:
    """Return whether a run replaces a dataset into which the job's other runs merge.

    A source or a query may give several versions of a row, and versions that mark it as deleted.
    The run then publishes the rows that a merge into an empty dataset keeps. A destination class
    defines itself how it replaces.
    """
    if not replaces_once(values, entries) or other_place(values) == DESTINATION:
        return False
    return mode_of_others(values, entries) is PublishMode.MERGE


def _in_job_file(entry: Entry | None) -> str:
    """Return the text of a property in the job's files, empty if only ``-D`` sets it."""
    if entry is None:
        return ""
    return (entry.overruled if entry.origin.is_of_one_run else entry.text).strip().lower()


def check_mode(values: Properties, findings: Findings) -> None:
    """Check the publish mode against the other properties that choose it."""
    section, warehouse = values.section(PublishingSection), values.section(WarehouseSection)
    mode = publish_mode(values)
    if section.replaces and section.mode is None and mode is PublishMode.APPEND:
        findings.notice(
            REPLACES,
            "has no effect, because each run has a folder of its own",
            "Set writer.file.path.type=namespace_table, or ms.publish.mode.",
        )
    if section.replaces and section.mode not in (None, PublishMode.REPLACE):
        findings.problem(PUBLISH_MODE, f"contradicts {REPLACES}=true", "Keep one.")
    if section.mode is not None and warehouse.operation is not None and warehouse.url:
        allowed = _MODES[warehouse.operation]
        if section.mode not in allowed:
            findings.problem(
                OPERATION,
                f'is "{warehouse.operation}", which contradicts {PUBLISH_MODE}={section.mode}',
                f"Leave one of them out; {warehouse.operation} is {' or '.join(allowed)}.",
            )
    is_known = findings.is_sound(PATH_TYPE, PATH)
    if mode in _REPLACING and is_known and has_run_folder(values):
        findings.problem(
            PUBLISH_MODE,
            "cannot replace files while each run has a folder of its own",
            "Set writer.file.path.type=namespace_table or tablename.",
        )
