"""Publishing: its properties, and the part of a job that says where and how files become visible.

See rules U2 and U14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias

from dil.config.destinations import (
    DESTINATION,
    FIELDS,
    FORMAT,
    OPERATION,
    URL,
    TablesSection,
    WarehouseSection,
    is_of_files,
    is_timeseries,
    other_place,
    table_spec,
    warehouse_section,
)
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.identity import NAMESPACE, TABLE, TYPE, DatasetSection
from dil.config.merging import OP as OP_FIELD
from dil.config.merging import MergingSection, merge_spec
from dil.config.preprocessing import dump_mode
from dil.config.read_context import path_of
from dil.config.timelabels import require_labels
from dil.config.watermarks import PlanningSection
from dil.config.writing import PATH, PATH_TYPE, WritingSection, group_problem
from dil.model.destination import Layout, Operation, TableFormat
from dil.model.job import PathType, PublishingSpec, PublishMode, TableType
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Bool, ModeBits, PathText, Section, Text, no_effect, prop
from dil.sections.extraction import ExtractionSection
from dil.sections.file_systems import FileSystemsSection
from dil.sections.query import QuerySection
from dil.spi.registry import simple_name
from dil.storage.locations import is_local
from dil.types.schema_lines import OP

FINAL_DIR, AT_JOB_LEVEL = "data.publisher.final.dir", "publish.data.at.job.level"
REPLACES = "data.publisher.replace.final.dir"
MODE, _LAYOUT = "ms.publish.mode", "ms.publish.layout"
CHANGELOG = "ms.publish.changelog"
FILE_EACH, _GROUP = "ms.output.file.per.work.unit", "data.publisher.final.dir.group"
_LABEL_FOLDERS = frozenset("ymdhn")
_REPLACING = (PublishMode.REPLACE, PublishMode.WINDOW_REPLACE, PublishMode.MERGE)
# An operation stands for the first of its publish modes, unless the job sets the mode, too.
_MODES = {
    Operation.REPLACE: (PublishMode.REPLACE,),
    Operation.INSERT: (PublishMode.APPEND, PublishMode.WINDOW_REPLACE),
    Operation.UPSERT: (PublishMode.MERGE,),
}
_SHARING_NOT = {
    PublishMode.WINDOW_REPLACE: "replaces the files of each work unit separately",
    PublishMode.MERGE: "rewrites the files whose rows it replaces",
}
# Where rows go, other than to files and tables of files, if one of these properties is set.
_ELSEWHERE = {URL: "into a database", DESTINATION: "to a destination of the job's own"}
# A URL ends at these characters or decodes them, and the libraries of tables name files by URLs.
_NO_URL = frozenset("#?%")
_WITH_GROUPS = ("hdfs:", "webhdfs:", "swebhdfs:")
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
        MODE,
        "append adds rows; with replace the run's rows replace all earlier rows; with "
        "window_replace a work unit's rows replace the earlier rows of that work unit; with merge "
        "a row replaces the earlier row with the same primary key. Unset: for files append, or "
        "replace with `data.publisher.replace.final.dir`; for tables and warehouses "
        "`extract.table.type` and the keys choose replace, append or merge.",
        default=None,
    )
    layout: Annotated[Layout, ONE_OF] = prop(
        _LAYOUT,
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
        _GROUP,
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
    return is_replace and _mode_of_others(values, entries) is not PublishMode.REPLACE


def _mode_of_others(values: Properties, entries: Mapping[str, Entry]) -> PublishMode | None:
    """Return the publish mode of the job's runs without ``-D``; None if the job file is wrong."""
    names = (MODE, OPERATION, REPLACES, TYPE)
    flags = {name for name in names if name in entries and entries[name].origin.is_of_one_run}
    if not flags:
        return publish_mode(values)
    if named := _in_job_file(entries.get(MODE)):
        return next((mode for mode in PublishMode if mode == named), None)
    named = _in_job_file(entries.get(OPERATION))
    if named and values.section(WarehouseSection).url is not None:
        return next((modes[0] for operation, modes in _MODES.items() if operation == named), None)
    others = values.having(MODE, None)
    if REPLACES in flags:
        others = others.having(REPLACES, _in_job_file(entries[REPLACES]) == "true")
    kinds = {kind.value.lower(): kind for kind in TableType}
    if TYPE in flags and (kind := kinds.get(_in_job_file(entries[TYPE]))):
        others = others.having(TYPE, kind)
    return _implied_mode(others, None)


def merges_anew(values: Properties, entries: Mapping[str, Entry]) -> bool:
    """Return whether a run replaces a dataset into which the job's other runs merge.

    A source or a query may give several versions of a row, and versions that mark it as deleted.
    The run then publishes the rows that a merge into an empty dataset keeps. A destination class
    defines itself how it replaces.
    """
    if not replaces_once(values, entries) or other_place(values) == DESTINATION:
        return False
    return _mode_of_others(values, entries) is PublishMode.MERGE


def _in_job_file(entry: Entry | None) -> str:
    """Return the text of a property in the job's files, empty if only ``-D`` sets it."""
    if entry is None:
        return ""
    return (entry.overruled if entry.origin.is_of_one_run else entry.text).strip().lower()


def publishing_spec(
    values: Properties, entries: Mapping[str, Entry], folder: Path, findings: Findings
) -> PublishingSpec:
    """Return the publishing part of a job; problems become findings."""
    section, writing = values.section(PublishingSection), values.section(WritingSection)
    systems = values.section(FileSystemsSection)
    written = systems.written if "writer.fs.uri" in values.explicit else systems.every
    system = systems.published or written
    place = path_of(section.final_dir, FINAL_DIR, folder, findings, system=system)
    if values.section(ExtractionSection).is_file_dump:
        # The names of dumped files are paths below the final directory.
        return PublishingSpec(
            final_dir=place,
            dataset_path="",
            mode=PublishMode.APPEND,
            usually_appends=True,
            dir_mode=section.dir_mode,
            file_mode=dump_mode(values),
            group=_group(section.group, place, values, findings),
        )
    for key, name in (
        ("data.publisher.type", section.publisher),
        ("data.publisher.job.type", section.job_publisher),
        ("data.publisher.task.type", section.task_publisher),
    ):
        if name and simple_name(name) == "NoopPublisher":
            what = "is NoopPublisher, and rows that are not published are lost"
            findings.problem(key, what, "Leave it out; it is for file dumps.")
    mode = _checked_mode(values, findings)
    _check_names(values, place, findings)
    if section.layout is Layout.TIMELABEL:
        _check_label_folders(values, findings)
    is_anew = merges_anew(values, entries)
    merge = merge_spec(values, PublishMode.MERGE if is_anew else mode, findings)
    if merge is not None and is_anew:
        merge = replace(merge, deletes_missing=False)  # the run replaces all earlier rows
    return PublishingSpec(
        final_dir=place,
        dataset_path=_dataset_path(values, findings),
        run_folder=has_run_folder(values),
        mode=mode,
        usually_appends=_mode_of_others(values, entries) is PublishMode.APPEND,
        extract_id_zone=values.section(DatasetSection).extract_id_zone,
        dir_mode=section.dir_mode if writing.dir_mode is None else writing.dir_mode,
        file_mode=writing.file_mode,
        group=_group(section.group, place, values, findings),
        layout=section.layout,
        merge=merge,
        table=table_spec(values, folder, place, findings),
        warehouse=warehouse_section(values, folder, findings, merges=merge is not None),
        shares_files=_shares_files(values, mode, findings),
        keeps_changelog=_keeps_changelog(values, mode, findings),
        replaces_once=replaces_once(values, entries),
    )


def _keeps_changelog(values: Properties, mode: PublishMode, findings: Findings) -> bool:
    """Return whether a merge records changed rows; report a problem if it cannot."""
    section, key = values.section(PublishingSection), other_place(values)
    if not section.keeps_changelog:
        return False
    if mode is not PublishMode.MERGE and values.is_overruled(CHANGELOG, MODE):
        what = f"has no effect in this run, which publishes by {MODE}={mode}"
        findings.hint(CHANGELOG, what, "The next merge begins the changelog anew.")
        return False
    if mode is not PublishMode.MERGE:
        what = f"{MODE} is {mode}: only a merge changes rows one by one"
        fix = f"Set {MODE}=merge, or"
    elif key in _ELSEWHERE:
        what = f"rows go {_ELSEWHERE[key]}, which merges them itself: {key} is set"
        fix = "Publish files or a table of files, or set"
    elif not section.adds_dataset_path:
        what = "the dataset has no folder of its own beside which changed rows could go"
        fix = "Leave data.publisher.appendExtractToFinalDir out, or set"
    elif values.section(MergingSection).op_field == OP:
        what = f"the column of {OP_FIELD} is named {OP}, as the one that it adds"
        fix = "Give the column another name in the rows and there, or set"
    else:
        return True
    findings.problem(CHANGELOG, f"is true, and {what}", f"{fix} {CHANGELOG}=false.")
    return True


def _shares_files(values: Properties, mode: PublishMode, findings: Findings) -> bool:
    """Return whether small work units of a run share files; report a problem if they cannot."""
    if values.section(PublishingSection).file_per_unit:
        return False
    key, fix = other_place(values), "Leave it out."
    if key in _ELSEWHERE:
        what = f"the rows go {_ELSEWHERE[key]}: {key} is set"
    elif mode in _SHARING_NOT:
        what = f"{MODE} is {mode}, which {_SHARING_NOT[mode]}"
        fix = "Leave it out. `dil compact` combines small files later."
    elif values.section(PlanningSection).is_backfill:
        what = (
            "ms.backfill is true: a backfill has files of its own, so that its rows can be removed "
            "again"
        )
        fix = f"Run with -D {FILE_EACH}=true."
    else:
        return True
    findings.problem(FILE_EACH, f"is false, and {what}", fix)
    return True


def _group(group: str, final_dir: str, values: Properties, findings: Findings) -> str:
    """Return the group of published folders and files; empty text if there is none."""
    if not group or not findings.is_sound(FINAL_DIR):
        return ""
    is_here = is_local(final_dir)
    if not is_of_files(values) or not (is_here or final_dir.startswith(_WITH_GROUPS)):
        what = "has no effect: only files on this machine and on HDFS have groups here"
        findings.notice(_GROUP, what, "Leave it out.")
        return ""
    if is_here and (found := group_problem(group)):
        findings.problem(_GROUP, *found)
    return group


def _checked_mode(values: Properties, findings: Findings) -> PublishMode:
    section, warehouse = values.section(PublishingSection), values.section(WarehouseSection)
    mode = publish_mode(values)
    if section.replaces and section.mode is None and mode is PublishMode.APPEND:
        findings.notice(
            REPLACES,
            "has no effect, because each run has a folder of its own",
            "Set writer.file.path.type=namespace_table, or ms.publish.mode.",
        )
    if section.replaces and section.mode not in (None, PublishMode.REPLACE):
        findings.problem(MODE, f"contradicts {REPLACES}=true", "Keep one.")
    if section.mode is not None and warehouse.operation is not None and warehouse.url:
        allowed = _MODES[warehouse.operation]
        if section.mode not in allowed:
            findings.problem(
                OPERATION,
                f'is "{warehouse.operation}", which contradicts {MODE}={section.mode}',
                f"Leave one of them out; {warehouse.operation} is {' or '.join(allowed)}.",
            )
    is_known = findings.is_sound(PATH_TYPE, PATH)
    if mode in _REPLACING and is_known and has_run_folder(values):
        findings.problem(
            MODE,
            "cannot replace files while each run has a folder of its own",
            "Set writer.file.path.type=namespace_table or tablename.",
        )
    return mode


def _check_names(values: Properties, place: str, findings: Findings) -> None:
    """Refuse a place, or names of folders there, that the table's library cannot reach."""
    word = values.section(TablesSection).format
    if word is TableFormat.FILES:
        return
    if not is_local(place) and not place.startswith("s3://"):
        findings.problem(
            FORMAT,
            f'is "{word}", and its library reaches no table at {place}',
            "Leave it out to publish plain files, or use a local path or s3://bucket/folder.",
        )
        return
    dataset = values.section(DatasetSection)
    texts = {
        FINAL_DIR: place,
        NAMESPACE: dataset.namespace,
        TABLE: dataset.table,
        PATH: values.section(WritingSection).path,
    }
    for key, text in texts.items():
        found = sorted(_NO_URL.intersection(text))
        if found:
            findings.problem(
                key,
                f'has the character "{found[0]}" in it, and {word} tables name files by URLs',
                f"Use a name without {', '.join(sorted(_NO_URL))}.",
            )


def _dataset_path(values: Properties, findings: Findings) -> str:
    """Return the dataset's folder below the final directory, without the run's folder."""
    if not values.section(PublishingSection).adds_dataset_path:
        return ""
    writing, dataset = values.section(WritingSection), values.section(DatasetSection)
    if not writing.path:
        parents = dataset.namespace.replace(".", "/")
        is_short = writing.path_type is PathType.TABLENAME
        return dataset.table if is_short else str(PurePosixPath(parents, dataset.table))
    path = PurePosixPath(writing.path)
    if path.is_absolute() or ".." in path.parts:
        fix = "Write a path below data.publisher.final.dir, without .. in it."
        findings.problem(PATH, f'is "{writing.path}"', fix)
    elif any(part.startswith(("_", ".")) for part in path.parts):
        fix = "Folders that begin with _ or . hold no published data."
        findings.problem(PATH, f'is "{writing.path}"', fix)
    return str(path)


def _check_label_folders(values: Properties, findings: Findings) -> None:
    """Refuse folders by timelabel if the job cannot have them."""
    require_labels(_LAYOUT, 'is "timelabel"', values, findings)
    if key := other_place(values):
        findings.problem(
            _LAYOUT,
            f'is "timelabel", which is a layout of plain files, and {key} is set',
            f"Leave one of them out. {FIELDS} separates the rows of a table.",
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
                f"names {quote(name)}, and {_LAYOUT}=timelabel has folders of that name, too",
                "Rename the column with ms.schema.cleansing.",
            )
