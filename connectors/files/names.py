"""Names of files: templates with values, the pattern that selects names, media types."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from connectors.files.once import reads_once
from dil.errors import ConfigError, SourceError, TransientSourceError
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.sections.extraction import FILE_NAME, DumpSection
from dil.sections.source import URI, FilesSection
from dil.text.java_regex import compile_java
from dil.text.variables import substitute

log = logging.getLogger(__name__)
_PATTERN = "ms.source.files.pattern"
_SETTLE = "ms.source.files.settle"
# Media types by the ending of the name; for other endings the extractor decides.
_KINDS = {
    ".gz": "application/gzip",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".csv": "text/csv",
}


class FoundFile(Protocol):
    """A file of a list."""

    @property
    def path(self) -> str:
        """Return the full path, or the key."""

    @property
    def modified_ms(self) -> int | None:
        """Return the time of the last change, epoch ms UTC; None if the source does not give it."""


_F = TypeVar("_F", bound=FoundFile)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as a server lists it; ``version`` distinguishes its content from earlier content.

    If the file is a link, ``leads_to`` is the path of its target; else it is empty.
    """

    path: str
    modified_ms: int | None = None
    version: str = ""
    leads_to: str = ""


def filled(template: str, variables: Mapping[str, JsonValue]) -> str:
    """Return ``ms.source.uri``, or a part of it, with its variables replaced by unchanged values.

    See docs/files.md.

    Raises:
        ConfigError: a variable has no value.
    """
    result = substitute(template, variables)
    if result.missing:
        names = ", ".join(f"{{{{{name}}}}}" for name in sorted(result.missing))
        raise ConfigError.single(
            URI,
            f"uses {names}, which nothing gives a value",
            "Declare it in ms.parameters, or as a unit.",
        )
    return result.text


def reads_one_file(properties: Properties) -> bool:
    """Return whether a work unit reads one file; else the job lists names."""
    return bool(properties.section(DumpSection).file_name.strip()) or reads_once(properties)


def matching(items: Iterable[_F], properties: Properties) -> Iterator[_F]:
    """Yield the items whose whole path matches ``ms.source.files.pattern``, in the same order."""
    pattern = properties.section(FilesSection).pattern
    if pattern == ".*":
        # ``.*`` would not match a name with a line break; no job intends to drop such a name.
        yield from items
        return
    matches = compile_java(pattern).fullmatch
    for item in items:
        if matches(item.path):
            yield item


def pattern_of_wildcards(text: str) -> str:
    """Return the pattern for ``ms.source.files.pattern`` of a name or path with ``*`` and ``?``."""
    # Brackets quote these characters; a job file would need two backslashes for one.
    literal = re.sub(r"[][(){}.+$|]", r"[\g<0>]", text)
    return literal.replace("?", ".").replace("*", ".*")


def without_doubles(items: Iterable[Listed], location: str) -> list[Listed]:
    """Return the items, but leave out a link if its target or an earlier link to it is listed.

    Otherwise the rows of the target would be read twice.
    """
    found = list(items)
    seen = {each.path for each in found if not each.leads_to}
    kept = []
    for each in found:
        if each.leads_to not in seen:
            kept.append(each)
        if each.leads_to:
            seen.add(each.leads_to)
    if len(kept) < len(found):
        number = len(found) - len(kept)
        log.info("%s: links left out, to files that are listed anyway: %d", location, number)
    return kept


def stable_files(
    items: Iterable[_F], properties: Properties, location: str, now_ms: int
) -> Iterator[_F]:
    """Yield the files unchanged for ``ms.source.files.settle``; log how many are left out.

    ``now_ms`` is the real time, epoch ms UTC. A file without a time counts as settled.
    """
    settle_ms = properties.section(FilesSection).settle_ms
    young = 0
    for item in items:
        if _is_young(item, settle_ms, now_ms):
            young += 1
        else:
            yield item
    if young:
        log.warning("%s: files left for later by %s: %d", location, _SETTLE, young)


def require_all_stable(
    items: Iterable[_F], properties: Properties, location: str, now_ms: int
) -> list[_F]:
    """Return the files if all of them have settled; ``now_ms`` is the real time, epoch ms UTC.

    Raises:
        TransientSourceError: some files have not settled. If they were skipped, the work unit would
            count as done, and no later run would read them.
    """
    found, settle_ms = list(items), properties.section(FilesSection).settle_ms
    young = sum(_is_young(item, settle_ms, now_ms) for item in found)
    if young:
        raise TransientSourceError(
            f"{location}: files that were written to just now ({_SETTLE}): {young}",
            "Run again when they have settled. If files arrive in the folder all the time, let"
            " one job list it and another read each file as a work unit.",
        )
    return found


def chosen(
    items: Iterable[Listed], asked: str, properties: Properties, location: str, now_ms: int
) -> Listed:
    """Return the file to read: the file named ``asked``, else the first; warn if there are more.

    Args:
        items: The files that exist and match the pattern, sorted; consumed as far as needed.
        asked: The path that the job names; it sorts before all longer paths that begin with it.
        properties: The properties of the job.
        location: The name of the folder in messages.
        now_ms: The real time, epoch ms UTC.

    Raises:
        SourceError: there is no file. If the run counted as a success, the watermark would move
            past a file that was never read.
        TransientSourceError: the file was written to just now (``ms.source.files.settle``).
    """
    found = iter(items)
    first = next(found, None)
    if first is None:
        raise SourceError(
            f"{location}: no object",
            f"No file there has this name or matches {_PATTERN}. Check {URI}; without {FILE_NAME}"
            " the job lists the files there.",
        )
    if first.path != asked and next(found, None) is not None:
        log.warning("%s: there are several files; the first is read: %s", location, first.path)
    if _is_young(first, properties.section(FilesSection).settle_ms, now_ms):
        raise TransientSourceError(
            f"{location}: {first.path} was written to just now ({_SETTLE})",
            "Run again when it has settled.",
        )
    return first


def _is_young(item: FoundFile, settle_ms: int | None, now_ms: int) -> bool:
    modified = item.modified_ms
    if not settle_ms or modified is None:
        return False
    return modified > now_ms - settle_ms


def media_type(name: str) -> str:
    """Return the media type for the ending of a name, empty if the ending is not known."""
    lower = name.lower()
    return next((kind for ending, kind in _KINDS.items() if lower.endswith(ending)), "")
