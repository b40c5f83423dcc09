"""Checks of what is written beside the rows, and of how rows are kept apart."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dil.config.egress import progress_key
from dil.config.findings import Findings
from dil.config.preprocessing import is_file_dump
from dil.config.publishing_section import has_run_folder
from dil.config.tables import FORMAT, TablesSection, is_of_files
from dil.config.warehouse import URL, WarehouseSection
from dil.model.destination import Layout
from dil.model.properties import Properties
from dil.model.schema import Column, EnumType, Primitive
from dil.model.suggestions import known_words, quote
from dil.storage.locations import is_local

FILE_NAME = "writer.file.name"
BLOCK_SIZE = "writer.file.block.size"
SYSTEM = "ms.output.system.columns"
FIELDS = "ms.table.partition.fields"
LAYOUT = "ms.publish.layout"
# Not imported: reading schedules costs every start, and few jobs have one.
SCHEDULE, COLUMN = "ms.timelabel.schedule", "ms.timelabel.column"
_SCHEDULES = (SCHEDULE, "ms.timelabel.every", "ms.timelabel.unit")
_OWNER, _GROUP = "writer.file.owner", "writer.file.group"
_KNOWN = ("_dil_run_id", "_dil_signature", "_dil_extracted_at", "_timelabel")
_CHECKSUM_BYTES = 512
_LABEL_FOLDERS = frozenset("ymdhn")
_NAMING = {"string", "int", "long", "decimal", "boolean", "date"}


def check_output(values: Properties, findings: Findings) -> None:
    """Say what cannot be written as it is chosen."""
    _check_system_columns(values, findings)
    _check_fields(values, findings)
    _check_layout(values, findings)
    _check_labels(values, findings)
    _check_ownership(values, findings)
    _check_file_name(values, findings)
    _check_blocks(values, findings)
    if is_file_dump(values):
        for key in (SYSTEM, FIELDS, COLUMN):
            if values[key]:
                findings.problem(
                    key,
                    "is about rows, and files are dumped as they are",
                    "Leave it out, or read the files with another ms.extractor.class.",
                )


def _check_file_name(values: Properties, findings: Findings) -> None:
    name = values.text(FILE_NAME)
    if name.startswith(("_", ".")) or "/" in name:
        findings.problem(
            FILE_NAME,
            f"is {quote(name)}",
            "Write a name without /, that begins with neither _ nor .: such files are no data.",
        )


def _check_blocks(values: Properties, findings: Findings) -> None:
    """Refuse what no name node takes: a block consists of whole checksums."""
    size = values.optional_integer(BLOCK_SIZE)
    if size is not None and size % _CHECKSUM_BYTES:
        findings.problem(
            BLOCK_SIZE,
            f"is {size}, and HDFS cuts files into blocks of a multiple of {_CHECKSUM_BYTES} bytes",
            "Write such a number, for example 134217728.",
        )


def _check_system_columns(values: Properties, findings: Findings) -> None:
    names: tuple[str, ...] = values.typed(SYSTEM, tuple)
    for name in names:
        if name not in _KNOWN:
            findings.problem(SYSTEM, f"names {quote(name)}", known_words(name, _KNOWN))
    _check_doubles(SYSTEM, names, findings)
    if "_timelabel" in names and not _has_schedule(values):
        findings.problem(
            SYSTEM, 'names "_timelabel", and the job has no timelabels', f"Set {SCHEDULE} too."
        )
    taken = {name.lower() for name in _columns(values)}
    for name in dict.fromkeys(names):
        if name in taken:
            findings.problem(
                SYSTEM,
                f"names {quote(name)}, and the rows have a column of that name",
                "Leave it out, or rename the other column.",
            )


def _check_fields(values: Properties, findings: Findings) -> None:
    names = values.section(TablesSection).partition_fields
    if not names:
        return
    _check_doubles(FIELDS, names, findings)
    for name in names:
        if name.startswith(("_", ".")):
            findings.problem(
                FIELDS,
                f"names {quote(name)}: folders that begin with _ or . hold no published data",
                "Rename the column with ms.schema.cleansing, or name another one.",
            )
    if values.section(WarehouseSection).url:
        findings.problem(
            FIELDS, "makes folders, and rows are loaded into a database", "Leave it out."
        )
    columns = _columns(values)
    for name in names:
        column = columns.get(name)
        if column is not None and not _can_name_folders(column):
            findings.problem(
                FIELDS,
                f"names {quote(name)}, whose values cannot name folders",
                "Name columns of text, whole numbers, decimals, booleans or dates.",
            )
    key = progress_key(values)
    if key:
        findings.problem(
            FIELDS,
            f"keeps rows apart, and {key} keeps progress between pages: the two do not go together",
            f"Leave one of them out. Shorter partitions keep progress, too, without {key}.",
        )


def _check_layout(values: Properties, findings: Findings) -> None:
    if values[LAYOUT] != Layout.TIMELABEL or is_file_dump(values):
        return
    if not _has_schedule(values):
        findings.problem(
            LAYOUT, 'is "timelabel", and the job has no timelabels', f"Set {SCHEDULE} too."
        )
    if not is_of_files(values):
        key = URL if values.section(WarehouseSection).url else FORMAT
        findings.problem(
            LAYOUT,
            f'is "timelabel", which is a layout of plain files, and {key} is set',
            f"Leave one of them out. {FIELDS} keeps the rows of a table apart.",
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
                f"names {quote(name)}, which is a folder of {LAYOUT}=timelabel, too",
                "Rename the column with ms.schema.cleansing.",
            )


def _check_labels(values: Properties, findings: Findings) -> None:
    key = progress_key(values)
    if values.text(COLUMN) and key:
        findings.problem(
            COLUMN,
            f"keeps rows apart, and {key} keeps progress between pages: the two do not go together",
            "Leave one of them out. Without the column each work unit has one label.",
        )


def _check_ownership(values: Properties, findings: Findings) -> None:
    owner, group = values.text(_OWNER), values.text(_GROUP)
    if not owner and not group:
        return
    if not is_local(values.text("data.publisher.final.dir").replace("file://", "", 1)):
        findings.problem(
            _OWNER if owner else _GROUP,
            f"is {quote(owner or group)}, and only files of this machine are given away",
            "Leave it out.",
        )
        return
    # Imported here: few jobs have either.
    from grp import getgrnam
    from pwd import getpwnam

    is_root = os.geteuid() == 0
    try:
        if owner and getpwnam(owner).pw_uid != os.geteuid() and not is_root:
            findings.problem(
                _OWNER,
                f"is {quote(owner)}, and only root may give files away",
                "Leave it out, or run as that user.",
            )
    except KeyError:
        findings.problem(_OWNER, f"is {quote(owner)}, who is no user here", "Name one that exists.")
    try:
        if group and getgrnam(group).gr_gid not in (*os.getgroups(), os.getegid()) and not is_root:
            findings.problem(
                _GROUP,
                f"is {quote(group)}, which the user who runs the job is not in",
                "Name a group of that user, or add the user to it.",
            )
    except KeyError:
        findings.problem(
            _GROUP, f"is {quote(group)}, which is no group here", "Name one that exists."
        )


def _check_doubles(key: str, names: Sequence[str], findings: Findings) -> None:
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            findings.problem(key, f"names {quote(name)} twice", "Name it once.")


def _has_schedule(values: Properties) -> bool:
    return any(values.text(key) for key in _SCHEDULES)


def _columns(values: Properties) -> dict[str, Column]:
    """Return the columns that the job declares, by name; none where it declares none."""
    declared: tuple[Column, ...] = values.typed("ms.output.schema", tuple)
    return {column.name: column for column in declared}


def _can_name_folders(column: Column) -> bool:
    match column.type:
        case Primitive(word=word):
            return word in _NAMING
        case EnumType():
            return True
        case _:
            return False
