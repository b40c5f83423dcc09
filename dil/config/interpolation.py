"""``${name}``, ``${env:NAME}`` and ``${sys:NAME}`` in values. See rule F5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.model.messages import suggestion

_TOKEN = re.compile(r"\$\{([^{}]*)\}")
# References that double at each step would take all memory; no job file needs a longer text.
_LONGEST = 2**24
_DEEPEST = 100


def interpolate(
    entries: Mapping[str, Entry],
    *,
    environ: Mapping[str, str],
    settings: Mapping[str, str],
    findings: Findings,
    keys: Iterable[str] | None = None,
) -> dict[str, Entry]:
    """Return the entries of ``keys`` (by default all) with every ``${...}`` replaced, recursively.

    ``settings`` are the ``-D`` values, which ``${sys:NAME}`` reads. An unknown name or a circle is
    a problem of the key whose value holds the token; the token then stays in the text.
    """
    wanted = list(entries if keys is None else keys)
    run = _Run(entries, environ, settings, findings)
    found = {key: run.resolved(key, ()) for key in wanted}
    if not settings:
        return found
    without = {
        key: replace(entry, text=entry.overruled) if entry.origin.is_flag else entry
        for key, entry in entries.items()
    }
    # This run has -D: it reports no problem that only runs without it would have.
    other_runs = _Run(without, environ, dict.fromkeys(settings, ""), Findings())
    for key, entry in found.items():
        in_files, origin = other_runs.resolved(key, ()).text, entry.origin
        if origin.is_flag or entry.text != in_files:
            origin = origin if origin.is_flag else replace(origin, refers_to_flag=True)
            found[key] = replace(entry, origin=origin, overruled=in_files)
    return found


def references(entries: Mapping[str, Entry]) -> frozenset[str]:
    """Return the names that the ``${...}`` of these entries read."""
    texts = (entry.text for entry in entries.values() if "${" in entry.text)
    return frozenset(name for text in texts for name in _TOKEN.findall(text))


@dataclass(slots=True)
class _Run:
    entries: Mapping[str, Entry]
    environ: Mapping[str, str]
    settings: Mapping[str, str]
    findings: Findings
    done: dict[str, Entry] = field(default_factory=dict)

    def resolved(self, key: str, chain: tuple[str, ...]) -> Entry:
        if key in self.done:
            return self.done[key]
        entry = self.entries[key]
        if "${" not in entry.text:
            self.done[key] = entry
            return entry
        parts = _TOKEN.split(entry.text)
        is_masked = entry.is_masked
        for index in range(1, len(parts), 2):
            name = parts[index]
            parts[index], from_outside = self._value(name, entry, (*chain, key))
            is_masked = is_masked or from_outside
        if sum(map(len, parts)) > _LONGEST:
            what = f"grows beyond {_LONGEST} characters when its references are replaced"
            self.findings.problem(key, what, "Refer to shorter values.", entry.origin)
            parts = [entry.text]
        # The offsets of line breaks are right only for the text as it was written.
        self.done[key] = replace(entry, text="".join(parts), breaks=(), is_masked=is_masked)
        return self.done[key]

    def _value(self, name: str, entry: Entry, chain: tuple[str, ...]) -> tuple[str, bool]:
        """Return the text of one token, and whether it came from the environment."""
        kind, colon, variable = name.partition(":")
        if colon and kind == "env":
            return self._outside(name, variable, self.environ, entry, "Set it before the run.")
        if colon and kind == "sys":
            fix = f"Give it to the run: -D {variable}=..."
            text, _ = self._outside(name, variable, self.settings, entry, fix)
            return text, False
        if name in chain:
            circle = " -> ".join((*chain[chain.index(name) :], name))
            self.findings.problem(
                entry.key,
                f"goes round in a circle: {circle}",
                "Write out the value of one of them.",
                entry.origin,
            )
            return f"${{{name}}}", False
        if name not in self.entries:
            self.findings.problem(
                entry.key,
                f"refers to ${{{name}}}, which is not set",
                suggestion(name, self.entries)
                or "Set it here, in a file that this one inherits or includes, or with -D.",
                entry.origin,
            )
            return f"${{{name}}}", False
        if len(chain) > _DEEPEST and name not in self.done:
            what = f"refers to other properties more than {_DEEPEST} levels deep"
            self.findings.problem(chain[0], what, "Write a value in place of one reference.")
            return f"${{{name}}}", False
        found = self.resolved(name, chain)
        return found.text, found.is_masked

    def _outside(
        self, name: str, variable: str, values: Mapping[str, str], entry: Entry, fix: str
    ) -> tuple[str, bool]:
        if variable in values:
            return values[variable], True
        self.findings.problem(
            entry.key, f"refers to ${{{name}}}, which is not set", fix, entry.origin
        )
        return f"${{{name}}}", False
