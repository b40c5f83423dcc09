"""One hash of all that decides what is extracted and how it is written (spec README 29)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from dil.config.entry import Entry
from dil.config.lenient_json import JsonError, parse
from dil.config.table import PLUGIN_PREFIX, TABLE
from dil.model.job import PublishingSpec, WritingSpec
from dil.model.json import compact


def digest(entries: Mapping[str, Entry], publishing: PublishingSpec, writing: WritingSpec) -> str:
    """Return the SHA-256 of the effective properties as hexadecimal digits.

    Left out is what only controls the run: threads, retries, state, lease, logs, pacing. Blanks
    and line ends of JSON values do not count, nor whether a default was written out. Where and how
    rows are published counts as it was understood: a relative path is another place when the job
    file moves, and several properties together choose the folder and the mode.
    """
    effective = [*_effective(entries), ("publishing", repr(publishing)), ("writing", repr(writing))]
    lines = "".join(f"{name}={text}\n" for name, text in sorted(effective))
    return hashlib.sha256(lines.encode()).hexdigest()


def _effective(entries: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    for entry in TABLE.values():
        if not entry.identity:
            continue
        written = entries.get(entry.name)
        text = _normal(written.text if written else entry.default)
        # A secret only enters as its own hash, so that the lines could be shown.
        yield entry.name, hashlib.sha256(text.encode()).hexdigest() if entry.secret else text
    for key, written in entries.items():
        if key.startswith(PLUGIN_PREFIX):
            yield key, hashlib.sha256(written.text.encode()).hexdigest()


def _normal(text: str) -> str:
    stripped = text.strip()
    if not stripped.startswith(("[", "{")):
        return stripped
    try:
        value, _ = parse(stripped)
    except JsonError:
        return stripped
    return compact(value)
