"""Measure how the code reads, and write the table of docs/contributing.md: ``make measures``.

The figures only report; they are no gates. The function that counts a row is its definition.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/contributing.md"
BEFORE = "f24e6b2"  # the last commit before the rooms moved
BEGIN, END = "<!-- measures: written by make measures -->", "<!-- end of measures -->"
SMALL = 80
PACKAGES = ("dil", "connectors")
REFERENCE = "docs/reference/properties.md"
# The path from the job file to the first request; other connectors' use of pages is not on it.
JOURNEY = ("dil.", "connectors.http")
PAGING = re.compile("pagination|paging", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One file of the code, parsed."""

    name: str
    text: str
    nodes: tuple[ast.AST, ...]

    @property
    def room(self) -> str:
        """The second part of the name: ``dil.state.chain`` is in ``state``."""
        package, _, rest = self.name.partition(".")
        return rest.partition(".")[0] if package == "dil" and rest else package

    @property
    def lines(self) -> int:
        """How many lines the file has, including blank lines."""
        return self.text.count("\n")

    def strings(self) -> Iterator[str]:
        """Yield the strings of the code, including parts of f-strings, but no docstrings."""
        docs = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            if not isinstance(node, ast.Constant) or id(node) in docs:
                continue
            if isinstance(node.value, str):
                yield node.value

    def names(self) -> Iterator[str]:
        """Yield each identifier that is defined, imported or used, as often as it occurs."""
        for node in self.nodes:
            for member in ("id", "attr", "arg", "name", "module"):
                if isinstance(found := getattr(node, member, None), str):
                    yield found


def modules_of(root: Path) -> list[Module]:
    """Parse all modules of a checkout."""
    paths = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    return [module_of(path, path.relative_to(root)) for path in paths]


def module_of(path: Path, place: Path) -> Module:
    """Parse one file, whose path in the checkout is ``place``."""
    parts = place.with_suffix("").parts
    text = path.read_text(encoding="utf-8")
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, text, tuple(ast.walk(ast.parse(text))))


def rooms(modules: list[Module]) -> dict[str, tuple[int, int]]:
    """Return modules and lines of each room."""
    found: dict[str, tuple[int, int]] = {}
    for module in modules:
        count, lines = found.get(module.room, (0, 0))
        found[module.room] = (count + 1, lines + module.lines)
    return found


def small_modules(modules: list[Module]) -> int:
    """Count modules of fewer than 80 lines."""
    return sum(module.lines < SMALL for module in modules)


def functions_used_once(modules: list[Module]) -> tuple[int, int]:
    """Count private functions and methods that their module uses once, and all functions."""
    once = total = 0
    for module in modules:
        used = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in module.nodes
            if isinstance(node, ast.Name | ast.Attribute)
        )
        defined = [node.name for node in module.nodes if isinstance(node, Function)]
        private = [name for name in defined if re.match(r"_[^_]", name)]
        once += sum(used[name] == 1 for name in private)
        total += len(defined)
    return once, total


def shared_class_names(modules: list[Module]) -> int:
    """Count names of public classes that are defined more than once, with different meanings."""
    names = Counter(
        node.name
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sum(count > 1 for count in names.values())


def imports_inside(modules: list[Module]) -> tuple[int, int]:
    """Count import statements inside functions: imports of this project's modules, and all."""
    statements = {
        inner: None
        for module in modules
        for node in module.nodes
        if isinstance(node, Function)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    own = [each for each in statements if targets(each)[0].startswith(PACKAGES)]
    return len(own), len(statements)


def targets(statement: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the names that a statement imports; each member of a package counts as a module."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [f"{statement.module}.{alias.name}" for alias in statement.names]


def import_circles(modules: list[Module]) -> int:
    """Count groups of modules that import each other; imports inside functions count, too."""
    known = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        imported = [
            target if target in known else target.rpartition(".")[0]
            for node in module.nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for target in targets(node)
        ]
        graph[module.name] = {name for name in imported if name in known} - {module.name}
    return sum(1 for _ in circles(graph))


def circles(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield each largest set of nodes that all reach one another."""
    while (start := circle(graph)) is not None:
        ahead, behind = reached(graph, start), reached(reversed_edges(graph), start)
        group = ahead & behind
        yield group
        graph = {node: after - group for node, after in graph.items() if node not in group}


def circle(graph: dict[str, set[str]]) -> str | None:
    """Return a node of any circle, None if there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return str(error.args[1][0])
    return None


def reversed_edges(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph with each edge reversed."""
    back: dict[str, set[str]] = defaultdict(set)
    for node, after in graph.items():
        for each in after:
            back[each].add(node)
    return back


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the node ``start`` and all nodes to which its edges lead."""
    found, waiting = set[str](), [start]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(graph.get(node, ()))
    return found


def per_thousand_lines(modules: list[Module], comment: str) -> str:
    """Return how often a comment occurs in a thousand lines."""
    lines = sum(module.lines for module in modules)
    return f"{1000 * sum(module.text.count(comment) for module in modules) / lines:.1f}"


def homes_of_properties(modules: list[Module], properties: set[str]) -> str:
    """Return in how many modules a string is exactly a property's name: the mean and the most."""
    homes = Counter(
        text for module in modules for text in set(module.strings()) if text in properties
    )
    name, most = homes.most_common(1)[0]
    return f"{homes.total() / len(properties):.1f} (`{name}`: {most})"


def properties_of(root: Path) -> set[str]:
    """Return the names that the reference of a checkout lists."""
    text = (root / REFERENCE).read_text(encoding="utf-8")
    return set(re.findall(r'^\| <a id="[^"]*"></a>`([^`]+)`', text, re.MULTILINE))


def files_of_pagination(modules: list[Module]) -> int:
    """Count modules whose code has "pagination" or "paging"; of the connectors, only HTTP counts.

    Identifiers, imports and strings count; comments and docstrings do not count.
    """
    return sum(
        any(PAGING.search(text) for source in (module.names(), module.strings()) for text in source)
        for module in modules
        if module.name.startswith(JOURNEY)
    )


def figures(root: Path) -> tuple[dict[str, str], dict[str, tuple[int, int]]]:
    """Return the text of each figure of a checkout by its label, and the checkout's rooms."""
    modules = modules_of(root)
    once, functions = functions_used_once(modules)
    own, inside = imports_inside(modules)
    found = {
        "Modules": f"{len(modules):,}",
        "Lines": f"{sum(module.lines for module in modules):,}",
        f"Modules below {SMALL} lines": f"{small_modules(modules):,}",
        "Private functions that their module names once": f"{once:,} ({once / functions:.0%})",
        "Names of public classes with several meanings": str(shared_class_names(modules)),
        "Imports inside functions: our own / all": f"{own} / {inside}",
        "`noqa` per thousand lines": per_thousand_lines(modules, "# noqa"),
        "`type: ignore` per thousand lines": per_thousand_lines(modules, "# type: ignore"),
        "Modules in which a string is a property's name, mean (most)": homes_of_properties(
            modules, properties_of(root)
        ),
        "Files with paging in their code, from the job file to HTTP's socket": str(
            files_of_pagination(modules)
        ),
        "Import circles": str(import_circles(modules)),
    }
    return found, rooms(modules)


def checkout(commit: str, folder: Path) -> None:
    """Write the measured files of a commit into a folder."""
    asked = ["git", "archive", commit, *PACKAGES, REFERENCE]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"git has no commit {commit} here (a shallow clone?): {done.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def table() -> str:
    """Return both tables, before and now."""
    with tempfile.TemporaryDirectory() as folder:
        checkout(BEFORE, Path(folder))
        before, rooms_before = figures(Path(folder))
    now, rooms_now = figures(ROOT)
    lines = [f"| | before (`{BEFORE}`) | now |", "|---|---|---|"]
    lines += [f"| {label} | {before[label]} | {text} |" for label, text in now.items()]
    lines += ["", "| Room | modules before | now | lines before | now |", "|---|---|---|---|---|"]
    for room in sorted(rooms_before | rooms_now):
        old, new = (
            [f"{number:,}" for number in found[room]] if room in found else ["-", "-"]
            for found in (rooms_before, rooms_now)
        )
        lines.append(f"| `{room}` | {old[0]} | {new[0]} | {old[1]} | {new[1]} |")
    return "\n".join(lines)


def main() -> None:
    """Write the tables between the marks of the page, and print them."""
    if sys.argv[1:]:
        sys.exit(f"usage: {sys.argv[0]}   (it takes no arguments, and writes {PAGE})")
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    text = table()
    PAGE.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
