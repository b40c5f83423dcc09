"""The publishing part of a job: where and how rows and files become visible.

See rules U2 and U14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from dil.config.catalog import catalog_spec
from dil.config.destinations import (
    DESTINATION,
    FIELDS,
    TABLE_FORMAT,
    URL,
    TablesSection,
    is_of_files,
    other_place,
    table_spec,
    warehouse_section,
)
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.identity import NAMESPACE, TABLE_NAME, DatasetSection
from dil.config.merging import OP_FIELD, MergingSection, merge_spec
from dil.config.output_classes import destination_spec
from dil.config.preprocessing import dump_mode
from dil.config.publishing import (
    CHANGELOG,
    FILE_EACH,
    FINAL_DIR,
    GROUP,
    LAYOUT,
    PUBLISH_MODE,
    PublishingSection,
    check_mode,
    has_run_folder,
    merges_anew,
    mode_of_others,
    publish_mode,
    replaces_once,
)
from dil.config.read_context import path_of
from dil.config.timelabels import require_labels
from dil.config.timeseries import with_labels
from dil.config.watermarks import PlanningSection
from dil.config.writing import PATH, WritingSection, group_problem
from dil.model.destination import Layout, TableFormat
from dil.model.job import PathType, Plugins, PublishingSpec, PublishMode
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.timelabels import TimelabelSpec
from dil.sections.extraction import ExtractionSection
from dil.sections.file_systems import FileSystemsSection
from dil.spi.registry import simple_name
from dil.storage.locations import is_local
from dil.types.schema_lines import OP

_LABEL_FOLDERS = frozenset("ymdhn")
_SHARING_NOT = {
    PublishMode.WINDOW_REPLACE: "replaces the files of each work unit separately",
    PublishMode.MERGE: "rewrites the files whose rows it replaces",
}
# Where rows go, other than to files and tables of files, if one of these properties is set.
_ELSEWHERE = {URL: "into a database", DESTINATION: "to a destination of the job's own"}
# A URL ends at these characters or decodes them, and the libraries of tables name files by URLs.
_NO_URL = frozenset("#?%")
_WITH_GROUPS = ("hdfs:", "webhdfs:", "swebhdfs:")


def publishing_spec(
    values: Properties,
    entries: Mapping[str, Entry],
    folder: Path,
    plugins: Plugins,
    labels: TimelabelSpec | None,
    findings: Findings,
) -> PublishingSpec:
    """Return the publishing part of a job; problems become findings.

    Relative paths start at ``folder``. ``labels`` are the timelabels that planning gives to rows.
    """
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
            # Dumped files go to no table, which a notice says of each setting of one.
            warehouse=with_labels(None, labels, values, findings),
        )
    for key, name in (
        ("data.publisher.type", section.publisher),
        ("data.publisher.job.type", section.job_publisher),
        ("data.publisher.task.type", section.task_publisher),
    ):
        if name and simple_name(name) == "NoopPublisher":
            what = "is NoopPublisher, and rows that are not published are lost"
            findings.problem(key, what, "Leave it out; it is for file dumps.")
    mode = publish_mode(values)
    check_mode(values, findings)
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
        usually_appends=mode_of_others(values, entries) is PublishMode.APPEND,
        extract_id_zone=values.section(DatasetSection).extract_id_zone,
        dir_mode=section.dir_mode if writing.dir_mode is None else writing.dir_mode,
        file_mode=writing.file_mode,
        group=_group(section.group, place, values, findings),
        layout=section.layout,
        merge=merge,
        table=table_spec(values, folder, place, findings),
        warehouse=with_labels(
            warehouse_section(values, folder, findings, merges=merge is not None),
            labels,
            values,
            findings,
        ),
        destination=destination_spec(plugins, merge, values, findings),
        catalog=catalog_spec(values, folder, findings),
        shares_files=_shares_files(values, mode, findings),
        keeps_changelog=_keeps_changelog(values, mode, findings),
        replaces_once=replaces_once(values, entries),
    )


def _keeps_changelog(values: Properties, mode: PublishMode, findings: Findings) -> bool:
    """Return whether a merge records changed rows; report a problem if it cannot."""
    section, key = values.section(PublishingSection), other_place(values)
    if not section.keeps_changelog:
        return False
    if mode is not PublishMode.MERGE and values.is_overruled(CHANGELOG, PUBLISH_MODE):
        what = f"has no effect in this run, which publishes by {PUBLISH_MODE}={mode}"
        findings.hint(CHANGELOG, what, "The next merge begins the changelog anew.")
        return False
    if mode is not PublishMode.MERGE:
        what = f"{PUBLISH_MODE} is {mode}: only a merge changes rows one by one"
        fix = f"Set {PUBLISH_MODE}=merge, or"
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
        what = f"{PUBLISH_MODE} is {mode}, which {_SHARING_NOT[mode]}"
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
        findings.notice(GROUP, what, "Leave it out.")
        return ""
    if is_here and (found := group_problem(group)):
        findings.problem(GROUP, *found)
    return group


def _check_names(values: Properties, place: str, findings: Findings) -> None:
    """Refuse a place, or names of folders there, that the table's library cannot reach."""
    word = values.section(TablesSection).format
    if word is TableFormat.FILES:
        return
    if not is_local(place) and not place.startswith("s3://"):
        findings.problem(
            TABLE_FORMAT,
            f'is "{word}", and its library reaches no table at {place}',
            "Leave it out to publish plain files, or use a local path or s3://bucket/folder.",
        )
        return
    dataset = values.section(DatasetSection)
    texts = {
        FINAL_DIR: place,
        NAMESPACE: dataset.namespace,
        TABLE_NAME: dataset.table,
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
    require_labels(LAYOUT, 'is "timelabel"', values, findings)
    if key := other_place(values):
        findings.problem(
            LAYOUT,
            f'is "timelabel", which is a layout of plain files, and {key} is set',
            f"Leave one of them out. {FIELDS} separates the rows of a table.",
        )
    elif has_run_folder(values):
        findings.problem(
            LAYOUT,
            'is "timelabel", and each run has a folder of its own',
            "Set writer.file.path.type=namespace_table or tablename.",
        )
    for name in values.section(TablesSection).partition_fields:
        if name in _LABEL_FOLDERS:
            findings.problem(
                FIELDS,
                f"names {quote(name)}, and {LAYOUT}=timelabel has folders of that name, too",
                "Rename the column with ms.schema.cleansing.",
            )
