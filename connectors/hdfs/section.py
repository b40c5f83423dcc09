"""The properties of files of this machine, of HDFS, and of Arrow's other file systems."""

from __future__ import annotations

from dataclasses import dataclass

from dil.model.section import Bool, Section, Text, prop


@dataclass(frozen=True, slots=True)
class HdfsSection(Section):
    """The properties of file systems in a job."""

    file_system: Text = prop(
        "source.filebased.fs.uri",
        "File system of a file source's paths that name none, such as `hdfs://namenode:8020` or"
        " `webhdfs://namenode:9870`; left out, the one that `fs.uri` names.",
        default="",
    )
    decompresses: Bool = prop(
        "ms.source.files.decompress",
        "Whether a file source unpacks files whose names end in `.gz`, `.bz2`, `.xz`, `.zst`,"
        " `.deflate` or `.snappy`. A file dump copies files unchanged unless this is set.",
        default=True,
    )
