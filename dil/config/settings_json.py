"""JSON properties as frozen models: one reader per property."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from dil.config.derived_json import derived_fields
from dil.config.findings import REGEX_FIX, suggestion
from dil.config.parameters_json import parameters
from dil.config.paths import PathError, local_path
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
from dil.config.values import ValueProblem, duration_ms
from dil.model.job import DAY_MS
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
from dil.text.variables import placeholders

_SECRET_HEADER = re.compile(
    r"authorization|cookie|token|secret|passw|api-?key|signature", re.IGNORECASE
)
# behaviour.md says nothing; the defaults are those of properties.yaml.
_RETENTION = {"state.store": 90 * DAY_MS, "publish.dir": 731 * DAY_MS, "log": 30 * DAY_MS}
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
    if members.get("encryption") == "":  # as DIL's documents write it beside the method custom
        members["encryption"] = "none"
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
    sources = each(
        as_array(value), lambda item, where: _secondary_input(item, where, around.resolver.folder)
    )
    if sum(source.category == "authentication" for source in sources) > 1:
        around.notice(
            "has more than one authentication entry; all of them together must give one row",
            "Keep one entry, or let filters leave one row.",
        )
    for index, source in enumerate(sources):
        if not source.fields and source.category in {"activation", "authentication"}:
            gives = "no variable" if source.category == "authentication" else "one unit, {}"
            around.notice(f"[{index}] names no fields, so it gives {gives}", "Name its fields.")
    return sources


def _secondary_input(item: JsonValue, where: str, folder: Path) -> SecondaryInput:
    source = build(SecondaryInput, as_object(item, where), where)
    findings = [
        (f"{where}.filters.{column}: {error}", REGEX_FIX)
        for column, pattern in source.filters.items()
        if (error := _regex_error(pattern))
    ]
    used = placeholders(source.path)
    if not source.path.strip():
        findings.append((f"{where}.path is blank", "Name a folder or a file."))
    if used and source.category != "payload":
        names = ", ".join(f"{{{{{name}}}}}" for name in used)
        findings.append(
            (
                f"{where}.path uses {names}, and {source.category} input is read once for all "
                "work units",
                "Variables are for category payload; ${name} works everywhere.",
            )
        )
    if source.format is not None and source.category != "payload":
        findings.append(
            (f"{where}.format is for category payload only", "Leave it out to read rows.")
        )
    if findings:
        raise ShapeError(*findings)
    return source.model_copy(update={"path": _located(source.path, folder)})


def _located(path: str, folder: Path) -> str:
    """Return the absolute path; one of another kind, or one that a variable begins, as it is."""
    try:
        return path if path.startswith("{{") else str(local_path(path, folder))
    except PathError:
        return path  # A run refuses it; planning alone does not read it.


def _retention(value: JsonValue, around: Surroundings) -> dict[str, int]:
    """Return the periods in milliseconds; members that are left out keep their default."""
    del around
    periods, findings = dict(_RETENTION), []
    for name, text in as_object(value).items():
        if name not in periods:
            known = f"Known members: {', '.join(periods)}."
            findings.append(
                (f'has the unknown member "{name}"', suggestion(name, periods) or known)
            )
            continue
        try:
            periods[name] = duration_ms(as_text(text))
        except ValueProblem as problem:
            findings.append((f"{name} {problem.what}", problem.fix))
    if findings:
        raise ShapeError(*findings)
    return periods


def _check_regex(pattern: str, where: str) -> None:
    if error := _regex_error(pattern):
        raise ShapeError((f"{where}: {error}", REGEX_FIX)) from error


def _regex_error(pattern: str) -> ValueError | None:
    try:
        compile_java(pattern)
    except ValueError as error:
        return error
    return None


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
    "ms.retention": _retention,
}
_EMPTY: Mapping[str, Callable[[], object]] = {
    "ms.retention": _RETENTION.copy,
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
