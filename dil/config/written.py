"""What stands in a job file, for messages: texts as written, without anything that is a secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dil.config.deprecated import DEPRECATED
from dil.config.findings import Findings
from dil.config.reader import read_job, with_overrides
from dil.config.table import ALIASES, lookup
from dil.errors import ConfigError
from dil.model.secret import MASK

_SHOWN_CHARACTERS = 500


def written_values(path: str | Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the text of every key as it was written, under that key and its present name.

    ``${...}`` stays as it is, so nothing comes from the environment. What is or may hold a secret
    is ``***``: also the text of an unknown key, which may be a misspelled one. Long texts are cut.
    Never raises: a file that cannot be read has no values.
    """
    try:
        entries = with_overrides(read_job(str(path), Findings()), overrides)
    except (ConfigError, OSError):
        entries = with_overrides({}, overrides)
    found: dict[str, str] = {}
    for key, entry in entries.items():
        text = _shown(entry.text) if _is_open(key) else MASK
        found[key] = text
        if key in ALIASES:
            found.setdefault(ALIASES[key], text)
    return found


def _is_open(key: str) -> bool:
    entry = lookup(key)
    if entry is None:
        return key in DEPRECATED
    return not entry.secret and not entry.hidden_members


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
