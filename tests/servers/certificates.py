"""Certificates for tests, made on the spot: an authority, a server on loopback, a client."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_START = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_DAYS = 36_500
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Identity:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """Return the certificate alone."""
        return self.certificate.public_bytes(_PEM)

    def key_pem(self, password: str = "") -> bytes:
        """Return the private key, encrypted if there is a password."""
        return self.key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, _encryption(password)
        )

    def pkcs12(self, password: str, *others: Identity) -> bytes:
        """Return a PKCS#12 store with the certificate, its key, and certificates of others."""
        return pkcs12.serialize_key_and_certificates(
            b"me", self.key, self.certificate, [one.certificate for one in others],
            _encryption(password),
        )  # fmt: skip


def authority(name: str, *, days: int = _DAYS) -> Identity:
    """Return an authority with a self-signed certificate, valid from 2020 for ``days``."""
    return _made(name, None, x509.BasicConstraints(ca=True, path_length=None), days)


def server_of(issuer: Identity, address: str = "127.0.0.1", *, days: int = _DAYS) -> Identity:
    """Return a server's identity for an address of loopback; it is valid from 2020 for ``days``."""
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    return _made("server", issuer, host, days)


def client_of(issuer: Identity, *, days: int = _DAYS) -> Identity:
    """Return a client's identity, valid from 2020 for ``days``."""
    return _made("client", issuer, x509.BasicConstraints(ca=False, path_length=None), days)


def trust_store(password: str, *authorities: Identity) -> bytes:
    """Return a PKCS#12 store that has only certificates."""
    return pkcs12.serialize_key_and_certificates(
        None, None, None, [one.certificate for one in authorities], _encryption(password)
    )


def server_context(
    folder: Path, server: Identity, clients: Identity | None = None
) -> ssl.SSLContext:
    """Return a server's context; with ``clients`` it asks for certificates of that authority."""
    path = folder / "server.pem"
    path.write_bytes(server.pem + server.key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem.decode())
    return context


def _made(name: str, issuer: Identity | None, extension: x509.ExtensionType, days: int) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = key if issuer is None else issuer.key
    built = (
        x509.CertificateBuilder(
            subject if issuer is None else issuer.certificate.subject,
            subject,
            key.public_key(),
            x509.random_serial_number(),
        )
        .not_valid_before(_START)
        .not_valid_after(_START + dt.timedelta(days=days))
        .add_extension(extension, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Identity(built, key)


def _encryption(password: str) -> serialization.KeySerializationEncryption:
    if not password:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())
