"""Where rows go: to files, a table of files, a database, or a class of the job's own.

See rules T18 and U13, and docs/timelabel-tables.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dil.config.egress import progress_key
from dil.config.findings import Findings
from dil.config.identity import NAMESPACE, TABLE_NAME, DatasetSection
from dil.config.state import DEFAULT_STATE_FOLDER, SERVER_KINDS, StateSection
from dil.config.timelabels import LABEL_COLUMN, TimelabelsSection
from dil.model.database_address import DatabaseUrlError
from dil.model.destination import Operation, TableFormat, TableKind, TableSpec, WarehouseSpec
from dil.model.messages import quote
from dil.model.properties import Properties
from dil.model.schema import EnumType, Primitive
from dil.model.secret import SecretUrl
from dil.model.section import ONE_OF, SecretText, Section, Texts, ValueType, Written, prop
from dil.sections.schema import SchemaSection
from dil.spi.registry import PluginKind
from dil.storage.locations import PathError, any_path, is_local, local_path

if TYPE_CHECKING:
    from dil.text.warehouse_url import WarehouseAddress

URL, OPERATION, TABLE_KIND = "ms.warehouse.url", "ms.warehouse.operation", "ms.warehouse.table.kind"
USER = "ms.warehouse.user"
PASSWORD = "ms.warehouse.password"  # noqa: S105 - the name of a property
# A server cuts a longer name with no more than a notice: two tables would become one (timelabels.md
# 4.3). The limits are of bytes and of characters.
_PG_NAME_BYTES = 63
_MYSQL_NAME_LENGTH = 64
_OWN_TABLES = frozenset({"dil_commit", "dil_owner", "dil_part"})
# Temporary tables of a merge, which hide tables of these names where no schema tells them apart.
_TEMPORARY_TABLES = frozenset({"dil_stage", "dil_winners"})
_DRIVERS = {
    "postgresql": ("adbc_driver_postgresql", "postgresql"),
    "mysql": ("pymysql", "mysql"),
    "duckdb": ("duckdb", "duckdb"),
    "sqlite": ("sqlite3", "sqlite"),
}
TABLE_FORMAT, FIELDS = "ms.table.format", "ms.table.partition.fields"
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
DESTINATION = "ms.destination.class"


@dataclass(frozen=True, slots=True)
class WarehouseSection(Section):
    """The table of a database that rows are loaded into."""

    url: SecretText | None = prop(
        URL,
        "SQLAlchemy URL of the database into which rows are loaded: postgresql, mysql, "
        "mariadb, duckdb or sqlite. The table is `extract.table.name`, in the schema that the "
        "last part of `extract.namespace` names; MySQL and SQLite have none. A relative path "
        "starts at the job file.",
        default=None,
        identity=False,
    )
    user: SecretText | None = prop(
        USER,
        "User of that database; wins over one in the URL.",
        default=None,
        identity=False,
    )
    password: SecretText | None = prop(
        PASSWORD,
        "Password of that database; wins over one in the URL.",
        default=None,
        identity=False,
    )
    kind: Annotated[TableKind, ONE_OF] = prop(
        TABLE_KIND,
        "regular is one table; timeseries has a table `_<table>_<timelabel>` for each "
        "timelabel, and the view `<table>_view` of all of them.",
        default=TableKind.REGULAR,
    )
    operation: Annotated[Operation, ONE_OF] | None = prop(
        OPERATION,
        "insert adds rows; with replace the run's rows replace all others; with upsert a row "
        "replaces the row with the same primary key. Unset: `ms.publish.mode` decides.",
        default=None,
    )


@dataclass(frozen=True, slots=True)
class TablesSection(Section):
    """The table of files that rows are published to."""

    format: Annotated[TableFormat, ONE_OF] = prop(
        TABLE_FORMAT,
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


@dataclass(frozen=True, slots=True)
class DestinationSection(Section):
    """A destination of the job's own."""

    name: Annotated[str, Written(ValueType.CLASS, plugin=PluginKind.DESTINATION)] = prop(
        DESTINATION,
        "Class that publishes the rows, in place of files, tables and warehouses: the name that an"
        " installed package offers, or the Python path of a class of the job's own.",
        default="",
        example="sqlite_destination.SqliteDestination",
    )


def is_of_files(values: Properties) -> bool:
    """Return whether rows are published as plain files, and to nothing else."""
    return other_place(values) is None


def other_place(values: Properties) -> str | None:
    """Return the property that publishes rows to another place than plain files, or None."""
    if values.section(DestinationSection).name:
        return DESTINATION
    if values.section(WarehouseSection).url is not None:
        return URL
    return None if values.section(TablesSection).format is TableFormat.FILES else TABLE_FORMAT


def is_timeseries(values: Properties) -> bool:
    """Return whether rows go to tables of their timelabels."""
    section = values.section(WarehouseSection)
    return section.kind is TableKind.TIMESERIES and bool(section.url)


def warehouse_section(
    values: Properties, folder: Path, findings: Findings, *, merges: bool
) -> WarehouseSpec | None:
    """Return the table to load rows into, or None; relative paths start at ``folder``.

    ``merges`` says that rows are merged by their keys.
    No finding shows the URL: it may hold a password.
    """
    section = values.section(WarehouseSection)
    if section.url is None:
        unused = (USER, PASSWORD, OPERATION)
        findings.unused(unused, f"has no effect: {URL} is not set", f"Set {URL} too.")
        return None
    address = _address(section, folder, findings)
    dataset = values.section(DatasetSection)
    schema, table = dataset.namespace.rpartition(".")[2], dataset.table
    if address is None:
        return WarehouseSpec(SecretUrl(""), schema, table)
    schema = schema if address.engine.has_schemas else ""
    _check_names(address.engine, schema, table, findings)
    if merges and not address.engine.has_schemas and table.lower() in _TEMPORARY_TABLES:
        what = f'is "{table}", the name of a temporary table that merges use'
        findings.problem(TABLE_NAME, what, "Choose another name.")
    if address.engine == "duckdb" and _is_ambiguous(address.path, schema):
        findings.problem(
            URL,
            f'names the file {Path(address.path).name}, and DuckDB cannot tell it from the schema "'
            f'{schema}", which {NAMESPACE} gives',
            "Give the file another name.",
        )
    module, extra = _DRIVERS[address.engine]
    require_package(module, extra, URL, f"names a {address.engine} database", findings)
    return WarehouseSpec(
        url=SecretUrl(address.url()),
        schema=schema,
        table=table,
        kind=section.kind,
        operation=section.operation or Operation.INSERT,
    )


def _address(
    section: WarehouseSection, folder: Path, findings: Findings
) -> WarehouseAddress | None:
    from dil.text.warehouse_url import read_warehouse_url  # few jobs need it

    url, user, password = section.url, section.user, section.password
    try:
        found = read_warehouse_url("" if url is None else url.reveal())
    except DatabaseUrlError as error:
        findings.problem(URL, error.what, error.fix)
        return None
    if found.server is not None:
        return replace(found, server=found.server.with_login(user, password))
    for name, given in ((USER, user), (PASSWORD, password)):
        if given:
            findings.notice(name, f"has no effect: {found.engine} knows no users", "")
    try:
        return replace(found, path=str(local_path(found.path, folder)))
    except PathError as error:
        findings.problem(URL, f"names a file that {error}", "Use a local path.")
        return None


def _is_ambiguous(path: str, schema: str) -> bool:
    """Return whether a schema has the name that DuckDB gives to the database in a file."""
    name = Path(path).name.lstrip(".").partition(".")[0]
    # By main.orders, DuckDB finds the schema main of the database main.
    return schema.lower() == name.lower() != "main"


def _check_names(engine: str, schema: str, table: str, findings: Findings) -> None:
    for key, name in ((TABLE_NAME, table), (NAMESPACE, schema)):
        if engine == "postgresql" and len(name.encode()) > _PG_NAME_BYTES:
            what = f'gives the name "{name}" of {len(name.encode())} bytes'
            findings.problem(key, what, f"PostgreSQL keeps {_PG_NAME_BYTES} bytes of a name.")
        elif engine == "mysql" and len(name) > _MYSQL_NAME_LENGTH:
            what = f'gives the name "{name}" of {len(name)} characters'
            findings.problem(key, what, f"MySQL takes names of {_MYSQL_NAME_LENGTH} characters.")
    if table.lower() in _OWN_TABLES:
        findings.problem(
            TABLE_NAME,
            f'is "{table}", the name of a table that records what was loaded',
            "Choose another name.",
        )


def table_spec(values: Properties, folder: Path, place: str, findings: Findings) -> TableSpec:
    """Return the table that rows are published to.

    Relative paths start at ``folder``. ``place`` is the absolute path or URI below which all is
    published, empty text if it cannot be known.
    """
    section = values.section(TablesSection)
    catalog, warehouse = None, ""
    dataset, word = values.section(DatasetSection), section.format
    if word is not TableFormat.FILES:
        if values.section(WarehouseSection).url:
            what = f"is set, and so is {TABLE_FORMAT}={word}"
            findings.problem(URL, what, "Rows go to one place: leave one of them out.")
        require_package(_PACKAGES[word], word, TABLE_FORMAT, f'is "{word}"', findings)
    if word is TableFormat.ICEBERG:
        catalog = _catalog(values, folder, findings)
        warehouse = f"file://{place}" if is_local(place) else place
        if not all(dataset.namespace.split(".")):
            findings.problem(
                NAMESPACE,
                f"is {quote(dataset.namespace)}, and an Iceberg table is in a namespace",
                "Name one, such as shop or shop.sales.",
                values.origin(TABLE_FORMAT),
            )
    else:
        what = f"has no effect while {TABLE_FORMAT} is {word}"
        findings.unused((CATALOG,), what, "Leave it out.")
    return TableSpec(
        format=word,
        namespace=dataset.namespace,
        name=dataset.table,
        partition_fields=section.partition_fields,
        catalog_uri=catalog,
        catalog_warehouse=warehouse,
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
        return None  # `state_section` reports the problem of this address.
    if (state.dataset_kind or state.kind) in SERVER_KINDS or not is_local(path):
        findings.problem(
            CATALOG,
            "is not set, and there is no state folder on this machine for a catalog of its own",
            _CATALOG_FORMS,
            values.origin(TABLE_FORMAT),
        )
        return None
    return SecretUrl(f"sqlite:///{path}/{_DEFAULT_CATALOG}")


def check_rows_apart(values: Properties, findings: Findings) -> None:
    """Check the columns that separate rows, into folders or by timelabel."""
    names = values.section(TablesSection).partition_fields
    key = progress_key(values)
    apart = f"separates rows, and {key} keeps progress between pages: the two do not go together"
    if key and values.section(TimelabelsSection).column:
        fix = "Leave one of them out. Without the column each work unit has one label."
        findings.problem(LABEL_COLUMN, apart, fix)
    if not names:
        return
    check_doubles(FIELDS, names, findings)
    for name in names:
        if name.startswith(("_", ".")):
            findings.problem(
                FIELDS,
                f"names {quote(name)}: folders that begin with _ or . hold no published data",
                "Rename the column with ms.schema.cleansing, or name another one.",
            )
    if values.section(WarehouseSection).url:
        what = "makes folders, and rows are loaded into a database"
        findings.problem(FIELDS, what, "Leave it out.")
    types = {column.name: column.type for column in values.section(SchemaSection).columns}
    for name in names:
        match types.get(name):
            case None | EnumType():
                continue
            case Primitive(word=word) if word in _NAMING:
                continue
        findings.problem(
            FIELDS,
            f"names {quote(name)}, whose values cannot name folders",
            "Name columns of text, whole numbers, decimals, booleans or dates.",
        )
    if key:
        fix = f"Leave one of them out. Shorter partitions keep progress, too, without {key}."
        findings.problem(FIELDS, apart, fix)


def check_doubles(key: str, names: Sequence[str], findings: Findings) -> None:
    """Refuse a list of columns that names a column twice."""
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            findings.problem(key, f"names {quote(name)} twice", "Name it once.")


def require_package(package: str, extra: str, key: str, what: str, findings: Findings) -> None:
    """Refuse the value of a property if the package that it needs is not installed.

    ``what`` says what the value is. ``extra`` is the extra that installs the package.
    """
    if find_spec(package) is None:
        findings.problem(
            key,
            f"{what}, and the package {package} is not installed",
            f"Install it: pip install 'dil-spark[{extra}]'",
        )
