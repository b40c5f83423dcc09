"""How HTTP is spoken to name nodes and data nodes, and whom TLS trusts there."""

from __future__ import annotations

import getpass
import os
import ssl
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from dil.storage.hdfs.nameservices import HadoopSetupError

_BUNDLE = "REQUESTS_CA_BUNDLE"


def new_session() -> requests.Session:
    """Return a session; a cluster is asked by the name that its nodes have, and by no proxy.

    What REQUESTS_CA_BUNDLE names is trusted, and nothing else of the environment is obeyed.
    """
    session = requests.Session()
    session.trust_env = False
    session.verify = _authorities()
    session.headers["Accept-Encoding"] = "identity"
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
    return session


def user_here() -> str:
    """Return whom name nodes take this process for, as Hadoop's own clients do without Kerberos.

    Raises:
        HadoopSetupError: HADOOP_USER_NAME is not set, and the user of this process has no name.
    """
    try:
        environ = os.environ  # noqa: TID251 - as Hadoop's own clients do
        return environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (OSError, KeyError) as error:  # such as in a container of any number's user
        raise HadoopSetupError(
            "the user of this process has no name, and HDFS asks for one",
            "Set HADOOP_USER_NAME, for executors as well.",
        ) from error


def tls_context() -> ssl.SSLContext:
    """Return whom TLS trusts, as the session does: a file of certificates, or a folder.

    Raises:
        HadoopSetupError: REQUESTS_CA_BUNDLE names neither.
    """
    authorities = _authorities()
    try:
        if Path(authorities).is_dir():
            return ssl.create_default_context(capath=authorities)
        return ssl.create_default_context(cafile=authorities)
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or type(error).__name__
        raise HadoopSetupError(
            f"{_BUNDLE} names {authorities}, where no certificates can be read ({reason})",
            "Let it name a file of authorities (PEM), or a folder of them that openssl rehash"
            " prepared, here and for executors.",
        ) from None


def _authorities() -> str:
    environ = os.environ  # noqa: TID251 - as requests does
    return environ.get(_BUNDLE) or DEFAULT_CA_BUNDLE_PATH
