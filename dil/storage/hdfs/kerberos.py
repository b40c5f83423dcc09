"""Who we are to a cluster with Kerberos: tickets in HTTP headers, by MIT's library.

Where the ticket comes from is for that library to know, as it does for every program of the user:
``kinit`` and KRB5CCNAME, or a key file that KRB5_CLIENT_KTNAME names, out of which it takes tickets
by itself and renews them. Source: RFC 4559; RFC 4178; Apache Hadoop 3, "Hadoop in Secure Mode".
"""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlsplit

import requests

from dil.model.messages import shortened
from dil.storage.hdfs.nameservices import HadoopSetupError, hadoop_site

_SPNEGO = "1.3.6.1.5.5.2"
_INSTALL = (
    "Install the extra kerberos, on every machine that runs tasks: pip install"
    " 'dil-spark[kerberos]'. It is built, on Debian and Ubuntu with apt-get install gcc python3-dev"
    " libkrb5-dev."
)
_LOG_IN = (
    "Log in by kinit, or let KRB5_CLIENT_KTNAME name a key file (keytab) out of which tickets are"
    " taken; here, and on every machine that runs tasks (spark.executorEnv.KRB5_CLIENT_KTNAME)."
)
_FIND = (
    "Let KRB5_CONFIG, or /etc/krb5.conf, say where the servers of the realm are, and check the"
    " network. Nothing was lost: run again."
)
# The library puts this before the words of Kerberos itself.
_MINOR = re.compile(r"Minor \(\d+\): ")
# Those words, of MIT's and of Heimdal's, and what to do; about all others one logs in.
_FIXES = (
    (("Clock skew", "time skew"), "Set this machine's clock, by NTP: five minutes are too many."),
    (
        ("Server HTTP/", "Server not found", "Server unknown"),
        "Name the name node as its principal does, HTTP/host@REALM: by the host's full name, no"
        " address and no alias.",
    ),
    (("Cannot contact any KDC", "Cannot find KDC", "unable to reach any KDC"), _FIND),
)


def uses_kerberos() -> bool:
    """Return whether core-site.xml under HADOOP_CONF_DIR says that clusters ask for tickets.

    Raises:
        HadoopSetupError: it cannot be read.
    """
    return hadoop_site("core-site.xml").get("hadoop.security.authentication") == "kerberos"


def asks_for_ticket(answer: requests.Response) -> bool:
    """Return whether a server refuses to answer who brings no ticket."""
    asked = answer.headers.get("WWW-Authenticate", "")
    return answer.status_code == requests.codes.unauthorized and asked.startswith("Negotiate")


def ticket_refusal(answer: requests.Response) -> str | None:
    """Return why a server did not take a ticket, None where that is not what it says."""
    reason = answer.reason or ""
    return shortened(reason) if "GSSException" in reason else None


def fix_of(words: str) -> str:
    """Return what to do about what Kerberos said."""
    return next((fix for known, fix in _FIXES if any(each in words for each in known)), _LOG_IN)


def ticket_headers(server: str) -> dict[str, str]:
    """Return the header that proves to ``https://host:port`` who asks; each is taken once.

    Raises:
        HadoopSetupError: there is no ticket, or none for that host; it says what to do.
    """
    try:
        import gssapi
    except (ImportError, OSError) as error:  # the package, or the library that it is built on
        what = f"{server} asks for a Kerberos ticket ({error})"
        raise HadoopSetupError(what, _INSTALL) from None
    try:
        token = _token(gssapi, urlsplit(server).hostname or "")
    except gssapi.exceptions.GSSError as error:
        words = shortened(_MINOR.split(" ".join(error.gen_message().split()))[-1])
        what = f"{server} asks for a Kerberos ticket, and there is none ({words})"
        raise HadoopSetupError(what, fix_of(words)) from None
    return {"Authorization": f"Negotiate {base64.b64encode(token).decode()}"}


def _token(gssapi: Any, host: str) -> bytes:  # noqa: ANN401 - a module that is not always there
    name = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(
        name=name, mech=gssapi.OID.from_int_seq(_SPNEGO), usage="initiate"
    )
    return bytes(context.step() or b"")
