"""The file systems of paths that name no file system."""

from __future__ import annotations

from dataclasses import dataclass

from dil.model.section import FileSystemUri, Section, prop


@dataclass(frozen=True, slots=True)
class FileSystemsSection(Section):
    """The file systems of absolute paths without a scheme such as ``file:``.

    Each value is a URI without a path; empty text stands for ``fs.uri``.
    """

    every: FileSystemUri = prop(
        "fs.uri",
        "File system of absolute paths that name none, such as `hdfs://lake` or `s3://bucket`. It "
        "applies to published data, state, the master password file, secondary input, and the "
        "files of a file source. `file:///path` stays on this machine.",
        default="file:///",
        example="hdfs://lake",
    )
    written: FileSystemUri = prop(
        "writer.fs.uri",
        "File system of `data.publisher.final.dir` if `data.publisher.fs.uri` is unset; unset: "
        "`fs.uri`. Unfinished files are in a hidden folder there.",
        default="file:///",
        example="hdfs://lake",
    )
    published: FileSystemUri = prop(
        "data.publisher.fs.uri",
        "File system of `data.publisher.final.dir`; unset: `writer.fs.uri`, else `fs.uri`.",
        default="",
        example="hdfs://lake",
    )
    state: FileSystemUri = prop(
        "state.store.fs.uri",
        "File system of `state.store.dir`; unset: `fs.uri`.",
        default="",
        example="hdfs://lake",
        identity=False,
    )
    keys: FileSystemUri = prop(
        "encrypt.key.fs.uri",
        "File system of `encrypt.key.loc`; unset: `fs.uri`.",
        default="",
        example="hdfs://lake",
        identity=False,
    )

    @property
    def of_state(self) -> str:
        """Return the file system of the state store."""
        return self.state or self.every

    @property
    def of_keys(self) -> str:
        """Return the file system of master passwords."""
        return self.keys or self.every
