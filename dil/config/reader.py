"""Reads a job file and the files that it inherits and includes; gives entries.

The later value wins, in this order: inherited ``.properties`` files, from the farthest to the
nearest, then included files, then the file itself, then ``-D``. See rules F1 and F4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dil.config import properties_text
from dil.config.canonical import DEPRECATED
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.inheritance import inherited_files, normal
from dil.config.table import ALIASES, lookup
from dil.errors import ConfigError, Origin, Problem
from dil.model.messages import suggestion
from dil.model.secret import MASK

_PROPERTY_SUFFIXES = (".conf", ".pull", ".job", ".properties")
_TEMPLATE_SUFFIX = ".template"
_YAML_SUFFIXES = (".yaml", ".yml")
_INCLUDE = "include"
_SHOWN_CHARACTERS = 500


def read_job(path: str, findings: Findings) -> dict[str, Entry]:
    """Return the entries of a job file and of all files that it inherits and includes.

    Raises:
        ConfigError: the job file itself cannot be read.
    """
    check_readable(path)
    entries: dict[str, Entry] = {}
    for parent in inherited_files(path, findings):
        entries.update(read_file(parent, findings))
    entries.update(read_file(path, findings))
    return entries


def with_overrides(entries: Mapping[str, Entry], overrides: Mapping[str, str]) -> dict[str, Entry]:
    """Return the entries with the ``-D`` settings in place of entries of the same name."""
    found = dict(entries)
    for key, text in overrides.items():
        before = entries[key].text if key in entries else ""
        found[key] = Entry(key, text, Origin(f"-D {key}"), overruled=before)
    return found


def check_readable(path: str) -> None:
    """Refuse a job file that is missing or a folder.

    Raises:
        ConfigError: the file is missing or a folder; the error suggests a file with a similar name
            in the same folder.
    """
    target = Path(path)
    if target.is_dir():
        raise _unreadable(path, "is a folder, not a job file", "Name the .conf file inside it.")
    if not target.exists():
        folder = target.parent
        names = [item.name for item in folder.iterdir()] if folder.is_dir() else []
        fix = suggestion(target.name, names)
        if not fix:
            try:
                is_there = "" if folder.is_dir() else ", which does not exist"
                fix = f"The folder is {folder.absolute()}{is_there}."
            except FileNotFoundError:
                fix = "The working directory is gone, too: change to another one."
        raise _unreadable(path, "does not exist", fix)


def _unreadable(path: str, what: str, fix: str) -> ConfigError:
    return ConfigError([Problem(Origin(path), "", what, fix)])


def read_file(path: str, findings: Findings, chain: tuple[Path, ...] = ()) -> dict[str, Entry]:
    """Return the entries of a file and of the files that it includes; the file's own entries win.

    ``chain`` are the files that include this one.
    """
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
        where = text.find("\0")  # no text, or text in UTF-16
        if where < 0:
            return text
        origin = Origin(path, text.count("\n", 0, where) + 1)
        findings.problem("", "holds a NUL character", "Save the file as text in UTF-8.", origin)
    return None


def _parsed(text: str, path: str, findings: Findings) -> Iterable[Entry]:
    suffix = Path(path).suffix.lower()
    if suffix in _YAML_SUFFIXES:
        from dil.config import yaml_text

        return yaml_text.parse(text, path, findings)
    if suffix in {*_PROPERTY_SUFFIXES, _TEMPLATE_SUFFIX}:
        return properties_text.parse(text, path, findings)
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
    target = normal(Path(path).parent / entry.text)
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
    return read_file(str(target), findings, chain)


def written_values(path: str | Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the text of every key as it was written, under that key and its present name.

    ``${...}`` stays as it is, so no value comes from the environment. A text becomes ``***`` if it
    is a secret or may hold one; so does the text of an unknown key, because the key may be
    misspelled. Long texts are cut. Never raises: a file that cannot be read has no values.
    """
    try:
        entries = with_overrides(read_job(str(path), Findings()), overrides)
    except (ConfigError, OSError):
        entries = with_overrides({}, overrides)
    found: dict[str, str] = {}
    for key, entry in entries.items():
        known = lookup(key)
        is_open = key in DEPRECATED if known is None else not (known.secret or known.hidden_members)
        text = entry.text if is_open else MASK
        if len(text) > _SHOWN_CHARACTERS:
            text = f"{text[:_SHOWN_CHARACTERS]}..."
        found[key] = text
        if key in ALIASES:
            found.setdefault(ALIASES[key], text)
    return found
