"""Makes the TLS context of a client from ``ms.ssl``: trusted authorities, own certificate."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dil.errors import ConfigError
from dil.model.secret import Secret, revealed
from dil.model.settings import TlsSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_KEY = "ms.ssl"
_VERSIONS = {"TLSV1.2": ssl.TLSVersion.TLSv1_2, "TLSV1.3": ssl.TLSVersion.TLSv1_3}
_PEM_BEGIN = b"-----BEGIN "
# The first bytes of Java's own key stores, JKS and JCEKS.
_JAVA_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


def client_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the TLS context of a client; it always verifies certificates and names (rule S10).

    A trust store replaces the system's authorities, as in Java.

    Raises:
        ConfigError: a store cannot be read, has an unsupported format, or is empty.
    """
    context = _trusting(tls) if tls.trust_store_path else ssl.create_default_context()
    context.minimum_version = _VERSIONS.get(tls.version.upper(), ssl.TLSVersion.TLSv1_2)
    if tls.key_store_path:
        _show_identity(context, tls)
    return context


def _trusting(tls: TlsSettings) -> ssl.SSLContext:
    """Return a context that trusts only the authorities of the trust store."""
    try:
        return ssl.create_default_context(cadata=_trusted(tls))
    except ssl.SSLError:
        raise _problem(
            "trustStorePath",
            tls.trust_store_path,
            "holds a damaged certificate",
            "Export the certificate again.",
        ) from None


def _trusted(tls: TlsSettings) -> str:
    """Return the certificates of the trust store as PEM."""
    from cryptography.hazmat.primitives.serialization import Encoding

    member, content = "trustStorePath", _content(tls.trust_store_path, "trustStorePath")
    if _PEM_BEGIN in content:
        text = content.decode("ascii", "replace")
    else:
        store = _pkcs12(content, (tls.trust_store_password,), member, tls.trust_store_path)
        found = [each.certificate for each in store.additional_certs]
        own = [store.cert.certificate] if store.cert is not None else []
        text = "".join(each.public_bytes(Encoding.PEM).decode("ascii") for each in (*own, *found))
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise _problem(
            member,
            tls.trust_store_path,
            "holds no certificate",
            "Add the certificate of an authority to the store.",
        )
    return text


def _show_identity(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Load the client's certificate and private key."""
    path, member = tls.key_store_path, "keyStorePath"
    content = _content(path, member)
    passwords = (tls.key_password, tls.key_store_password)
    try:
        if _PEM_BEGIN in content:
            # If the password were None, OpenSSL would ask for it on the terminal.
            context.load_cert_chain(path, password=next(filter(None, map(revealed, passwords)), ""))
        else:
            _load_pkcs12(context, _pkcs12(content, passwords[::-1], member, path), path)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise _problem(
            member,
            path,
            f"does not give a certificate with its private key ({type(error).__name__})",
            "Put both into the file, and check that keyStorePassword or keyPassword opens them.",
        ) from None


def _load_pkcs12(context: ssl.SSLContext, store: PKCS12KeyAndCertificates, path: str) -> None:
    """Load key and certificates into the context through a file: the ssl module reads only files.

    The file exists only during this call, only its owner may read it, and the key in it is
    encrypted with a random password that is never stored.
    """
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    if store.key is None or store.cert is None:
        raise _problem(
            "keyStorePath", path, "holds no private key with its certificate", "Export both."
        )
    password = secrets.token_hex(32)
    chain = (store.cert, *store.additional_certs)
    with tempfile.NamedTemporaryFile(prefix="dil-", suffix=".pem") as file:  # created with mode 600
        for each in chain:
            file.write(each.certificate.public_bytes(Encoding.PEM))
        encryption = BestAvailableEncryption(password.encode())
        file.write(store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        file.flush()
        context.load_cert_chain(file.name, password=password)


def _pkcs12(
    content: bytes, passwords: tuple[Secret | None, ...], member: str, path: str
) -> PKCS12KeyAndCertificates:
    """Return a PKCS#12 store, opened by the first password that fits."""
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    given = [text.encode() for text in map(revealed, passwords) if text]
    for password in (*given, None):
        try:
            return load_pkcs12(content, password)
        except ValueError:
            continue
    raise _problem(
        member,
        path,
        "is no PKCS#12 or PEM file that its password opens",
        "Check the path and the password of the store.",
    )


def _content(path: str, member: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise _problem(
            member,
            path,
            f"cannot be read ({error.strerror or type(error).__name__})",
            "Put the file under this path on every machine that runs tasks, readable for the job.",
        ) from None
    if content.startswith(_JAVA_MAGIC):
        raise _problem(
            member,
            path,
            "is a key store of Java's own kind (JKS), which is not read",
            f"Convert the key store: keytool -importkeystore -srckeystore {path} -destkeystore"
            f" {path}.p12 -deststoretype PKCS12",
        )
    return content


def _problem(member: str, path: str, what: str, fix: str) -> ConfigError:
    return ConfigError.single(_KEY, f"{member} {path} {what}", fix)
