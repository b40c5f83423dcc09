"""Files of rows: their properties, the writing part of a job, and its checks.

See rule U7.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from dil.config.destinations import TablesSection, check_doubles, is_of_files
from dil.config.findings import Findings
from dil.config.identity import DatasetSection
from dil.config.preprocessing import dump_name
from dil.config.timelabels import require_labels
from dil.model.destination import TableFormat
from dil.model.job import Blocks, OutputFormat, PathType, WriterSpec, WritingSpec
from dil.model.messages import known_words, quote
from dil.model.properties import Properties
from dil.model.section import (
    ONE_OF,
    Bool,
    Int,
    Long,
    ModeBits,
    Section,
    Text,
    Texts,
    ValueType,
    Written,
    no_effect,
    prop,
    refused,
)
from dil.sections.conversion import ConversionSection
from dil.sections.extraction import ExtractionSection
from dil.sections.schema import SchemaSection
from dil.storage.locations import is_local

FILE_FORMAT, PATH_TYPE = "writer.output.format", "writer.file.path.type"
_FILE_NAME, _BLOCK_SIZE = "writer.file.name", "writer.file.block.size"
SYSTEM, PATH = "ms.output.system.columns", "writer.file.path"
_OWNER, _GROUP = "writer.file.owner", "writer.file.group"
_KNOWN = ("_dil_run_id", "_dil_signature", "_dil_extracted_at", "_timelabel")
_CHECKSUM_BYTES = 512
_FormatWord = Annotated[
    Literal["AVRO", "PARQUET", "ORC", "JSON", "CSV", "OTHER"],
    Written(ValueType.ENUM, refused_words=("PROTOBUF", "TXT")),
]


@dataclass(frozen=True, slots=True)
class WritingSection(Section):
    """The format of files, and their extra columns, size, place and owner."""

    format_word: _FormatWord = prop(
        FILE_FORMAT,
        "Format of the files; no other property chooses it. OTHER means AVRO.",
        default="AVRO",
    )
    codec: Annotated[Literal["DEFLATE", "SNAPPY", "NOCOMPRESSION"], ONE_OF] | None = prop(
        "writer.codec.type",
        "Compression inside the files; unset leaves it to the format (Avro: DEFLATE).",
        default=None,
    )
    deflate_level: Annotated[Int, Ge(1), Le(9)] = prop(
        "writer.deflate.level",
        "Level of DEFLATE.",
        default=9,
    )
    target_bytes: Annotated[Long, Ge(1)] = prop(
        "ms.writer.target.bytes",
        "Size, in bytes as written, at which a file ends and the next one begins.",
        default=134_217_728,
    )
    row_group_rows: Annotated[Int, Ge(1)] = prop(
        "ms.writer.row.group.rows",
        "Least number of rows in a row group of Parquet files, except in the last one and in row "
        "groups that reach 64 MiB before.",
        default=65_536,
    )
    most_open_files: Annotated[Int, Ge(1), Le(1000)] = prop(
        "ms.writer.open.files.max",
        "Most files that a work unit writes at once if columns or timelabels separate its rows.",
        default=64,
        identity=False,
    )
    system_columns: Texts = prop(
        SYSTEM,
        "Columns that say where a row comes from, any of `_dil_run_id`, `_dil_signature`, "
        "`_dil_extracted_at` (the time when the attempt that read the row began) and `_timelabel`.",
        default=(),
    )
    record_count_in_names: Bool = prop(
        "writer.include.record.count.in.file.names",
        "Puts the number of rows before the file's extension.",
        default=False,
    )
    path: Text = prop(
        PATH,
        "Relative output folder; wins over `writer.file.path.type`.",
        default="",
    )
    path_type: Annotated[PathType, ONE_OF] = prop(
        PATH_TYPE,
        "Relative output folder. default: name space, table and a folder per run; "
        "namespace_table: name space and table; tablename: table.",
        default=PathType.DEFAULT,
        aliases=("writer.file.pathType",),
    )
    dir_mode: ModeBits | None = prop(
        "writer.dir.permissions",
        "Permission of folders made for the files; unset leaves it to the file system.",
        default=None,
    )
    file_mode: ModeBits | None = prop(
        "writer.file.permissions",
        "Permission of the files; unset leaves it to the file system.",
        default=None,
    )
    file_name: Text = prop(
        _FILE_NAME,
        "Beginning of file names, in place of `part`; run, work unit and number follow.",
        default="",
    )
    owner: Text = prop(
        _OWNER,
        "Owner of the files; needs the right to give files away. Local files only.",
        default="",
    )
    group: Text = prop(
        _GROUP,
        "Group of the files; the user who runs the job must be in it. Local files only.",
        default="",
    )
    copies: Annotated[Int, Ge(1)] | None = prop(
        "writer.file.replication.factor",
        "Number of copies that HDFS keeps of files of rows; unset leaves it to the cluster. No "
        "effect elsewhere.",
        default=None,
    )
    block_bytes: Annotated[Long, Ge(1)] | None = prop(
        _BLOCK_SIZE,
        "Size in bytes, a multiple of 512, of the blocks into which HDFS cuts files of rows; unset "
        "leaves it to the cluster. No effect elsewhere.",
        default=None,
    )
    writer_partitioner_class: Text = refused(
        "writer.partitioner.class",
        "Gobblin's Java class that spreads rows over folders, which does not run here. Use "
        "`ms.publish.layout=timelabel`, or `ms.table.partition.fields` of Delta and Iceberg "
        "tables.",
        identity=True,
    )
    writer_destination_type: Annotated[Literal["HDFS"], ONE_OF] = no_effect(
        "writer.destination.type", "Gobblin's kind of destination.", default="HDFS"
    )
    writer_builder_class: Text = no_effect(
        "writer.builder.class",
        "Gobblin's writer; `writer.output.format` decides here.",
        default="org.apache.gobblin.writer.AvroDataWriterBuilder",
    )
    writer_staging_dir: Text = no_effect(
        "writer.staging.dir", "Unfinished files are in a hidden folder of the final directory here."
    )
    writer_output_dir: Text = no_effect(
        "writer.output.dir", "Finished files are in a hidden folder of the final directory here."
    )
    task_data_root_dir: Text = no_effect(
        "task.data.root.dir", "Gobblin's root of the two folders above."
    )
    writer_buffer_size: Annotated[Int, Ge(1)] = no_effect(
        "writer.buffer.size", "Gobblin's stream buffer.", default=4_096
    )

    @property
    def format(self) -> OutputFormat:
        """Return the format of plain files; OTHER means Avro (rule U7)."""
        word = self.format_word.lower()
        return OutputFormat.AVRO if word == "other" else OutputFormat(word)


def writing_spec(values: Properties, own: WriterSpec | None) -> WritingSpec:
    """Return the writing part of a job; ``own`` is its own writer class.

    Files of tables, files for loading, and files that a class of the job's own converts are always
    Parquet.
    """
    section = values.section(WritingSection)
    dataset = values.section(DatasetSection)
    is_plain = own is None and is_of_files(values)
    return WritingSpec(
        format=section.format if is_plain else OutputFormat.PARQUET,
        codec=section.codec or "",
        deflate_level=section.deflate_level,
        record_count_in_names=section.record_count_in_names,
        target_bytes=section.target_bytes,
        row_group_rows=section.row_group_rows,
        epoch_seconds=values.section(ConversionSection).epoch_seconds,
        record_name=dataset.table,
        record_namespace=dataset.namespace,
        file_name=dump_name(values),
        file_prefix=section.file_name or "part",
        blocks=Blocks(section.copies, section.block_bytes),
        system_columns=section.system_columns,
        most_open_files=section.most_open_files,
        owner=section.owner,
        group=section.group,
        own=own,
    )


def check_writing(values: Properties, final_dir: str, findings: Findings) -> None:
    """Add findings for settings that cannot be written to ``final_dir``, a path or URI."""
    section, table = values.section(WritingSection), values.section(TablesSection).format
    if table is not TableFormat.FILES and not values.section(ExtractionSection).is_file_dump:
        if FILE_FORMAT in values.explicit and section.format is not OutputFormat.PARQUET:
            what = f"is {quote(section.format_word)}, and the files of a {table} table are Parquet"
            findings.problem(FILE_FORMAT, what, "Write PARQUET, or leave it out.")
        if PATH_TYPE in values.explicit and section.path_type is PathType.DEFAULT:
            what = f'is "{PathType.DEFAULT}", a folder for each run, and a {table} table has one'
            fix = "Write namespace_table or tablename, or leave it out."
            findings.problem(PATH_TYPE, f"{what} folder", fix)
    _check_system_columns(section.system_columns, values, findings)
    _check_ownership(section, final_dir, findings)
    name, size = section.file_name, section.block_bytes
    if name.startswith(("_", ".")) or "/" in name:
        fix = "Write a name without /, that begins with neither _ nor .: such files are no data."
        findings.problem(_FILE_NAME, f"is {quote(name)}", fix)
    if size is not None and size % _CHECKSUM_BYTES:
        # No name node takes another size: a block consists of whole checksums.
        what = f"is {size}, and HDFS cuts files into blocks of a multiple of {_CHECKSUM_BYTES}"
        fix = "Write such a number, for example 134217728."
        findings.problem(_BLOCK_SIZE, f"{what} bytes", fix)


def _check_system_columns(names: Sequence[str], values: Properties, findings: Findings) -> None:
    for name in names:
        if name not in _KNOWN:
            findings.problem(SYSTEM, f"names {quote(name)}", known_words(name, _KNOWN))
    check_doubles(SYSTEM, names, findings)
    if "_timelabel" in names:
        require_labels(SYSTEM, 'names "_timelabel"', values, findings)
    taken = {column.name.lower() for column in values.section(SchemaSection).columns}
    for name in dict.fromkeys(names):
        if name in taken:
            what = f"names {quote(name)}, and the rows have a column of that name"
            findings.problem(SYSTEM, what, "Leave it out, or rename the other column.")


def _check_ownership(section: WritingSection, final_dir: str, findings: Findings) -> None:
    owner, group = section.owner, section.group
    if not owner and not group:
        return
    if not is_local(final_dir):
        findings.problem(
            _OWNER if owner else _GROUP,
            f"is {quote(owner or group)}, and only files of this machine can get another owner or "
            "group",
            "Leave it out.",
        )
        return
    from pwd import getpwnam  # imported here: few jobs have an owner

    try:
        if owner and getpwnam(owner).pw_uid != os.geteuid() and os.geteuid() != 0:
            findings.problem(
                _OWNER,
                f"is {quote(owner)}, and only root may give files away",
                "Leave it out, or run as that user.",
            )
    except KeyError:
        findings.problem(
            _OWNER, f"is {quote(owner)}, who is no user of this machine", "Name one that exists."
        )
    if group and (found := group_problem(group)):
        findings.problem(_GROUP, *found)


def group_problem(group: str) -> tuple[str, str] | None:
    """Return why files of this machine cannot be given to a group, and what to do; else None."""
    from grp import getgrnam

    try:
        number = getgrnam(group).gr_gid
    except KeyError:
        return f"is {quote(group)}, which is no group of this machine", "Name one that exists."
    if os.geteuid() == 0 or number in {*os.getgroups(), os.getegid()}:
        return None
    what = f"is {quote(group)}, a group without the user who runs the job"
    return what, "Name a group of that user, or add the user to it."
