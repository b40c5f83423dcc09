"""Names of files: templates with values, the pattern that keeps some, kinds of content."""

from __future__ import annotations

import logging
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

_LOG = logging.getLogger(__name__)
_PATTERN = "ms.source.files.pattern"
_SETTLE = "ms.source.files.settle"
# By the end of the name; what is not here is left to the extractor.
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
        """Return when it was written last, epoch ms UTC; None where the source does not say."""


_F = TypeVar("_F", bound=FoundFile)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as a server lists it; ``version`` distinguishes its content from an earlier one's.

    ``leads_to`` is the path of the file behind a link, empty for what is none.
    """

    path: str
    modified_ms: int | None = None
    version: str = ""
    leads_to: str = ""


def filled(template: str, variables: Mapping[str, JsonValue]) -> str:
    """Return ``ms.source.uri`` or a part of it with its variables, put in as they are.

    See docs/files.md.

    Raises:
        ConfigError: nothing gives a value to one of them; the name would lead elsewhere.
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
    """Return whether a job reads files, one in a work unit; else it lists names."""
    return bool(properties.section(DumpSection).file_name.strip()) or reads_once(properties)


def matching(items: Iterable[_F], properties: Properties) -> Iterator[_F]:
    """Yield the files whose path ``ms.source.files.pattern`` matches as a whole, in their order."""
    pattern = properties.section(FilesSection).pattern
    if pattern == ".*":
        # A name may have a line break, which a dot does not match; no job means that.
        yield from items
        return
    matches = compile_java(pattern).fullmatch
    for item in items:
        if matches(item.path):
            yield item


def without_doubles(items: Iterable[Listed], location: str) -> list[Listed]:
    """Leave out links to files that are listed themselves, and all but the first link to a file.

    Otherwise the rows of such a file would be read twice.
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
        _LOG.info("%s: links left out, to files that are listed anyway: %d", location, number)
    return kept


def stable_files(
    items: Iterable[_F], properties: Properties, location: str, now_ms: int
) -> Iterator[_F]:
    """Yield the files that were not written to for ``ms.source.files.settle``; report the others.

    ``now_ms`` is the real time, epoch ms UTC. A file whose time the source does not give has
    settled.
    """
    settle_ms = properties.section(FilesSection).settle_ms
    young = 0
    for item in items:
        if _is_young(item, settle_ms, now_ms):
            young += 1
        else:
            yield item
    if young:
        _LOG.warning("%s: files left for later by %s: %d", location, _SETTLE, young)


def require_all_stable(
    items: Iterable[_F], properties: Properties, location: str, now_ms: int
) -> list[_F]:
    """Return the files if all of them have settled; ``now_ms`` is the real time, epoch ms UTC.

    Raises:
        TransientSourceError: some have not. Read without them, the work unit would count as done,
            and no run would come back for them.
    """
    found, settle_ms = list(items), properties.section(FilesSection).settle_ms
    young = sum(_is_young(item, settle_ms, now_ms) for item in found)
    if young:
        raise TransientSourceError(
            f"{location}: files that were written to just now ({_SETTLE}): {young}",
            "Run again when they have settled. A folder that files come to all the time is better"
            " listed by one job and read, a work unit for each file, by another.",
        )
    return found


def chosen(
    items: Iterable[Listed], asked: str, properties: Properties, location: str, now_ms: int
) -> Listed:
    """Return the one file to read: that named ``asked``, else the first; more are noted.

    Args:
        items: What is there and the pattern keeps, sorted; no more is taken than needed.
        asked: The path that the job names; sorted, it comes before all that begin with it.
        properties: The job's.
        location: Names the place in messages.
        now_ms: The real time, epoch ms UTC.

    Raises:
        SourceError: there is none. Taken for success it would move the watermark past a file that
            was never read.
        TransientSourceError: it was written to just now (``ms.source.files.settle``).
    """
    found = iter(items)
    first = next(found, None)
    if first is None:
        raise SourceError(
            f"{location}: no object",
            f"Nothing there has this name or matches {_PATTERN}. Check {URI}; without"
            f" {FILE_NAME} the job lists what is there.",
        )
    if first.path != asked and next(found, None) is not None:
        _LOG.warning("%s: there are several files; the first is read: %s", location, first.path)
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
    """Return the media type that the end of a name shows, empty text for none."""
    lower = name.lower()
    return next((kind for ending, kind in _KINDS.items() if lower.endswith(ending)), "")
