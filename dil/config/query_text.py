"""The text of a query: SQL in the job file, SQL of a file, or a Python function."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dil.config.findings import Findings
from dil.config.inheritance import TrustedUsers
from dil.config.query_inputs import QueryParts
from dil.config.read_context import path_of
from dil.model.job import ClassRef
from dil.model.messages import nearest
from dil.model.properties import Properties
from dil.sections.query import FILE, FUNCTION, INPUTS, SQL, QuerySection


@dataclass(frozen=True, slots=True)
class QueryText:
    """SQL and where it was written, or a function; the fields are as in QuerySpec."""

    text: str = ""
    places: tuple[tuple[int, str], ...] = ()
    function: ClassRef | None = None
    code: str = ""


def query_text(parts: QueryParts, values: Properties, findings: Findings) -> QueryText:
    """Return the query of a job; problems become findings."""
    section = values.section(QuerySection)
    given = [name for name in (SQL, FILE, FUNCTION) if name in values.explicit]
    if len(given) != 1:
        what = f"is set, and {' and '.join(given[1:])} too" if given else ""
        findings.problem(
            given[0] if given else INPUTS,
            what or "needs a query, and has none",
            f"Set exactly one of {SQL}, {FILE} and {FUNCTION}.",
        )
        return QueryText()
    if section.file:
        return _sql_of_file(section.file, parts, findings)
    if section.function:
        return _function(section.function, findings)
    if parts.sql is None or not section.sql:
        return QueryText(section.sql)
    starts = (0, *parts.sql.breaks)
    places = tuple((start, str(parts.sql.origin_at(start))) for start in starts)
    return QueryText(section.sql, places)


def _sql_of_file(text: str, parts: QueryParts, findings: Findings) -> QueryText:
    named = path_of(text, FILE, parts.folder, findings)
    if not named:
        return QueryText()
    path = Path(named)
    try:
        found = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        findings.problem(
            FILE,
            f"names {path}, which cannot be read: {reason}",
            "A relative path starts at the folder of the job file.",
        )
        return QueryText()
    # A query can call everything that Spark can reach, so it counts as a class of the job's own.
    if doubt := TrustedUsers(parts.path).doubt(path, in_project=True):
        findings.problem(
            FILE,
            f"would run the query in {path}, which {doubt}",
            "Move it to a folder that other users cannot write to.",
        )
    if not found.strip():
        findings.problem(FILE, f"names {path}, which is empty", "Write the query into it.")
    starts = [0, *(line.end() for line in re.finditer("\n", found))]
    places = tuple((start, f"{path}:{number}") for number, start in enumerate(starts, 1))
    return QueryText(found, places if found else ())


def _function(text: str, findings: Findings) -> QueryText:
    """Return a function with the SHA-256 of its module's file; the module is not imported."""
    module, _, name = text.partition(":") if ":" in text else text.rpartition(".")
    module, name = module.strip(), name.strip()
    if not (name.isidentifier() and all(map(str.isidentifier, module.split(".")))):
        findings.problem(
            FUNCTION,
            f'is "{text}", which is not of the form module:function',
            "For example queries:big for def big(inputs) in queries.py beside the job file.",
        )
        return QueryText()
    function = ClassRef(module, name)
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        findings.problem(
            FUNCTION,
            f'is "{function}", and there is no module {module}',
            "Modules are looked for in the installed packages, in the folder of the job file and in"
            " ms.plugin.path.",
        )
        return QueryText(function=function)
    content = Path(found.origin).read_bytes()
    try:
        names = list(dict.fromkeys(_names(ast.parse(content, found.origin))))
    except (SyntaxError, ValueError) as error:
        findings.problem(FUNCTION, f'is "{function}", which is no Python: {error}', "Correct it.")
        return QueryText(function=function)
    if name not in names and "*" not in names:
        findings.problem(
            FUNCTION,
            f'is "{function}", and {found.origin} has no function {name}',
            nearest(name, names, f"It has: {', '.join(names) or 'none'}."),
        )
    return QueryText(function=function, code=hashlib.sha256(content).hexdigest())


def _names(block: ast.AST) -> Iterator[str]:
    """Yield the names that a module may define, also in blocks such as ``if`` and ``try``.

    A star import yields ``*``: only the imported module says which names it has.
    """
    for node in ast.iter_child_nodes(block):
        match node:
            case ast.FunctionDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (each.asname or each.name for each in node.names)
            case ast.Assign():
                targets = (inner for target in node.targets for inner in ast.walk(target))
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.ClassDef() | ast.AsyncFunctionDef():
                pass  # the names inside are not the module's
            case _:
                yield from _names(node)
