"""``ms.warehouse.*``: the table of a database that rows are loaded into.

See docs/timelabel-tables.md, rule T18.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dil.config.findings import Findings
from dil.config.identity import NAMESPACE, TABLE, DatasetSection
from dil.config.packages import require_package
from dil.model.database_address import DatabaseUrlError
from dil.model.destination import Operation, TableKind, WarehouseSpec
from dil.model.properties import Properties
from dil.model.secret import SecretUrl
from dil.model.section import ONE_OF, SecretText, Section, prop
from dil.storage.locations import PathError, local_path

if TYPE_CHECKING:
    from dil.text.warehouse_url import WarehouseAddress

URL, OPERATION, KIND = "ms.warehouse.url", "ms.warehouse.operation", "ms.warehouse.table.kind"
USER = "ms.warehouse.user"
PASSWORD = "ms.warehouse.password"  # noqa: S105 - the name of a property
# A server cuts a longer name with no more than a notice: two tables would become one (timelabels.md
# 4.3). The limits are of bytes and of characters.
_PG_NAME_BYTES = 63
_MYSQL_NAME_LENGTH = 64
_OWN_TABLES = frozenset({"dil_commit", "dil_part"})
_DRIVERS = {
    "postgresql": ("adbc_driver_postgresql", "postgresql"),
    "mysql": ("pymysql", "mysql"),
    "duckdb": ("duckdb", "duckdb"),
    "sqlite": ("sqlite3", "sqlite"),
}


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
        KIND,
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


def is_timeseries(values: Properties) -> bool:
    """Return whether rows go to tables of their timelabels."""
    section = values.section(WarehouseSection)
    return section.kind is TableKind.TIMESERIES and bool(section.url)


def warehouse_section(values: Properties, folder: Path, findings: Findings) -> WarehouseSpec | None:
    """Return the table to load rows into, or None; relative paths start at ``folder``.

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
    if found.server is None:
        for name, given in ((USER, user), (PASSWORD, password)):
            if given:
                findings.notice(name, f"has no effect: {found.engine} knows no users", "")
        return _in_file(found, folder, findings)
    return replace(found, server=found.server.with_login(user, password))


def _in_file(found: WarehouseAddress, folder: Path, findings: Findings) -> WarehouseAddress | None:
    try:
        return replace(found, path=str(local_path(found.path, folder)))
    except PathError as error:
        findings.problem(URL, f"names a file that {error}", "Use a local path.")
        return None


def _check_names(engine: str, schema: str, table: str, findings: Findings) -> None:
    for key, name in ((TABLE, table), (NAMESPACE, schema)):
        if engine == "postgresql" and len(name.encode()) > _PG_NAME_BYTES:
            what = f'gives the name "{name}" of {len(name.encode())} bytes'
            findings.problem(key, what, f"PostgreSQL keeps {_PG_NAME_BYTES} bytes of a name.")
        elif engine == "mysql" and len(name) > _MYSQL_NAME_LENGTH:
            what = f'gives the name "{name}" of {len(name)} characters'
            findings.problem(key, what, f"MySQL takes names of {_MYSQL_NAME_LENGTH} characters.")
    if table.lower() in _OWN_TABLES:
        findings.problem(
            TABLE,
            f'is "{table}", the name of a table that records what was loaded',
            "Choose another name.",
        )
