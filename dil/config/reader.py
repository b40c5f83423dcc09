"""Reading a job file with what it inherits and includes: files in, entries out.

Later wins: ``.properties`` files of the job file's folder and of those above it, from the farthest
to the nearest, then included files, then the file itself, then ``-D``. Folders are walked up to the
nearest one that holds ``.git``, else to the root of the file system, so that a job means the same
wherever it is started. Source: behaviour.md B1.1, B1.5, B1.7.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from dil.config import properties_text
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.table import spans_lines
from dil.errors import ConfigError, Origin, Problem
from dil.model.suggestions import suggestion

_PROPERTY_SUFFIXES = (".conf", ".pull", ".job", ".properties")
_YAML_SUFFIXES = (".yaml", ".yml")
_INCLUDE = "include"
_PATH_FIX = "The path starts at the working directory."


def read_job(path: str, findings: Findings) -> dict[str, Entry]:
    """Return the entries of a job file and of all files it builds on.

    Raises:
        ConfigError: the job file itself cannot be read.
    """
    check_readable(path)
    entries: dict[str, Entry] = {}
    for parent in _inherited(path, findings):
        entries.update(_read_file(parent, findings, ()))
    entries.update(_read_file(path, findings, ()))
    return entries


def with_overrides(entries: Mapping[str, Entry], overrides: Mapping[str, str]) -> dict[str, Entry]:
    """Return the entries with ``-D`` settings put over them."""
    return {
        **entries,
        **{key: Entry(key, text, Origin(f"-D {key}")) for key, text in overrides.items()},
    }


def check_readable(path: str) -> None:
    """Refuse a job file that is missing or a folder.

    Raises:
        ConfigError: with the nearest name in the folder, where there is one.
    """
    target = Path(path)
    if target.is_dir():
        raise _unreadable(path, "is a folder, not a job file", "Name the .conf file inside it.")
    if not target.exists():
        folder = target.parent
        names = [item.name for item in folder.iterdir()] if folder.is_dir() else []
        raise _unreadable(path, "does not exist", suggestion(target.name, names) or _PATH_FIX)


def _unreadable(path: str, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(Origin(path), "", what, fix)])


def _inherited(path: str, findings: Findings) -> list[str]:
    """Return the ``.properties`` files above a job file, farthest first; each is told."""
    job = Path(path)
    found: list[str] = []
    for shown, folder in _folders(job.parent):
        if folder == job.parent.resolve() and job.suffix == ".properties":
            # The job file's neighbours are other jobs, not its project file.
            continue
        names = _property_files(folder)
        if len(names) > 1:
            findings.problem(
                "",
                f"holds several .properties files: {', '.join(names)}",
                "A folder may hold one, which the jobs in and below it inherit; use `include` for "
                "others. A .git in a folder below ends the search there.",
                Origin(str(shown)),
            )
        elif names:
            found.append(str(shown / names[0]))
            findings.information(f"inherits {folder / names[0]}", Origin(path))
    return found[::-1]


def _folders(start: Path) -> list[tuple[Path, Path]]:
    """Return the job file's folder and those above it, nearest first, up to the project's root.

    Each comes as it is shown, relative where the job file was named so, and as it is.
    """
    here = start.resolve()
    found: list[tuple[Path, Path]] = []
    for steps, folder in enumerate((here, *here.parents)):
        shown = _normal(start / Path(*[".."] * steps))
        # Behind a symbolic link, `..` is not the folder above.
        found.append((shown if shown.resolve() == folder else folder, folder))
        if _is_project_root(folder):
            break
    return found


def _is_project_root(folder: Path) -> bool:
    try:
        return (folder / ".git").exists()
    except PermissionError:
        return False


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))


def _property_files(folder: Path) -> list[str]:
    try:
        found = [item.name for item in folder.glob("*.properties") if _is_visible(item)]
    except PermissionError:
        return []  # What may not be listed above a job is not meant for it.
    return sorted(found)


def _is_visible(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _read_file(path: str, findings: Findings, chain: tuple[Path, ...]) -> dict[str, Entry]:
    """Return a file's entries over those of the files that it includes."""
    text = _text(path, findings)
    if text is None:
        return {}
    here = Path(path).resolve()
    own: dict[str, Entry] = {}
    included: dict[str, Entry] = {}
    for entry in _parsed(text, path, findings):
        if entry.key == _INCLUDE:
            included.update(_include(entry, path, findings, (*chain, here)))
            continue
        if entry.key in own:
            findings.notice(
                entry.key,
                f"was set in line {own[entry.key].origin.line} already; this one counts",
                origin=entry.origin,
            )
        own[entry.key] = entry
    return {**included, **own}


def _text(path: str, findings: Findings) -> str | None:
    try:
        text = Path(path).read_text("utf-8-sig")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        findings.problem("", f"cannot be read ({reason})", "Check its permissions.", Origin(path))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        findings.problem("", "is not UTF-8 text", "Save the file in UTF-8.", Origin(path, line))
    else:
        return text if _holds_text(text, path, findings) else None
    return None


def _holds_text(text: str, path: str, findings: Findings) -> bool:
    """Tell whether a file holds no NUL: that is no text, or text in UTF-16."""
    where = text.find("\0")
    if where >= 0:
        origin = Origin(path, text.count("\n", 0, where) + 1)
        findings.problem("", "holds a NUL character", "Save the file as text in UTF-8.", origin)
    return where < 0


def _parsed(text: str, path: str, findings: Findings) -> Iterable[Entry]:
    suffix = Path(path).suffix.lower()
    if suffix in _YAML_SUFFIXES:
        from dil.config import yaml_text

        return yaml_text.parse(text, path, findings)
    if suffix in _PROPERTY_SUFFIXES:
        return properties_text.parse(text, path, findings, spans_lines=spans_lines)
    findings.problem(
        "",
        f"ends in {suffix or 'nothing'}, which is no job file",
        f"Job files end in {', '.join((*_PROPERTY_SUFFIXES, *_YAML_SUFFIXES))}.",
        Origin(path),
    )
    return ()


def _include(
    entry: Entry, path: str, findings: Findings, chain: tuple[Path, ...]
) -> dict[str, Entry]:
    if "${" in entry.text:
        findings.problem(
            _INCLUDE,
            "takes no ${...}",
            "Write a path, relative to this file.",
            entry.origin,
        )
        return {}
    target = _normal(Path(path).parent / entry.text)
    if target.resolve() in chain:
        findings.problem(
            _INCLUDE, f"goes round in a circle: {entry.text}", "Remove one of them.", entry.origin
        )
        return {}
    if not entry.text or not target.is_file():
        findings.problem(
            _INCLUDE,
            f"names {target}, which does not exist",
            "The path is relative to this file.",
            entry.origin,
        )
        return {}
    return _read_file(str(target), findings, chain)
