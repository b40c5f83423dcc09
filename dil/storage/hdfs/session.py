"""Makes HTTP sessions for name nodes and data nodes, and chooses the certificates to trust."""

from __future__ import annotations

import getpass
import os
import ssl
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from dil.storage.hdfs.nameservices import HadoopSetupError
from dil.storage.whole_answers import refuse_torn_answers

_BUNDLE = "REQUESTS_CA_BUNDLE"


def new_session() -> requests.Session:
    """Return a session that connects to a cluster's nodes directly, without a proxy.

    It trusts the certificates in REQUESTS_CA_BUNDLE, and ignores the rest of the environment.
    """
    session = requests.Session()
    refuse_torn_answers(session)
    session.trust_env = False
    session.verify = _authorities()
    session.headers["Accept-Encoding"] = "identity"
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
    return session


def user_here() -> str:
    """Return the user name for name nodes, in the same way as Hadoop's clients without Kerberos.

    Raises:
        HadoopSetupError: HADOOP_USER_NAME is not set, and the user of this process has no name.
    """
    try:
        environ = os.environ  # noqa: TID251 - as Hadoop's own clients do
        return environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (OSError, KeyError) as error:  # for example in a container with an arbitrary user number
        raise HadoopSetupError(
            "the user of this process has no name, but HDFS requires one",
            "Set HADOOP_USER_NAME, also for executors.",
        ) from error


def tls_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the same file or folder of certificates as the session.

    Raises:
        HadoopSetupError: REQUESTS_CA_BUNDLE is neither a file nor a folder of certificates.
    """
    authorities = _authorities()
    try:
        if Path(authorities).is_dir():
            return ssl.create_default_context(capath=authorities)
        return ssl.create_default_context(cafile=authorities)
    except OSError as error:  # ssl.SSLError is an OSError.
        reason = error.strerror or type(error).__name__
        raise HadoopSetupError(
            f"{_BUNDLE} names {authorities}, from which no certificates can be read ({reason})",
            "Set it to a file of authorities (PEM), or to a folder of them that openssl rehash"
            " prepared, on this machine and for executors.",
        ) from None


def _authorities() -> str:
    environ = os.environ  # noqa: TID251 - as requests does
    return environ.get(_BUNDLE) or DEFAULT_CA_BUNDLE_PATH
