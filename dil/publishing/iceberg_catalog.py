"""Opens the catalog of Iceberg tables."""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.typedef import Identifier

from dil.errors import StateError
from dil.model.destination import TableSpec
from dil.model.secret import MASK, SecretUrl
from dil.publishing.destination import shown
from dil.publishing.iceberg_io import FILESYSTEM, PublishingFileIO
from dil.publishing.table_files import words
from dil.storage import Filesystem

NAME = "default"
_KEY = "ms.iceberg.catalog.uri"
_SERVER_FIX = (
    "Check that its server runs and can be reached from this machine, and that its driver is"
    " installed; check host, port, user and password in the property."
)
_FIXES = {
    "sqlite": "If that file is not a catalog, name another one; if it was a catalog, restore it"
    " from a copy. Its folder must exist and be writable.",
    **dict.fromkeys(
        ("http", "https"),
        "Check that the service runs and can be reached from this machine, and the credentials in"
        " PyIceberg's own settings.",
    ),
}
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}


def open_catalog(spec: TableSpec, filesystem: Filesystem) -> Catalog:
    """Return the catalog; settings that the URI lacks come from PyIceberg's own settings.

    Metadata is read and written through ``filesystem``, as published files are.

    Raises:
        StateError: the catalog cannot be reached.
    """
    url = spec.catalog_uri or SecretUrl("")
    uri = url.reveal()
    scheme, colon, rest = uri.partition(":")
    properties: dict[str, Any] = {
        "uri": f"{_DRIVERS.get(scheme, scheme)}{colon}{rest}",
        "type": "rest",
        "py-io-impl": f"{PublishingFileIO.__module__}.{PublishingFileIO.__name__}",
        FILESYSTEM: filesystem,
    }
    if scheme not in {"http", "https"}:
        # A catalog service would take ``warehouse`` for the name of one of its catalogs.
        # A server may have closed a connection that was idle between two calls.
        properties |= {
            "type": "sql",
            "warehouse": spec.catalog_warehouse,
            "pool_pre_ping": "true",
        }
    try:
        return load_catalog(NAME, **properties)
    except Exception as error:  # Database and HTTP libraries raise errors of any class.
        raise StateError(
            f"the Iceberg catalog at {shown(url)}, which {_KEY} names, cannot be opened:"
            f" {_cause(error, uri)}",
            f"{_FIXES.get(scheme, _SERVER_FIX)} Nothing was changed.",
        ) from error


def _cause(error: Exception, uri: str) -> str:
    """Return a driver's message on one line and without the password."""
    origin = getattr(error, "orig", None) or error
    # The first member of MySQL's errors is a number.
    last = origin.args[-1] if origin.args else ""
    text = words(last if isinstance(last, str) and last else origin)
    login, _, host = urlsplit(uri).netloc.rpartition("@")
    password = login.partition(":")[2]
    if not login:
        return text
    secrets = (re.escape(secret) for secret in (password, unquote(password)) if secret)
    hidden = (
        # If a password contains an @, a driver may take the part behind it for the beginning of the
        # host.
        rf"[^\s'\"]*@(?={re.escape(host)})",
        *(rf"(?<!\w){secret}(?!\w)" for secret in secrets),
    )
    return re.sub("|".join(hidden), MASK, text)


def metadata_location(catalog: Catalog, name: Identifier) -> str | None:
    """Return the location of a table's newest metadata, which each change of the table renews.

    The result is None if there is no table, or if the catalog gives the location only with the
    metadata.
    """
    if catalog.properties.get("type") != "sql":
        return None
    # Imported here: a service's catalog needs no SQLAlchemy.
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    statement = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == Catalog.namespace_to_string(name[:-1]),
        IcebergTables.table_name == name[-1],
    )
    with Session(cast("SqlCatalog", catalog).engine) as session:
        return session.scalar(statement)
