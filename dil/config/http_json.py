"""JSON properties of HTTP as frozen models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from dil.config.authentication_json import authentication
from dil.config.findings import nearest
from dil.config.paths import PathError, local_path
from dil.config.shape import ShapeError, Surroundings, as_object, build, is_scalar
from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret
from dil.model.settings import HttpStatuses, HttpStatusReasons, TlsSettings
from dil.secrets import is_reference

_SECRET_HEADER = re.compile(
    r"authorization|cookie|token|secret|passw|api-?key|signature", re.IGNORECASE
)
_STORES = ("pkcs12", "p12", "pfx", "pem")
_JAVA_STORES = ("jks", "jceks")
_TLS_VERSIONS = ("tls", "tlsv1.2", "tlsv1.3")
_TLS_SECRETS = ("keyStorePassword", "keyPassword", "trustStorePassword")


def _headers(value: JsonValue, around: Surroundings) -> dict[str, str | Secret]:
    headers: dict[str, str | Secret] = {}
    for name, item in as_object(value).items():
        if item is None or not is_scalar(item):
            raise ShapeError((f'header "{name}" has no text', "Write the header's value as text."))
        text = as_text(item)
        is_secret = is_reference(text) or _SECRET_HEADER.search(name)
        headers[name] = around.secret(text, f'header "{name}"') if is_secret else text
    return headers


def _statuses(value: JsonValue, around: Surroundings) -> HttpStatuses:
    del around
    return build(HttpStatuses, as_object(value))


def _reasons(value: JsonValue, around: Surroundings) -> HttpStatusReasons:
    del around
    return build(HttpStatusReasons, as_object(value))


def _content_types(value: JsonValue, around: Surroundings) -> dict[str, str]:
    members = as_object(value)
    if "content-type" not in {name.lower() for name in members}:
        around.notice("has no Content-Type, so it has no effect", 'Name it "Content-Type".')
    found: dict[str, str] = {}
    for name, item in members.items():
        if not isinstance(item, str):
            raise ShapeError((f'"{name}" is no text', "Write a media type."))
        found[name] = item
    return found


def _tls(value: JsonValue, around: Surroundings) -> TlsSettings:
    members: dict[str, object] = dict(as_object(value))
    for name in _TLS_SECRETS:
        text = members.get(name)
        if isinstance(text, str):
            members[name] = around.secret(text, name) if text else None
    settings = build(TlsSettings, members)
    findings = [*_tls_findings(settings)]
    # Negative time-outs act as the default (properties.yaml, ms.ssl).
    updates: dict[str, object] = {
        name: 60
        for name in ("connect_timeout_s", "socket_timeout_s")
        if getattr(settings, name) < 0
    }
    for field, member in (
        ("key_store_path", "keyStorePath"),
        ("trust_store_path", "trustStorePath"),
    ):
        text = getattr(settings, field)
        try:
            updates[field] = str(local_path(text, around.resolver.folder)) if text else ""
        except PathError as error:
            findings.append((f"{member} {error}", "Use a local path that every executor has."))
    if findings:
        raise ShapeError(*findings)
    return replace(settings, **updates)


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


READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {
    "ms.http.request.headers": _headers,
    "ms.authentication": authentication,
    "ms.http.statuses": _statuses,
    "ms.http.status.reasons": _reasons,
    "ms.http.response.type": _content_types,
    "ms.ssl": _tls,
}
EMPTY: Mapping[str, Callable[[], object]] = {
    "ms.http.request.headers": dict,
    "ms.http.response.type": dict,
    "ms.http.statuses": HttpStatuses,
    "ms.http.status.reasons": HttpStatusReasons,
    "ms.ssl": TlsSettings,
}
