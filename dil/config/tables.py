"""``ms.table.*`` and ``ms.iceberg.*``: tables of files, and the columns that separate rows.

See rule U13.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dil.config.egress import progress_key
from dil.config.findings import Findings
from dil.config.identity import NAMESPACE, DatasetSection
from dil.config.packages import require_package
from dil.config.state import DEFAULT_STATE_FOLDER, SERVER_KINDS, StateSection
from dil.config.timelabels import COLUMN, TimelabelsSection
from dil.config.warehouse import URL, WarehouseSection
from dil.model.destination import TableFormat, TableSpec
from dil.model.properties import Properties
from dil.model.schema import Column, EnumType, Primitive
from dil.model.secret import SecretUrl
from dil.model.section import ONE_OF, SecretText, Section, Texts, prop
from dil.model.suggestions import quote
from dil.sections.schema import SchemaSection
from dil.storage.locations import PathError, any_path, is_local, local_path

FORMAT, FIELDS = "ms.table.format", "ms.table.partition.fields"
CATALOG = "ms.iceberg.catalog.uri"
_DEFAULT_CATALOG = "iceberg-catalog.db"
_PACKAGES = {TableFormat.DELTA: "deltalake", TableFormat.ICEBERG: "pyiceberg"}
_CATALOG_FORMS = (
    "Write sqlite:///path/file.db, postgresql://user:password@host/database,"
    " mysql://user:password@host/database, or the http address of a REST catalog."
)
_SERVERS = re.compile(r"(https?|postgres(ql)?|mysql|mariadb)(\+[a-z0-9_]+)?://.+", re.DOTALL)
_SQLITE = re.compile(
    r"(?P<scheme>sqlite(\+[a-z0-9_]+)?)://(/(?P<path>[^?]*))?(?P<rest>\?.*)?", re.DOTALL
)
_NAMING = {"string", "int", "long", "decimal", "boolean", "date"}


@dataclass(frozen=True, slots=True)
class TablesSection(Section):
    """The table of files that rows are published to."""

    format: Annotated[TableFormat, ONE_OF] = prop(
        FORMAT,
        "files are plain files with a manifest; delta and iceberg are tables of Parquet files.",
        default=TableFormat.FILES,
    )
    partition_fields: Texts = prop(
        FIELDS,
        "Columns whose values separate the rows, in folders `column=value`.",
        default=(),
    )
    catalog_uri: SecretText | None = prop(
        CATALOG,
        "The Iceberg catalog: a SQLAlchemy URL of sqlite, postgresql or mysql, or the http "
        "address of a REST catalog. Unset: the SQLite catalog `iceberg-catalog.db` in the "
        "state folder. A relative path starts at the job file.",
        default=None,
        identity=False,
    )


def table_spec(values: Properties, folder: Path, place: str, findings: Findings) -> TableSpec:
    """Return the table that rows are published to.

    Relative paths start at ``folder``. ``place`` is the absolute path or URI below which all is
    published, empty text if it cannot be known.
    """
    section = values.section(TablesSection)
    catalog, warehouse = None, ""
    if section.format is not TableFormat.FILES:
        _check(section.format, values, findings)
    if section.format is TableFormat.ICEBERG:
        catalog = _catalog(values, folder, findings)
        warehouse = f"file://{place}" if is_local(place) else place
        _check_namespace(values, findings)
    elif CATALOG in values.explicit:
        findings.notice(
            CATALOG, f"has no effect while {FORMAT} is {section.format}", "Leave it out."
        )
    dataset = values.section(DatasetSection)
    return TableSpec(
        format=section.format,
        namespace=dataset.namespace,
        name=dataset.table,
        partition_fields=section.partition_fields,
        catalog_uri=catalog,
        catalog_warehouse=warehouse,
    )


def _check(word: TableFormat, values: Properties, findings: Findings) -> None:
    if values.section(WarehouseSection).url:
        findings.problem(
            URL,
            f"is set, and so is {FORMAT}={word}",
            "Rows go to one place: leave one of them out.",
        )
    require_package(_PACKAGES[word], word, FORMAT, f'is "{word}"', findings)


def _check_namespace(values: Properties, findings: Findings) -> None:
    namespace = values.section(DatasetSection).namespace
    if not all(namespace.split(".")):
        findings.problem(
            NAMESPACE,
            f"is {quote(namespace)}, and an Iceberg table is in a namespace",
            "Name one, such as shop or shop.sales.",
            values.origin(FORMAT),
        )


def _catalog(values: Properties, folder: Path, findings: Findings) -> SecretUrl | None:
    """Return the catalog's URI; no finding shows it, because it may hold a password."""
    given = values.section(TablesSection).catalog_uri
    if given is None:
        return _default_catalog(values, folder, findings)
    uri = given.reveal().strip()
    if _SERVERS.fullmatch(uri):
        return SecretUrl(uri)
    match = _SQLITE.fullmatch(uri)
    path = match["path"] if match else ""
    if match is None or not path or path == ":memory:":
        findings.problem(CATALOG, "names no catalog that lasts", _CATALOG_FORMS)
        return None
    try:
        return SecretUrl(f"{match['scheme']}:///{local_path(path, folder)}{match['rest'] or ''}")
    except PathError as error:
        findings.problem(CATALOG, f"names a file that {error}", "Use a local path.")
        return None


def _default_catalog(values: Properties, folder: Path, findings: Findings) -> SecretUrl | None:
    state = values.section(StateSection)
    try:
        path = any_path(state.directory or str(folder / DEFAULT_STATE_FOLDER), folder)
    except PathError:
        return None  # `state_section` says what is wrong with it.
    if (state.dataset_kind or state.kind) in SERVER_KINDS or not is_local(path):
        findings.problem(
            CATALOG,
            "is not set, and there is no state folder on this machine for a catalog of its own",
            _CATALOG_FORMS,
            values.origin(FORMAT),
        )
        return None
    return SecretUrl(f"sqlite:///{path}/{_DEFAULT_CATALOG}")


def check_rows_apart(values: Properties, findings: Findings) -> None:
    """Check the columns that separate rows, into folders or by timelabel."""
    names = values.section(TablesSection).partition_fields
    label = values.section(TimelabelsSection).column
    if label and (key := progress_key(values)):
        findings.problem(
            COLUMN,
            f"separates rows, and {key} keeps progress between pages: the two do not go together",
            "Leave one of them out. Without the column each work unit has one label.",
        )
    if names:
        _check_fields(names, values, findings)


def _check_fields(names: tuple[str, ...], values: Properties, findings: Findings) -> None:
    check_doubles(FIELDS, names, findings)
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
    columns = {column.name: column for column in values.section(SchemaSection).columns}
    for name in names:
        column = columns.get(name)
        if column is not None and not _can_name_folders(column):
            findings.problem(
                FIELDS,
                f"names {quote(name)}, whose values cannot name folders",
                "Name columns of text, whole numbers, decimals, booleans or dates.",
            )
    if key := progress_key(values):
        findings.problem(
            FIELDS,
            f"separates rows, and {key} keeps progress between pages: the two do not go together",
            f"Leave one of them out. Shorter partitions keep progress, too, without {key}.",
        )


def check_doubles(key: str, names: Sequence[str], findings: Findings) -> None:
    """Refuse a list of columns that names a column twice."""
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            findings.problem(key, f"names {quote(name)} twice", "Name it once.")


def _can_name_folders(column: Column) -> bool:
    match column.type:
        case Primitive(word=word):
            return word in _NAMING
        case EnumType():
            return True
        case _:
            return False
