"""``ms.catalog.*``: the table under which a catalog registers a dataset. See rule T28."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from dil.config.destinations import TablesSection, other_place, require_package
from dil.config.findings import Findings
from dil.config.identity import DatasetSection
from dil.config.property import names_of
from dil.config.publishing import FINAL_DIR, PublishingSection, has_run_folder
from dil.config.writing import FILE_FORMAT, PATH_TYPE, WritingSection
from dil.model.destination import CatalogSpec, CatalogType, Layout
from dil.model.job import OutputFormat
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.schema import Primitive
from dil.model.section import ONE_OF, Section, Text, prop
from dil.model.timelabels import LABEL_FIELDS
from dil.sections.schema import SCHEMA, SchemaSection
from dil.storage.locations import PathError, local_path

CATALOG_TYPE = "ms.catalog.type"
DATABASE, CATALOG_TABLE = "ms.catalog.database", "ms.catalog.table"
METASTORE = "ms.catalog.hive.metastore"
REGION, ENDPOINT = "ms.catalog.glue.region", "ms.catalog.glue.endpoint"
_FORMATS = (OutputFormat.PARQUET, OutputFormat.ORC)
# Hive and Glue have names of 128 characters, of which 16 are for the partitions of a table that
# is cut by timelabel (rule T28).
_LONGEST_NAME = 112
_NAME = re.compile(r"[a-z0-9_]+")
_ADDRESS = r"thrift://(?:\[[0-9A-Fa-f:.]+\]|[^/,:@\s\[\]]+):[0-9]{1,5}"
_THRIFT = re.compile(rf"{_ADDRESS}(,{_ADDRESS})*")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}")
_HTTP = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class CatalogSection(Section):
    """The catalog, and the table under which it registers the dataset."""

    type: Annotated[Literal["none", "hive", "glue"], ONE_OF] = prop(
        CATALOG_TYPE,
        "Where the dataset's table and partitions are registered after each publish: a Hive "
        "metastore or AWS Glue.",
        default="none",
        identity=False,
    )
    database: Text = prop(
        DATABASE,
        "The catalog's database. Unset: the last part of `extract.namespace`.",
        default="",
        identity=False,
    )
    table: Text = prop(
        CATALOG_TABLE,
        "The catalog's table. Unset: `extract.table.name`.",
        default="",
        identity=False,
    )
    metastore: Text = prop(
        METASTORE,
        "The Hive metastore, such as `thrift://host:9083`; or a folder for an embedded metastore, "
        "which one process at a time can use. Unset: the metastore of Spark's own configuration, "
        "`hive-site.xml`.",
        default="",
        identity=False,
    )
    region: Text = prop(
        REGION,
        "The region of AWS Glue. Unset: the region of the environment.",
        default="",
        identity=False,
    )
    endpoint: Text = prop(
        ENDPOINT,
        "The address of a service with the API of AWS Glue. Unset: `AWS_ENDPOINT_URL_GLUE`, "
        "`AWS_ENDPOINT_URL`, else AWS.",
        default="",
        identity=False,
    )


def catalog_spec(values: Properties, folder: Path, findings: Findings) -> CatalogSpec | None:
    """Return the catalog's table, None if there is none; relative paths start at ``folder``."""
    section = values.section(CatalogSection)
    if section.type == "none":
        unused = names_of(CatalogSection) - {CATALOG_TYPE}
        findings.unused(unused, f"has no effect while {CATALOG_TYPE} is none", "Leave it out.")
        return None
    _check_output(values, findings)
    _check_columns(values, findings)
    kind, region, endpoint = CatalogType(section.type), section.region, section.endpoint
    if kind is CatalogType.GLUE:
        require_package("botocore", "glue", CATALOG_TYPE, 'is "glue"', findings)
        if region and not endpoint and not _REGION.fullmatch(region):
            what = f"is {quote(region)}, which is no region of AWS"
            findings.problem(REGION, what, "Write one such as eu-central-1.")
        if endpoint and not _HTTP.fullmatch(endpoint):
            what = f"is {quote(endpoint)}, which is no http address"
            findings.problem(ENDPOINT, what, "Write http://host:port or https://host.")
    dataset = values.section(DatasetSection)
    database = section.database or dataset.namespace.rpartition(".")[2]
    return CatalogSpec(
        type=kind,
        database=_name(DATABASE, database, values, findings),
        table=_name(CATALOG_TABLE, section.table or dataset.table, values, findings),
        metastore=_metastore(section.metastore, folder, findings)
        if kind is CatalogType.HIVE
        else "",
        region=region,
        endpoint=endpoint,
    )


def _check_output(values: Properties, findings: Findings) -> None:
    """Refuse output that the catalog's readers, which list folders, would misread."""
    kind, origin = values.section(CatalogSection).type, values.origin(CATALOG_TYPE)
    if key := other_place(values):
        findings.problem(
            CATALOG_TYPE,
            f"is {quote(kind)}, and {key} is set: a catalog registers folders of plain files",
            "Leave it out. Iceberg tables have a catalog of their own, ms.iceberg.catalog.uri.",
        )
        return
    if values.section(PublishingSection).final_dir.lower().startswith(("webhdfs:", "swebhdfs:")):
        findings.problem(
            FINAL_DIR,
            f"is an address over HTTP, which Spark's own client of HDFS cannot read, and "
            f"{CATALOG_TYPE} is set",
            "Write hdfs://host:8020/folder; the name node's web server must have port 9870.",
        )
    writing = values.section(WritingSection)
    if writing.format not in _FORMATS:
        findings.problem(
            FILE_FORMAT,
            f"is {quote(writing.format_word)}, and the files of a table in a catalog are Parquet or"
            " ORC, which name their columns and types",
            "Write PARQUET or ORC.",
            values.origin(FILE_FORMAT) or origin,
        )
    if has_run_folder(values):
        findings.problem(
            PATH_TYPE,
            "makes a folder for each run, and a table in a catalog has one folder",
            "Set writer.file.path.type=namespace_table or tablename.",
            values.origin(PATH_TYPE) or origin,
        )


def _check_columns(values: Properties, findings: Findings) -> None:
    """Refuse columns that Hive could not distinguish, or has no type for."""
    fields = values.section(TablesSection).partition_fields
    is_by_label = values.section(PublishingSection).layout is Layout.TIMELABEL
    apart = [*(LABEL_FIELDS if is_by_label else ()), *fields]
    columns = values.section(SchemaSection).columns
    inside = [column.name for column in columns if column.name not in fields]
    kind = values.section(CatalogSection).type
    seen: set[str] = set()
    for name in (*apart, *inside):
        if name.lower() in seen:
            findings.problem(
                CATALOG_TYPE,
                f'is {quote(kind)}, and "{name}" would name two columns there, '
                "as letter case does not count",
                "Rename one with ms.derived.fields and ms.output.schema"
                + (": y, m, d, h and n are the columns of the timelabel." if is_by_label else "."),
            )
        seen.add(name.lower())
    is_parquet = values.section(WritingSection).format is OutputFormat.PARQUET
    for column in columns:
        if is_parquet and isinstance(column.type, Primitive) and column.type.word == "time":
            findings.problem(
                SCHEMA,
                f'has the column "{column.name}" of type time, which Hive and Glue do not have',
                f"Declare it as string, or leave {CATALOG_TYPE} out.",
            )


def _name(key: str, text: str, values: Properties, findings: Findings) -> str:
    """Return the name of a database or table in lower case."""
    name = text.lower()
    if not name:
        findings.problem(
            key,
            "is not set, and extract.namespace is empty",
            "Name one.",
            values.origin(CATALOG_TYPE),
        )
    elif not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        findings.problem(
            key,
            f"is {quote(text)}, which is no name in a catalog",
            f"Write letters, digits and _, at most {_LONGEST_NAME}.",
            values.origin(key) or values.origin(CATALOG_TYPE),
        )
    return name


def _metastore(text: str, folder: Path, findings: Findings) -> str:
    """Return the metastore's address, or the absolute path of an embedded metastore."""
    if not text or _THRIFT.fullmatch(text):
        return text
    path, what = "", ""
    if text.startswith("thrift:"):
        what = "which names no host and port"
    else:
        try:
            path = str(local_path(text, folder))
            what = "in which no metastore can be kept" if ";" in path else ""
        except PathError as error:
            what = f"which {error}"
    if what:
        findings.problem(
            METASTORE,
            f"is {quote(text)}, {what}",
            "Write thrift://host:9083, several with commas and no blanks between; or a local path "
            "for an embedded metastore.",
        )
    return path
