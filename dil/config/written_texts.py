"""Checks of texts as they are written: control characters, and credentials in plain sight."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.requests import all_parameters
from dil.model.properties import Properties
from dil.sections.parameters import KEY as PARAMETERS
from dil.sections.source import PROXY, URI, SourceSection
from dil.text.lenient_json import HALF_FIX

_NUL_IN_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLACES = (".uri", ".url", ".dir", ".loc", ".path", ".host", ".filename", ".file.name", "job.name")
_ANY_TEXT = frozenset({"ms.csv", "ms.watermark"})  # separators, and units, which are data

# Names of query members and parameters whose value is a credential; a short "key" may be anything.
_CREDENTIAL = (
    r"(?:x-)?(?:api|access|auth|app|license|subscription|functions?)[-_]?(?:key|token)|appid"
    r"|(?:client[-_]?)?secret|(?:(?:bearer|refresh|private|security)[-_]?)?token|sig|signature"
    r"|passw(?:or)?d|pwd|key(?==[^&;\s]{16}|\Z)"
)
_IN_ADDRESS = re.compile(
    rf"[?&;](?:{_CREDENTIAL})=(?!\{{\{{|&|;|\Z)|://[^/@\s:]*:[^/@\s{{]+@", re.IGNORECASE
)
_CREDENTIAL_NAME = re.compile(_CREDENTIAL, re.IGNORECASE)
_LONG_KEY = 16
# Python keeps bytes of the command line and of the environment that are not UTF-8 as these halves
# of surrogate pairs.
_UNDECODED = re.compile("[\udc80-\udcff]")
_HALF = re.compile("[\ud800-\udfff]")


def refuse_halves(entries: Mapping[str, Entry], findings: Findings) -> None:
    """Refuse keys and values with bytes that are not UTF-8, or with half of a surrogate pair.

    No file and no database takes them. They come from ``-D``, from the environment and from
    callers in Python: the readers of job files refuse them already.

    Raises:
        ConfigError: a key or a value has such a byte or half; the error has all problems so far.
    """
    before = len(findings.problems)
    for key, entry in entries.items():
        subject, text = ("has a name that", key) if _HALF.search(key) else ("", entry.text)
        if _UNDECODED.search(text):
            what, fix = "holds bytes that are not UTF-8", "Give it in UTF-8, as job files are."
        elif _HALF.search(text):
            what, fix = "holds half of a surrogate pair", HALF_FIX
        else:
            continue
        findings.problem(key, f"{subject} {what}".lstrip(), fix, entry.origin)
    if len(findings.problems) > before:
        findings.raise_problems()


def refuse_control_characters(entries: Mapping[str, Entry], findings: Findings) -> None:
    """Refuse NUL in values except separators and units, and control characters in addresses.

    No file, host, database or statement takes these characters, and each reader of such a value
    would fail in its own way.

    Raises:
        ConfigError: a value holds such a character; the error has all problems so far.
    """
    before = len(findings.problems)
    for key, entry in entries.items():
        text = entry.text.strip()
        is_json = text.startswith(("[", "{"))
        if key not in _ANY_TEXT and ("\0" in text or (is_json and _NUL_IN_JSON.search(text))):
            findings.problem(key, "holds a NUL character", "Take it out.", entry.origin)
        elif key.endswith(_PLACES) and not is_json and (found := _CONTROL.search(text)):
            word = f"\\u{ord(found[0]):04x}"
            findings.problem(
                key, f"holds the control character {word}", "Take it out.", entry.origin
            )
    if len(findings.problems) > before:
        findings.raise_problems()


def note_plain_credentials(
    values: Properties, entries: Mapping[str, Entry], findings: Findings
) -> None:
    """Note credentials in plain text in addresses of source and proxy, and in parameters."""
    addresses = {URI: values.section(SourceSection).uri, PROXY: values.section(SourceSection).proxy}
    for key, address in addresses.items():
        entry = entries.get(key)
        if entry and not entry.is_masked and _IN_ADDRESS.search(address):
            findings.plain_secrets.setdefault(key, entry.origin)
    given = entries.get(PARAMETERS)
    if given is None or given.is_masked:
        return
    for parameter in all_parameters(values):
        found = parameter.value if isinstance(parameter.value, tuple) else (parameter.value,)
        texts = [each for each in found if isinstance(each, str) and each and "{{" not in each]
        if parameter.name.lower() == "key":
            texts = [each for each in texts if len(each) >= _LONG_KEY]
        if texts and _CREDENTIAL_NAME.fullmatch(parameter.name):
            findings.plain_secrets.setdefault(PARAMETERS, given.origin)
