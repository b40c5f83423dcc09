"""Evaluates ``ms.parameters`` for one request (rules G31 to G35)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dil.errors import ConfigError, SourceContractError
from dil.model.job import ExtractionSpec
from dil.model.json import JsonObject, JsonValue, as_text, read_number
from dil.model.path import MISSING, Missing
from dil.model.secondary import SecondaryVariables
from dil.model.secret import Secret
from dil.model.settings import Parameter, flat_parameters, inner_parameters
from dil.model.work_unit import WorkUnit
from dil.spi.connector import RequestValues
from dil.text.joda import compile_pattern
from dil.text.variables import substitute

# The types whose value is in the job file; the value of an object is a list of parameters.
_DECLARED = {"list", "primitive", "jsonarray", "jsonobject"}
_SECONDS = {"epoc-second", "epoch-second"}


@dataclass(frozen=True, slots=True)
class PageValues:
    """The page values for the next request; None means no value.

    ``session`` is the session key. An empty session key is a value too (rule G27): it replaces its
    placeholder, but it is not sent as a parameter.
    """

    start: int | None = None
    size: int | None = None
    number: int | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class ParameterScope:
    """The values for parameters of one work unit; ``low`` and ``high`` are epoch ms UTC.

    ``variables`` are the unit's members and the authentication fields; a field replaces a member of
    the same name (rule G31). ``members`` are the unit's members alone. Secrets in both are plain
    text.
    """

    low: int
    high: int
    full_extract: bool
    variables: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)
    members: Mapping[str, JsonValue] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        work_unit: WorkUnit,
        *,
        full_extract: bool,
        secondary: SecondaryVariables | None = None,
    ) -> ParameterScope:
        """Return the scope of a work unit: the time still to read, and the unit's values."""
        given = secondary or SecondaryVariables()
        return cls(
            work_unit.low,
            work_unit.high,
            full_extract,
            given.over(work_unit.unit),
            given.opened(work_unit.unit),
        )


def evaluate(
    parameters: Sequence[Parameter],
    scope: ParameterScope,
    pages: PageValues,
    *,
    page: int = 0,
) -> RequestValues:
    """Return the values of one request: all parameters, evaluated.

    Variables in each text of the job file, at any depth, are replaced once; variables inside an
    inserted value stay. Values from elsewhere are no templates: units, activation rows,
    authentication fields, session keys, watermarks. Temporaries (names that begin with ``tmp``) can
    be used, also in the URI and in headers, but are never sent (rule G32). Secrets are revealed
    here: the result must not be printed.

    Raises:
        ConfigError: a primitive has no value, a datetime has no pattern, or a parameter refers to
            itself.
    """
    declared = {
        name: value
        for name, value in _members(parameters, scope, pages).items()
        if name not in scope.variables
    }
    # A unit variable replaces the parameter of its name, and is sent (rule G32).
    order = dict.fromkeys(parameter.name for parameter in parameters)
    known: dict[str, JsonValue] = {
        name: scope.variables.get(name, declared.get(name))
        for name in order
        if name in declared or name in scope.variables
    }
    known.update(scope.variables)
    last = {parameter.name: parameter for parameter in parameters}
    substituted = {
        name: _filled(last[name], declared[name], _Filling(name, known))
        if name in declared
        else known[name]
        for name in order
        if name in known
    }
    variables = {**known, **substituted}
    sent: dict[str, JsonValue] = {}
    members: JsonObject = {}
    for name, value in substituted.items():
        if name in declared and last[name].is_members:
            members = _session_members(value)
        elif _is_sent(name, value, parameters):
            sent[name] = value
    return RequestValues(variables, {**sent, **members}, page, given=frozenset(members))


def initial_values(spec: ExtractionSpec, scope: ParameterScope) -> PageValues:
    """Return the page values of the first request; a page value that is not configured is None.

    The first session key may hold variables: members of the unit, which are in its signature, so
    that a walk from another key is never taken for this one.

    Raises:
        SourceContractError: the unit has no such member, or it is null.
    """
    given: tuple[int | None, ...] = (*spec.pagination.initial_values, None, None, None)
    session = spec.session.init_value if spec.session else None
    if session:
        members = scope.members
        found = substitute(
            session, {name: members[name] for name in members if members[name] is not None}
        )
        for name in sorted(found.missing):
            lack = f"{name} is null in this unit" if name in members else "this unit lacks it"
            raise SourceContractError(
                f"initValue of ms.session.key.field uses {{{{{name}}}}}, and {lack}",
                "Give each unit a value of this name, such as the position from which to begin.",
            )
        session = found.text
    return PageValues(given[0], given[1], given[2], session)


def first_request(spec: ExtractionSpec, scope: ParameterScope) -> RequestValues:
    """Return the values of the first request of a work unit.

    It raises the errors of ``evaluate`` and ``initial_values``.
    """
    return evaluate(spec.parameters, scope, initial_values(spec, scope))


def differs_by_load(parameters: Iterable[Parameter]) -> bool:
    """Return whether requests of a full run differ from those of an incremental run (rule G34)."""
    return any(
        parameter.type == "list"
        and isinstance(parameter.value, list | tuple)
        and len(parameter.value) > 1
        for parameter in flat_parameters(parameters)
    )


def _is_sent(name: str, value: JsonValue, parameters: Sequence[Parameter]) -> bool:
    """Return whether a parameter is sent if no placeholder uses it."""
    if name.startswith("tmp"):
        return False
    is_session = any(p.name == name and p.type == "session" for p in parameters)
    return not (is_session and value == "")


def _members(
    parameters: Iterable[Parameter], scope: ParameterScope, pages: PageValues
) -> dict[str, JsonValue]:
    """Return the values of the parameters that have one; of equal names the last one wins."""
    members: dict[str, JsonValue] = {}
    for parameter in parameters:
        members.pop(parameter.name, None)
        value = _value(parameter, scope, pages)
        if not isinstance(value, Missing):
            members[parameter.name] = value
    return members


def _value(parameter: Parameter, scope: ParameterScope, pages: PageValues) -> JsonValue | Missing:
    """Return the value that the parameter has now, MISSING if it has none."""
    match parameter.type:
        case "list":
            return _list_text(parameter.value, full=scope.full_extract)
        case "object":
            return _members(inner_parameters(parameter), scope, pages)
        case "primitive" | "jsonarray" | "jsonobject":
            if parameter.value is None and parameter.type == "primitive":
                raise _wrong(parameter, "is of type primitive but has no value")
            return _plain(parameter.value)
        case "watermark":
            return _watermark(parameter, scope)
        case "session" if pages.session is not None:
            is_nested = parameter.format == "json" or parameter.is_members
            return _nested_key(pages.session) if is_nested else pages.session
        case _:
            value = {
                "session": None,
                "pagestart": pages.start,
                "pagesize": pages.size,
                "pageno": pages.number,
            }[parameter.type]
            return MISSING if value is None else value


def _nested_key(key: str) -> JsonValue:
    """Return the array or object of a session key (rule G34); other keys are texts."""
    try:
        found: JsonValue = json.loads(key, parse_int=read_number, parse_float=read_number)
    except (ValueError, RecursionError):
        return key
    return found if isinstance(found, list | dict) else key


def _session_members(key: JsonValue) -> JsonObject:
    """Return the members of a session key that have a value: each is a parameter (rule G34)."""
    if key == "":
        return {}
    if not isinstance(key, Mapping):
        raise ConfigError.single(
            "ms.session.key.field",
            "has an initValue that is no object in this unit, and its parameter has the format"
            " members",
            "The values that fill initValue must be as JSON writes them: a quote inside a text"
            " needs a backslash.",
        )
    return {name: value for name, value in key.items() if value is not None}


def _list_text(value: object, *, full: bool) -> str:
    """Return the text of a list value: element 0 in a full run, else element 1 (rule G34)."""
    if not isinstance(value, list | tuple):
        return as_text(_plain(value))
    position = 0 if full or len(value) == 1 else 1
    return as_text(_plain(value[position])) if value else ""


def _plain(value: object) -> JsonValue:
    """Return the JSON value with its secrets revealed."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value  # type: ignore[return-value] # Parameter.value is Any, and came from JSON


def _watermark(parameter: Parameter, scope: ParameterScope) -> JsonValue | Missing:
    """Return an end of the window, or its last instant, in the parameter's format (rule G35)."""
    word = str(parameter.value).lower()
    is_low = word == "low"
    instant = scope.low if is_low else scope.high - (word == "last")
    if is_low and instant < 0:
        return MISSING
    if parameter.format in _SECONDS:
        return instant // 1000
    if parameter.format != "datetime":
        return instant
    if not parameter.pattern:
        raise _wrong(parameter, "has format datetime but no pattern")
    return compile_pattern(parameter.pattern).format(instant, parameter.timezone)


@dataclass(frozen=True, slots=True)
class _Filling:
    """Fills the texts of one top-level parameter, which may not refer to itself (rule G33)."""

    name: str
    known: Mapping[str, JsonValue]

    def fill(self, value: JsonValue) -> JsonValue:
        """Return a declared value after replacing the variables in all its texts."""
        if isinstance(value, str):
            found = substitute(value, self.known)
            if self.name in found.used:
                raise ConfigError.single(
                    "ms.parameters",
                    f'parameter "{self.name}" refers to itself',
                    "Remove the reference: a parameter may refer only to other parameters, one"
                    " level deep.",
                )
            return found.text
        if isinstance(value, Mapping):
            return {key: self.fill(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self.fill(item) for item in value]
        return value


def _filled(parameter: Parameter, value: JsonValue, filling: _Filling) -> JsonValue:
    """Return a parameter's value with its declared texts filled; texts of the source stay."""
    if parameter.type == "object" and isinstance(value, Mapping):
        last = {inner.name: inner for inner in inner_parameters(parameter)}
        return {name: _filled(last[name], item, filling) for name, item in value.items()}
    return filling.fill(value) if parameter.type in _DECLARED else value


def _wrong(parameter: Parameter, what: str) -> ConfigError:
    return ConfigError.single("ms.parameters", f'parameter "{parameter.name}" {what}')
