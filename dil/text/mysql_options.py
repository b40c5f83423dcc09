"""What the address of a MySQL or MariaDB server means to PyMySQL.

``ssl-mode`` has the meaning that it has for MySQL's own client (MySQL manual, "Command Options for
Encrypted Connections"): encrypted where the server can, unless it says otherwise. ``preferred``,
even with ``ssl-cert``, and ``required`` verify nothing of the server; ``verify_ca``, the default
where ``ssl-ca`` is given, its certificate; ``verify_identity`` the host's name in it as well.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from dil.model.database_address import DatabaseAddress


def mysql_arguments(address: DatabaseAddress, *, connect_s: int) -> dict[str, Any]:
    """Return the arguments of ``pymysql.connect`` that an address gives.

    Args:
        address: Where the database is, and who logs in.
        connect_s: How many seconds to wait for a connection, where the address does not say.

    Raises:
        OSError: a file that the TLS options name cannot be used.
    """
    options = dict(address.options)
    arguments: dict[str, Any] = {
        "database": address.database,
        "charset": "utf8mb4",
        "connect_timeout": int(options.get("connect-timeout") or connect_s),
        "unix_socket": options.get("unix-socket"),
    }
    if address.hosts:
        arguments["host"], arguments["port"] = address.hosts[0]
    if address.user:
        arguments["user"] = address.user
    if address.password:
        # As bytes: the driver would write a text in Latin-1.
        arguments["password"] = address.password.reveal().encode()
    return {**arguments, **_tls(options)}


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    mode = options.get("ssl-mode", "verify_ca" if "ssl-ca" in options else "preferred")
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and "ssl-cert" not in options:
        return {}
    context = ssl.create_default_context(cafile=options.get("ssl-ca"))
    # Certificates that the server made for itself lack extensions that strict checking wants.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = mode == "verify_identity"
    if mode not in {"verify_ca", "verify_identity"}:
        context.verify_mode = ssl.CERT_NONE
    if "ssl-cert" in options:
        context.load_cert_chain(options["ssl-cert"], options.get("ssl-key"))
    return {"ssl": context}
