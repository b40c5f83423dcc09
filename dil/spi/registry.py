"""Finds the class that a job file names: by a short name, DIL's Java name, or a Python path.

Built-in names are resolved from a table. So these names work from a zip without package metadata
and import nothing, and no module of the user can hide them.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum

from dil.errors import PluginError, Problem
from dil.model.job import ClassRef
from dil.model.section import Section


class PluginKind(StrEnum):
    """The kind of a plug-in class; the value is its name in messages."""

    CONNECTOR = "connector"
    EXTRACTOR = "extractor"
    CONVERTER = "converter"
    PREPROCESSOR = "preprocessor"
    RESOLVER = "secret resolver"
    DESTINATION = "destination"
    WRITER = "file writer"

    @property
    def group(self) -> str:
        """Return the entry point group in which packages offer such classes."""
        return f"dil.{self.value.replace(' ', '_')}s"


BUILT_IN: dict[PluginKind, dict[str, str]] = {
    PluginKind.CONNECTOR: {
        "http": "connectors.http:HttpConnector",
        "jdbc": "connectors.jdbc:JdbcConnector",
        "hdfs": "connectors.hdfs:HdfsConnector",
        "file": "connectors.hdfs:HdfsConnector",
        "local": "connectors.hdfs:HdfsConnector",
        "s3": "connectors.s3:S3Connector",
        "sftp": "connectors.sftp:SftpConnector",
    },
    PluginKind.EXTRACTOR: {
        "json": "dil.extraction.json.extractor:JsonExtractor",
        "csv": "dil.extraction.csv.extractor:CsvExtractor",
        "avro": "dil.extraction.avro.extractor:AvroExtractor",
        "xml": "dil.extraction.xml.extractor:XmlExtractor",
        "text": "dil.extraction.text_extractor:TextExtractor",
        "filedump": "dil.extraction.dump_extractor:FileDumpExtractor",
        "parquet": "dil.extraction.columnar.parquet_extractor:ParquetExtractor",
        "orc": "dil.extraction.columnar.orc_extractor:OrcExtractor",
    },
    PluginKind.CONVERTER: {
        "json-normalizer": "dil.conversion.normalizer:JsonNormalizer",
        "avro-normalizer": "dil.conversion.normalizer:AvroNormalizer",
        "in-flow-validation": "dil.conversion.validation:InFlowValidation",
        "csv-range-generator": "dil.conversion.ranges:RangeGenerator",
    },
    PluginKind.PREPROCESSOR: {
        "gunzip": "dil.extraction.preprocessing.compression:GunzipProcessor",
        "bzip2": "dil.extraction.preprocessing.compression:Bzip2",
        "xz": "dil.extraction.preprocessing.compression:Xz",
        "zstd": "dil.extraction.preprocessing.compression:Zstd",
        "deflate": "dil.extraction.preprocessing.compression:Deflate",
        "zip": "dil.extraction.preprocessing.archives:Zip",
        "tar": "dil.extraction.preprocessing.archives:Tar",
        "gpg-decrypt": "dil.extraction.preprocessing.gpg:GpgDecryptProcessor",
        "gpg-encrypt": "dil.extraction.preprocessing.gpg:GpgEncryptProcessor",
        "aggregated-json": "dil.extraction.preprocessing.aggregated_json:AggregatedJsonProcessor",
    },
    PluginKind.RESOLVER: {},
    # Built-in destinations and file writers have properties of their own instead of names.
    PluginKind.DESTINATION: {},
    PluginKind.WRITER: {},
}

# Our names for Java classes of LinkedIn's DIL and Gobblin, by simple name without the package.
JAVA_NAMES: dict[PluginKind, dict[str, str]] = {
    PluginKind.CONNECTOR: {
        "HttpSource": "http",
        "JdbcSource": "jdbc",
        "HdfsSource": "hdfs",
        "S3SourceV2": "s3",
        "SftpSource": "sftp",
    },
    PluginKind.EXTRACTOR: {
        "JsonExtractor": "json",
        "CsvExtractor": "csv",
        "AvroExtractor": "avro",
        "TextExtractor": "text",
        "FileDumpExtractor": "filedump",
    },
    PluginKind.CONVERTER: {
        "JsonNormalizerConverter": "json-normalizer",
        "AvroNormalizerConverter": "avro-normalizer",
        "InFlowValidationConverter": "in-flow-validation",
        "CsvRangeGenerator": "csv-range-generator",
    },
    # After DIL's names come the names of programs that undo a format.
    PluginKind.PREPROCESSOR: {
        "GunzipProcessor": "gunzip",
        "GpgDecryptProcessor": "gpg-decrypt",
        "GpgEncryptProcessor": "gpg-encrypt",
        "AggregatedJsonProcessor": "aggregated-json",
        "gzip": "gunzip",
        "bunzip2": "bzip2",
        "unxz": "xz",
        "unzstd": "zstd",
        "inflate": "deflate",
        "unzip": "zip",
        "untar": "tar",
    },
    PluginKind.RESOLVER: {},
    PluginKind.DESTINATION: {},
    PluginKind.WRITER: {},
}
# The sections of built-in classes, by the part of the reference that lists their properties.
SECTIONS: dict[str, tuple[str, ...]] = {
    "source": (
        "connectors.sftp.section:SftpSection",
        "connectors.hdfs.section:HdfsSection",
        "dil.sections.source:FilesSection",
        "dil.sections.source:DatabaseSection",
        "connectors.jdbc.section:JdbcSection",
        "connectors.s3.section:S3Section",
    ),
    "http": (
        "dil.sections.http:SendingSection",
        "connectors.http.section:HttpSection",
        "dil.sections.http:ContentTypesSection",
        "dil.sections.http:LimitsSection",
    ),
}
JAVA_PACKAGES = ("com.linkedin.cdi.", "org.apache.gobblin.")
# The old names of packages that were renamed.
_OLD_PACKAGES = {"com.linkedin.dil.": "com.linkedin.cdi.", "gobblin.": "org.apache.gobblin."}


def current_name(text: str) -> str:
    """Return a Java class name with its package's new name, any other text unchanged."""
    for old, new in _OLD_PACKAGES.items():
        if text.startswith(old):
            return new + text.removeprefix(old)
    return text


def simple_name(text: str) -> str:
    """Return a Java class name without its DIL or Gobblin package, any other text unchanged."""
    name = current_name(text)
    return name.rpartition(".")[2] if name.startswith(JAVA_PACKAGES) else text


def known_name(kind: PluginKind, text: str) -> str:
    """Return the short name of the built-in class that a text names, any other text unchanged."""
    name = simple_name(text)
    return JAVA_NAMES[kind].get(name, name)


def short_name(kind: PluginKind, ref: ClassRef | None) -> str:
    """Return the short name of a built-in class, else its full name."""
    return next((name for name, text in BUILT_IN[kind].items() if text == str(ref)), str(ref))


def names(kind: PluginKind) -> tuple[str, ...]:
    """Return the short names that can be used, built-in and installed ones, sorted."""
    # Imported here, as below: the import takes longer than reading a job file.
    import importlib.metadata

    installed = (entry.name for entry in importlib.metadata.entry_points(group=kind.group))
    return tuple(sorted({*BUILT_IN[kind], *installed}))


def installed_classes(kind: PluginKind) -> tuple[type, ...]:
    """Return the classes that installed packages offer, without classes that cannot be imported."""
    import importlib.metadata

    found = []
    for entry in importlib.metadata.entry_points(group=kind.group):
        with suppress(PluginError):
            found.append(load(_split(entry.value)))
    return tuple(found)


def built_in_sections(group: str) -> tuple[type[Section], ...]:
    """Return the sections of built-in classes in one part of the reference."""
    return tuple(load(_split(text)) for text in SECTIONS.get(group, ()))


def is_built_in(ref: ClassRef) -> bool:
    """Return whether a class came from the table of built-in names."""
    return any(str(ref) in table.values() for table in BUILT_IN.values())


def is_own(text: str) -> bool:
    """Return whether a text names a class by its Python path, so that it must be imported."""
    return simple_name(text) == text and (":" in text or "." in text)


def resolve(kind: PluginKind, text: str, base: type) -> ClassRef:
    """Return the reference to the class that ``text`` names, checked against ``base``.

    Built-in classes are not imported and not checked.

    Raises:
        PluginError: no class has this name, its module fails to import, or it does not inherit from
            ``base``.
    """
    java = simple_name(text)
    short = JAVA_NAMES[kind].get(java, text)
    if short in BUILT_IN[kind]:
        return _split(BUILT_IN[kind][short])
    # A Python path needs no look into each installed package.
    ref = None if ":" in short else _installed(kind, short)
    if java != text:
        known = f"Supported now: {', '.join(names(kind))}."
        raise _problem(f'"{text}" has no counterpart here', known)
    ref = ref or _dotted(kind, short)
    found = _load_as(kind, ref)
    if not issubclass(found, base):
        raise _problem(
            f'"{text}" is not a {kind}',
            f"Let {ref} inherit from {base.__module__}.{base.__qualname__}.",
        )
    return ref


def join_import_path(folders: Iterable[str]) -> None:
    """Append folders to this process's import path; installed modules are still found first."""
    sys.path.extend(folder for folder in dict.fromkeys(folders) if folder not in sys.path)


def load(ref: ClassRef) -> type:
    """Import and return a class.

    Raises:
        PluginError: the module does not exist, its own import fails, or it lacks the class.
    """
    return _load_as(None, ref)


def _load_as(kind: PluginKind | None, ref: ClassRef) -> type:
    try:
        value: object = importlib.import_module(ref.module)
    except Exception as error:
        # Any error during the import of a user's module is a problem of the job file.
        raise _import_error(kind, ref, error) from error
    for part in ref.qualname.split("."):
        value = getattr(value, part, None)
    if not isinstance(value, type):
        known = [
            name for name, item in vars(importlib.import_module(ref.module)).items()
            if isinstance(item, type) and item.__module__ == ref.module
        ]  # fmt: skip
        raise _problem(
            f'"{ref}": the module has no class {ref.qualname}', _hint(ref.qualname, known)
        )
    return value


def _installed(kind: PluginKind, name: str) -> ClassRef | None:
    import importlib.metadata

    for entry in importlib.metadata.entry_points(group=kind.group, name=name):
        return _split(entry.value)
    return None


def _dotted(kind: PluginKind, text: str) -> ClassRef:
    if ":" not in text and "." not in text:
        raise _problem(f'"{text}" is not known', _hint(text, names(kind)))
    return _split(text if ":" in text else ":".join(text.rsplit(".", 1)))


def _split(text: str) -> ClassRef:
    module, _, qualname = text.partition(":")
    return ClassRef(module.strip(), qualname.strip())


def _import_error(kind: PluginKind | None, ref: ClassRef, error: Exception) -> PluginError:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{ref.module}.".startswith(f"{missing}."):
        return _problem(
            f'"{ref}" cannot be imported (no module named {missing!r})',
            f"{_near(kind, ref)}DIL looks for modules in the installed packages, in the folder of"
            " the job file and in ms.plugin.path.",
        )
    if isinstance(error, ValueError) and not ref.module:
        return _problem(f'"{ref}" is not of the form package.module:Class')
    return _problem(
        f'"{ref}" was found, but its own import failed ({type(error).__name__}: {error})',
        "Install the packages that it needs, or correct the module.",
    )


def _near(kind: PluginKind | None, ref: ClassRef) -> str:
    if kind is None:
        return ""
    known = names(kind)
    for part in reversed(ref.module.split(".")):
        if near := difflib.get_close_matches(part, known, n=1):
            return f'Did you mean "{near[0]}"? '
    return f"Known {kind}s: {', '.join(known)}. " if known else ""


def _problem(what: str, fix: str = "") -> PluginError:
    return PluginError([Problem(None, "", what, fix)])


def _hint(text: str, known: list[str] | tuple[str, ...]) -> str:
    near = difflib.get_close_matches(text, known, n=1)
    question = f'Did you mean "{near[0]}"? ' if near else ""
    return f"{question}Known: {', '.join(sorted(known))}." if known else question.strip()
