"""Secondary input: its properties and JSON. See docs/secondary-input.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge

from dil.model.json import JsonValue
from dil.model.messages import REGEX_FIX
from dil.model.path import Path
from dil.model.secondary import SecondaryInput
from dil.model.section import Bool, Long, Section, ValueType, Written, prop
from dil.sections.grammars import path_problem, regex_error
from dil.sections.reading import Finding, ReadContext, ShapeError, as_array, as_object, build, each
from dil.storage.locations import PathError, any_path, is_this_machine
from dil.text.paths import name_of
from dil.text.variables import placeholders

SECONDARY = "ms.secondary.input"


def _inputs(value: JsonValue, around: ReadContext) -> tuple[SecondaryInput, ...]:
    sources = each(as_array(value), lambda item, where: _input(item, where, around))
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


def _input(item: JsonValue, where: str, around: ReadContext) -> SecondaryInput:
    source = build(SecondaryInput, as_object(item, where), where)
    findings = [
        (f"{where}.filters.{column}: {error}", REGEX_FIX)
        for column, pattern in source.filters.items()
        if (error := regex_error(pattern))
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
    if source.encrypted and not source.fields:
        findings.append(
            (
                f"{where}.encrypted decrypts texts of named fields, and no field is named",
                "Name its fields.",
            )
        )
    findings.extend(_wrong_paths(source, where))
    if findings:
        raise ShapeError(*findings)
    return replace(source, path=_located(source.path, around))


def _wrong_paths(source: SecondaryInput, where: str) -> Iterator[Finding]:
    """Yield the problems of JSONPath in fields and filters."""
    found = [
        path_problem(f"{where}.fields[{number}]", text, _named_in_column)
        for number, text in enumerate(source.fields)
    ]
    found += [
        path_problem(f"a name in {where}.filters", text, _in_column) for text in source.filters
    ]
    if any(found):
        yield from filter(None, found)
        return
    counts = Counter(name_of(text) for text in dict.fromkeys(source.fields))
    for name in (name for name, count in counts.items() if count > 1):
        yield (
            f'{where}.fields has more than one path to a value named "{name}"',
            "Keep one of them: rows and variables have each name once.",
        )


def _in_column(path: Path) -> str:
    begins_with_name = bool(path.steps) and isinstance(path.steps[0], str)
    return "" if begins_with_name else "does not begin with the name of a column"


def _named_in_column(path: Path) -> str:
    return _in_column(path) or ("" if path.name else "does not end with a name for its value")


def _located(path: str, around: ReadContext) -> str:
    """Return the absolute path; URIs and paths that begin with a variable stay unchanged."""
    if path.startswith("{{"):
        is_here = not around.file_system or is_this_machine(around.file_system)
        return path if is_here else f"{around.file_system.rstrip('/')}/{path}"
    try:
        return any_path(path, around.folder, around.file_system)
    except PathError:
        return path  # A run refuses it; planning alone does not read it.


_Inputs = Annotated[tuple[SecondaryInput, ...], Written(ValueType.JSON_ARRAY, read=_inputs)]
_EXAMPLE = """\
[{"path": "/lake/crm/token", "fields": ["access_token"], "category": "authentication",
  "retry": {"delayInSec": 30, "retryCount": 10}}]"""


@dataclass(frozen=True, slots=True)
class SecondarySection(Section):
    """Output of earlier jobs that a run reads first."""

    inputs: _Inputs = prop(
        SECONDARY,
        "Output of earlier jobs to read first: `activation` rows become units, "
        "`authentication` gives variables. `payload` gives rows to send, one in each "
        "request, `validation` rows to compare with.",
        default=(),
        example=_EXAMPLE,
    )
    parses_json: Bool = prop(
        "ms.hdfs.reader.parse.json.strings",
        "Whether texts of secondary input that look like JSON, `{...}` or `[...]`, are read as "
        "JSON.",
        default=False,
    )

    max_bytes: Annotated[Long, Ge(0)] = prop(
        "ms.secondary.input.max.bytes",
        "Most bytes, unpacked, that a run may read of one `activation` or `authentication` input; "
        "each row counts 256 bytes more. A longer input fails with DIL-SRC-CONTRACT. 0 is no "
        "limit.",
        default=1 << 30,
        identity=False,
    )

    @property
    def payload(self) -> tuple[SecondaryInput, ...]:
        """Return the inputs of rows or files to send."""
        return tuple(each for each in self.inputs if each.category == "payload")

    @property
    def has_payload(self) -> bool:
        """Return whether there are rows to send."""
        return any(each.format is None for each in self.payload)

    @property
    def variables(self) -> frozenset[str]:
        """Return the names of the variables from authentication and activation rows."""
        return self.fields_of("activation", "authentication")

    def fields_of(self, *categories: str) -> frozenset[str]:
        """Return the names of the fields of the inputs of some categories."""
        giving = (each for each in self.inputs if each.category in categories)
        return frozenset(name for each in giving for name in map(name_of, each.fields))
