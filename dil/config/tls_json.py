"""``ms.ssl`` as a frozen model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from dil.model.json import JsonValue
from dil.model.settings import TlsSettings
from dil.model.suggestions import nearest
from dil.spi.reading import ShapeError, Surroundings, as_object, build
from dil.storage.locations import PathError, local_path

_STORES = ("pkcs12", "p12", "pfx", "pem")
_JAVA_STORES = ("jks", "jceks")
_TLS_VERSIONS = ("tls", "tlsv1.2", "tlsv1.3")
_TLS_SECRETS = ("keyStorePassword", "keyPassword", "trustStorePassword")


def _tls(value: JsonValue, around: Surroundings) -> TlsSettings:
    members: dict[str, object] = dict(as_object(value))
    for name in _TLS_SECRETS:
        text = members.get(name)
        if isinstance(text, str):
            members[name] = around.secret(text, name) if text else None
    settings = build(TlsSettings, members)
    findings = [*_tls_findings(settings)]
    located = replace(
        settings,
        key_store_path=_located("keyStorePath", settings.key_store_path, around, findings),
        trust_store_path=_located("trustStorePath", settings.trust_store_path, around, findings),
        # Negative time-outs act as the default (properties.yaml, ms.ssl).
        connect_timeout_s=_positive(settings.connect_timeout_s),
        socket_timeout_s=_positive(settings.socket_timeout_s),
    )
    if findings:
        raise ShapeError(*findings)
    return located


def _positive(seconds: int) -> int:
    return 60 if seconds < 0 else seconds


def _located(member: str, text: str, around: Surroundings, findings: list[tuple[str, str]]) -> str:
    try:
        return str(local_path(text, around.folder)) if text else ""
    except PathError as error:
        findings.append((f"{member} {error}", "Use a local path that every executor has."))
        return text


def _tls_findings(settings: TlsSettings) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the kind of key store and the version of TLS."""
    kind = settings.key_store_type.lower()
    if kind in _JAVA_STORES:
        yield (
            f'keyStoreType is "{settings.key_store_type}", which only Java reads',
            "Convert it: keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12"
            ' -deststoretype PKCS12; then write "keyStoreType":"pkcs12".',
        )
    elif kind not in _STORES:
        yield (
            f'keyStoreType is "{settings.key_store_type}"',
            nearest(kind, _STORES, "Write pkcs12 or pem."),
        )
    if settings.version.lower() not in _TLS_VERSIONS:
        yield (
            f'version is "{settings.version}", which is no version of TLS that is safe',
            "Write TLSv1.2 or TLSv1.3.",
        )


READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {"ms.ssl": _tls}
EMPTY: Mapping[str, Callable[[], object]] = {"ms.ssl": TlsSettings}
