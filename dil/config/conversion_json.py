"""JSON properties of converters as frozen models."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dil.config.path_checks import path_problem, through_members
from dil.model.json import JsonValue
from dil.model.path import Steps, is_jsonpath
from dil.spi.reading import ShapeError, Surroundings, as_array
from dil.text.paths import compile_path


def _encryption_fields(value: JsonValue, around: Surroundings) -> tuple[str, ...]:
    """Return the paths, each once.

    Raises:
        ShapeError: a path is blank or leads into another one, or there is no master password.
    """
    findings: list[tuple[str, str]] = []
    paths: dict[str, Steps] = {}
    for index, item in enumerate(as_array(value)):
        if not isinstance(item, str) or not (is_jsonpath(item) or all(item.split("."))):
            findings.append((f"[{index}] is no path", 'Write names with dots: "user.token".'))
        elif found := path_problem(f"[{index}]", item, through_members):
            findings.append(found)
        else:
            paths[item] = compile_path(item).steps
    findings.extend(
        (f'has "{inner}", which lies inside "{outer}"', "Name only the values themselves.")
        for outer, steps in paths.items()
        for inner, deeper in paths.items()
        if inner != outer and deeper[: len(steps)] == steps
    )
    if findings:
        raise ShapeError(*findings)
    if paths:
        around.require_password("asks for encryption")
    return tuple(paths)


READERS: Mapping[str, Callable[[JsonValue, Surroundings], object]] = {
    "ms.encryption.fields": _encryption_fields,
}
EMPTY: Mapping[str, Callable[[], object]] = {
    "ms.encryption.fields": tuple,
}
