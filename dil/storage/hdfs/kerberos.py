"""Authenticates to a cluster with Kerberos: tickets in HTTP headers, from MIT's library.

The library finds the ticket as it does for every program of the user: from ``kinit`` and
KRB5CCNAME, or from a key file in KRB5_CLIENT_KTNAME. With a key file the library gets and renews
tickets by itself. Source: RFC 4559; RFC 4178; Apache Hadoop 3, "Hadoop in Secure Mode".
"""

from __future__ import annotations

import base64
import re
from urllib.parse import urlsplit

import requests

from dil.model.messages import shortened
from dil.storage.hdfs.nameservices import HadoopSetupError, hadoop_site

_SPNEGO = "1.3.6.1.5.5.2"
_INSTALL = (
    "Install the extra kerberos, on every machine that runs tasks: pip install"
    " 'dil-spark[kerberos]'. To build it on Debian and Ubuntu, run apt-get install gcc python3-dev"
    " libkrb5-dev."
)
_LOG_IN = (
    "Log in with kinit, or set KRB5_CLIENT_KTNAME to a key file (keytab), on this machine and on"
    " every machine that runs tasks (spark.executorEnv.KRB5_CLIENT_KTNAME)."
)
_FIND = (
    "Name the realm's servers in KRB5_CONFIG or /etc/krb5.conf, and check the"
    " network. Nothing was lost: run again."
)
# The library puts this text before Kerberos's own message.
_MINOR = re.compile(r"Minor \(\d+\): ")
# Messages of MIT's and of Heimdal's Kerberos, each with its advice. For any other message the
# advice is to log in.
_FIXES = (
    (
        ("Clock skew", "time skew"),
        "Set this machine's clock, by NTP: a difference of five minutes is too much.",
    ),
    (
        ("Server HTTP/", "Server not found", "Server unknown"),
        "Name the name node by the full host name of its principal HTTP/host@REALM, not by an"
        " address or an alias.",
    ),
    (("Cannot contact any KDC", "Cannot find KDC", "unable to reach any KDC"), _FIND),
)


def uses_kerberos() -> bool:
    """Return whether core-site.xml under HADOOP_CONF_DIR says that clusters use Kerberos.

    Raises:
        HadoopSetupError: the file cannot be read.
    """
    return hadoop_site("core-site.xml").get("hadoop.security.authentication") == "kerberos"


def asks_for_ticket(answer: requests.Response) -> bool:
    """Return whether a server refuses a request because the request has no ticket."""
    asked = answer.headers.get("WWW-Authenticate", "")
    return answer.status_code == requests.codes.unauthorized and asked.startswith("Negotiate")


def ticket_refusal(answer: requests.Response) -> str | None:
    """Return why a server refused a ticket, None if it refused for another reason."""
    reason = answer.reason or ""
    return shortened(reason) if "GSSException" in reason else None


def fix_of(words: str) -> str:
    """Return the advice for a Kerberos message."""
    return next((fix for known, fix in _FIXES if any(each in words for each in known)), _LOG_IN)


def ticket_headers(server: str) -> dict[str, str]:
    """Return the header that authenticates one request of this process to ``https://host:port``.

    Raises:
        HadoopSetupError: there is no ticket, or no ticket for that host.
    """
    try:
        import gssapi
    except (ImportError, OSError) as error:  # the package, or the library that it needs
        what = f"{server} asks for a Kerberos ticket ({error})"
        raise HadoopSetupError(what, _INSTALL) from None
    try:
        host = urlsplit(server).hostname or ""
        name = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=name, mech=gssapi.OID.from_int_seq(_SPNEGO), usage="initiate"
        )
        token = bytes(context.step() or b"")
    except gssapi.exceptions.GSSError as error:
        words = shortened(_MINOR.split(" ".join(error.gen_message().split()))[-1])
        what = f"{server} asks for a Kerberos ticket, but this user has none ({words})"
        raise HadoopSetupError(what, fix_of(words)) from None
    return {"Authorization": f"Negotiate {base64.b64encode(token).decode()}"}
