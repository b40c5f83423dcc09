"""JSON properties as frozen models: one reader per property."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dil.config.derived_json import derived_fields
from dil.config.findings import REGEX_FIX
from dil.config.parameters_json import parameters
from dil.config.schema_json import output_schema, primitive
from dil.config.shape import (
    ShapeError,
    Surroundings,
    as_array,
    as_object,
    build,
    each,
    is_scalar,
    texts,
)
from dil.model.json import JsonValue, as_text
from dil.model.secret import Secret
from dil.model.settings import (
    Authentication,
    HttpStatuses,
    HttpStatusReasons,
    Pagination,
    SchemaCleansing,
    SecondaryInput,
    SessionKeyField,
    TlsSettings,
)
from dil.secrets import is_reference
from dil.text.java_regex import compile_java

_SECRET_HEADER = re.compile(
    r"authorization|cookie|token|secret|passw|api-?key|signature", re.IGNORECASE
)
_TLS_SECRETS = ("keyStorePassword", "keyPassword", "trustStorePassword")


def read(name: str, value: JsonValue, around: Surroundings) -> object:
    """Return the model of a JSON property that is not blank; without a reader the JSON itself.

    Raises:
        ShapeError: the value does not have the property's form.
    """
    reader = _READERS.get(name)
    return value if reader is None else reader(value, around)


def empty(name: str) -> object:
    """Return what a blank JSON property holds: its model's defaults, an empty value, or None."""
    make = _EMPTY.get(name)
    return None if make is None else make()


def _headers(value: JsonValue, around: Surroundings) -> dict[str, str | Secret]:
    headers: dict[str, str | Secret] = {}
    for name, item in as_object(value).items():
        if item is None or not is_scalar(item):
            raise ShapeError((f'header "{name}" has no text', "Write the header's value as text."))
        text = as_text(item)
        is_secret = is_reference(text) or _SECRET_HEADER.search(name)
        headers[name] = around.secret(text, f'header "{name}"') if is_secret else text
    return headers


def _authentication(value: JsonValue, around: Surroundings) -> Authentication:
    written = as_object(value)
    members: dict[str, object] = dict(written)
    token = texts({"token": written.get("token")})["token"]
    if isinstance(token, str):
        members["token"] = around.secret(token, "token") if token else None
    return build(Authentication, members)


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
    for given, what, member in (
        (settings.key_store_path, "client certificates", "keyStorePath"),
        (settings.trust_store_path, "an own trust store", "trustStorePath"),
        (settings.version != "TLSv1.2", "another version than TLSv1.2 or newer", "version"),
    ):
        if given:
            raise ShapeError(
                (f"asks for {what}, which is not supported yet", f"Leave {member} out.")
            )
    # Negative time-outs act as the default (properties.yaml, ms.ssl).
    updates = {
        name: 60
        for name in ("connect_timeout_s", "socket_timeout_s")
        if getattr(settings, name) < 0
    }
    return settings.model_copy(update=updates)


def _pagination(value: JsonValue, around: Surroundings) -> Pagination:
    del around
    return build(Pagination, as_object(value))


def _session(value: JsonValue, around: Surroundings) -> SessionKeyField:
    del around
    members = dict(as_object(value))
    if "initValue" in members:
        members.update(texts({"initValue": members["initValue"]}))
    session = build(SessionKeyField, members)
    for name, condition in (
        ("condition", session.condition),
        ("failCondition", session.fail_condition),
    ):
        if condition is not None:
            _check_regex(condition.regexp, f"{name}.regexp")
    return session


def _default_types(value: JsonValue, around: Surroundings) -> dict[str, str]:
    del around
    found: dict[str, str] = {}
    for name, word in as_object(value).items():
        if not isinstance(word, str):
            raise ShapeError((f'"{name}" has no type', f'For example {{"{name}":"string"}}.'))
        found[name] = primitive(word, f'"{name}"').word
    return found


def _cleansing(value: JsonValue, around: Surroundings) -> SchemaCleansing:
    del around
    cleansing = build(SchemaCleansing, as_object(value))
    _check_regex(cleansing.pattern, "pattern")
    return cleansing


def _secondary_inputs(value: JsonValue, around: Surroundings) -> tuple[SecondaryInput, ...]:
    del around
    return each(as_array(value), _secondary_input)


def _secondary_input(item: JsonValue, where: str) -> SecondaryInput:
    source = build(SecondaryInput, as_object(item, where), where)
    for column, pattern in source.filters.items():
        _check_regex(pattern, f"{where}.filters.{column}")
    return source


def _check_regex(pattern: str, where: str) -> None:
    try:
        compile_java(pattern)
    except ValueError as error:
        raise ShapeError((f"{where}: {error}", REGEX_FIX)) from error


_READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {
    "ms.parameters": parameters,
    "ms.derived.fields": derived_fields,
    "ms.output.schema": output_schema,
    "ms.http.request.headers": _headers,
    "ms.authentication": _authentication,
    "ms.http.statuses": _statuses,
    "ms.http.status.reasons": _reasons,
    "ms.http.response.type": _content_types,
    "ms.ssl": _tls,
    "ms.pagination": _pagination,
    "ms.session.key.field": _session,
    "ms.data.default.type": _default_types,
    "ms.schema.cleansing": _cleansing,
    "ms.secondary.input": _secondary_inputs,
}
_EMPTY: Mapping[str, Callable[[], object]] = {
    "ms.parameters": tuple,
    "ms.derived.fields": tuple,
    "ms.output.schema": tuple,
    "ms.secondary.input": tuple,
    "ms.http.request.headers": dict,
    "ms.http.response.type": dict,
    "ms.data.default.type": dict,
    "ms.http.statuses": HttpStatuses,
    "ms.http.status.reasons": HttpStatusReasons,
    "ms.ssl": TlsSettings,
    "ms.pagination": Pagination,
    "ms.schema.cleansing": SchemaCleansing,
}
