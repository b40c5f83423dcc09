"""``ms.warehouse.*`` to the table of a database that rows are loaded into."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dil.config.findings import Findings
from dil.config.paths import PathError, local_path
from dil.model.destination import Operation, TableFormat, TableKind, WarehouseSpec
from dil.model.properties import Properties
from dil.model.secret import SecretUrl

if TYPE_CHECKING:
    from dil.text.warehouse_url import WarehouseAddress

URL, OPERATION = "ms.warehouse.url", "ms.warehouse.operation"
USER = "ms.warehouse.user"
PASSWORD = "ms.warehouse.password"  # noqa: S105 - the name of a property
# A longer name is cut by the server, which only mutters: two tables would be one (timelabels.md
# 4.3). The limits are of bytes and of characters.
_PG_NAME_BYTES = 63
_MYSQL_NAME_LENGTH = 64
_OWN_TABLES = frozenset({"dil_commit", "dil_part"})
_MODES = {
    Operation.REPLACE: {"replace"},
    Operation.INSERT: {"append", "window_replace"},
    Operation.UPSERT: {"merge"},
}
_DRIVERS = {
    "postgresql": ("adbc_driver_postgresql", "postgresql"),
    "mysql": ("pymysql", "mysql"),
    "duckdb": ("duckdb", "duckdb"),
    "sqlite": ("sqlite3", "sqlite"),
}


def warehouse_section(values: Properties, folder: Path, findings: Findings) -> WarehouseSpec | None:
    """Return the table that rows are loaded into, None for none; paths start at ``folder``.

    No finding shows the URL: it may hold a password.
    """
    url = values.secret(URL)
    if not url:
        _note_unused(values, findings)
        return None
    _check_kind(values, findings)
    address = _address(values, folder, findings)
    schema = values.text("extract.namespace").rpartition(".")[2]
    table = values.text("extract.table.name")
    if address is None:
        return WarehouseSpec(SecretUrl(""), schema, table)
    schema = schema if address.engine.has_schemas else ""
    _check_names(address.engine, schema, table, findings)
    module, extra = _DRIVERS[address.engine]
    if find_spec(module) is None:
        findings.problem(
            URL,
            f"names a {address.engine} database, and the package {module} is not installed",
            f"Install it: pip install 'dil-spark[{extra}]'",
        )
    operation = values[OPERATION]
    return WarehouseSpec(
        url=SecretUrl(address.url()),
        schema=schema,
        table=table,
        kind=TableKind(values.text("ms.warehouse.table.kind")),
        operation=Operation(operation) if isinstance(operation, str) else Operation.INSERT,
    )


def _address(values: Properties, folder: Path, findings: Findings) -> WarehouseAddress | None:
    from dil.text.database_url import DatabaseUrlError  # few jobs need it
    from dil.text.warehouse_url import read_warehouse_url

    url, user, password = (values.secret(name) for name in (URL, USER, PASSWORD))
    try:
        found = read_warehouse_url(url.reveal() if url else "")
    except DatabaseUrlError as error:
        findings.problem(URL, error.what, error.fix)
        return None
    if found.server is None:
        for name, given in ((USER, user), (PASSWORD, password)):
            if given:
                findings.notice(name, f"has no effect: {found.engine} knows no users", "")
        return _in_file(found, folder, findings)
    server = replace(
        found.server,
        user=user.reveal() if user else found.server.user,
        password=password or found.server.password,
    )
    return replace(found, server=server)


def _in_file(found: WarehouseAddress, folder: Path, findings: Findings) -> WarehouseAddress | None:
    try:
        return replace(found, path=str(local_path(found.path, folder)))
    except PathError as error:
        findings.problem(URL, f"names a file that {error}", "Use a local path.")
        return None


def _check_kind(values: Properties, findings: Findings) -> None:
    """Refuse what contradicts itself: two destinations, or two ways to publish."""
    if values.text("ms.table.format") != TableFormat.FILES:
        findings.problem(
            URL,
            f"is set, and so is ms.table.format={values.text('ms.table.format')}",
            "Rows go to one place: leave one of them out.",
        )
    operation, mode = values[OPERATION], values["ms.publish.mode"]
    if isinstance(operation, str) and isinstance(mode, str):
        allowed = _MODES[Operation(operation)]
        if mode not in allowed:
            findings.problem(
                OPERATION,
                f'is "{operation}", which contradicts ms.publish.mode={mode}',
                f"Leave one of them out; {operation} is {' or '.join(sorted(allowed))}.",
            )


def _check_names(engine: str, schema: str, table: str, findings: Findings) -> None:
    for key, name in (("extract.table.name", table), ("extract.namespace", schema)):
        if engine == "postgresql" and len(name.encode()) > _PG_NAME_BYTES:
            what = f'gives the name "{name}" of {len(name.encode())} bytes'
            findings.problem(key, what, f"PostgreSQL keeps {_PG_NAME_BYTES} bytes of a name.")
        elif engine == "mysql" and len(name) > _MYSQL_NAME_LENGTH:
            what = f'gives the name "{name}" of {len(name)} characters'
            findings.problem(key, what, f"MySQL takes names of {_MYSQL_NAME_LENGTH} characters.")
    if table.lower() in _OWN_TABLES:
        findings.problem(
            "extract.table.name",
            f'is "{table}", the name of a table that records what was loaded',
            "Choose another name.",
        )


def _note_unused(values: Properties, findings: Findings) -> None:
    """Say what has no effect without a database; one that could not be read was told before."""
    if values[URL] is not None:
        return
    for name in (USER, PASSWORD, OPERATION):
        if name in values.explicit and values[name] is not None:
            findings.notice(name, f"has no effect: {URL} is not set", f"Set {URL} too.")
