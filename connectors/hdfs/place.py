"""Reads the file system, the path and the pattern from ``ms.source.uri`` of a job for files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from connectors.files.names import filled
from connectors.hdfs.section import HdfsSection
from dil.errors import ConfigError, Problem
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.sections.file_systems import FileSystemsSection
from dil.sections.source import URI, SourceSection
from dil.storage.locations import is_this_machine
from dil.text.java_regex import compile_java
from dil.text.origins import NetworkOrigin, refuse_other_origin, refuse_way_out
from dil.text.variables import placeholders, substitute

BASE = "source.filebased.fs.uri"
WEB_SCHEMES = ("webhdfs", "swebhdfs")
# Schemes of Arrow's own clients; their credentials come from the environment.
ARROW_SCHEMES = ("gs", "gcs", "abfs", "abfss")
_SCHEMES = ("file", "hdfs", "viewfs", *WEB_SCHEMES, *ARROW_SCHEMES)
_LIST = "?RE="
_WRITTEN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://([^/]*))?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class HdfsSourcePath:
    """A path of a file system.

    ``scheme`` is ``file`` for this machine. ``prefix`` is the text before the paths in a list:
    scheme and host, or empty if the job's URI has neither. ``pattern`` is the regular expression
    for the whole paths or URIs of a list, None if files are read.
    """

    scheme: str
    authority: str
    path: str
    prefix: str = ""
    pattern: re.Pattern[str] | None = None

    def matches(self, path: str) -> bool:
        """Return whether a list has the path: the pattern matches it, or its URI as in Hadoop."""
        if self.pattern is None:
            return True
        root = "file:" if self.scheme == "file" else f"{self.scheme}://{self.authority}"
        return any(map(self.pattern.fullmatch, (path, f"{root}{path}")))


def lists(template: str) -> bool:
    """Return whether a job lists files instead of reading them."""
    return _LIST in template


def place_of(
    template: str,
    variables: Mapping[str, JsonValue],
    folder: Path,
    base: str = "",
    hosts: Iterable[str] = (),
) -> HdfsSourcePath:
    """Return the path that one work unit reads.

    Args:
        template: ``ms.source.uri``. In a ``file:`` address, escapes such as ``%20`` are decoded in
            the template, but not in values. A value enters the path unchanged; in the pattern it
            matches only itself.
        variables: The values for ``{{name}}``.
        folder: The folder from which relative paths of this machine start.
        base: ``source.filebased.fs.uri``, for paths without a scheme. If it has a path, values must
            not lead out of that path.
        hosts: Other file systems that values may name.

    Raises:
        ConfigError: a value is missing, or leads out of its folder or to another file system; or
            the file system is not known.
    """
    written, is_list, expression = template.partition(_LIST)
    match = _WRITTEN.fullmatch(written)
    if match is not None and match[1].lower() == "file":
        # Values replace the variables afterwards, so that escapes in values stay.
        written = written[: match.start(3)] + unquote(match[3])
    refuse_way_out(written, variables)
    text = filled(written, variables)

    def origin(text: str) -> NetworkOrigin:
        found = _place(text, folder, base)
        return NetworkOrigin.at(found.scheme, found.authority)

    refuse_other_origin(written, text, origin, hosts)
    source_path = _place(text, folder, base)
    if placeholders(written) and base:
        fence = _place(base, folder, "", BASE)
        if not f"{source_path.path}/".startswith(f"{fence.path.rstrip('/')}/"):
            raise ConfigError.single(
                URI,
                f"is filled with values that lead to {source_path.path}, outside of {BASE},"
                f" {fence.path}",
                "Check the values. If the job may read the whole file system, leave the folder out"
                f" of {BASE}.",
            )
    if not is_list:
        return source_path
    pattern = substitute(unquote(expression), variables, re.escape).text
    return HdfsSourcePath(
        source_path.scheme,
        source_path.authority,
        source_path.path,
        source_path.prefix,
        _pattern(pattern),
    )


def place_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the problems of the address, as far as its variables allow a check."""
    template = properties.section(SourceSection).uri
    base = base_of(properties)
    base_key = BASE if properties.section(HdfsSection).file_system else "fs.uri"
    written, is_list, expression = template.partition(_LIST)
    checks: list[tuple[str, Callable[[], object]]] = []
    if not written.startswith("{{"):
        checks.append((URI, partial(_place, _exemplified(written), Path("/"), "")))
    if base and (base_key == BASE or _WRITTEN.match(written) is None):
        checks.append((base_key, partial(_place, base, Path("/"), "", base_key)))
    if is_list:
        checks.append((URI, partial(_pattern, _exemplified(unquote(expression)))))
    for key, check in checks:
        try:
            check()
        except ConfigError as error:
            for found in error.problems:
                yield Problem(properties.origin(key), key, found.what, found.fix)


def base_of(properties: Properties) -> str:
    """Return the file system for paths that name no file system, empty for this machine."""
    here, every = properties.section(HdfsSection), properties.section(FileSystemsSection).every
    return here.file_system or ("" if is_this_machine(every) else every)


def _exemplified(text: str) -> str:
    """Return a text in which an example value replaces each variable."""
    return substitute(text, dict.fromkeys(placeholders(text), "0")).text


def _place(text: str, folder: Path, base: str, key: str = URI) -> HdfsSourcePath:
    match = _WRITTEN.fullmatch(text)
    if match is not None:
        scheme, authority, path = match[1].lower(), match[2] or "", match[3]
        _check_scheme(scheme, authority, key)
        if scheme == "file":
            return HdfsSourcePath("file", "", _normal(path))
        prefix = f"{scheme}://{authority}"
        return HdfsSourcePath(scheme, authority, _normal(path), prefix)
    if text.startswith("~"):
        raise ConfigError.single(key, "begins with ~, which is not expanded", "Write ${env:HOME}.")
    system = _place(base, folder, "", BASE) if base else None
    if system is not None and system.scheme != "file":
        return HdfsSourcePath(system.scheme, system.authority, _normal(text))
    whole = text if text.startswith("/") else f"{folder.as_posix()}/{text}"
    return HdfsSourcePath("file", "", _normal(whole))


def _check_scheme(scheme: str, authority: str, key: str) -> None:
    if scheme in {"s3", "s3a", "s3n"}:
        raise ConfigError.single(key, "is on S3", "Write source.class=s3.")
    if scheme not in _SCHEMES:
        raise ConfigError.single(
            key,
            f"is on {scheme}:, which is not known",
            f"Write a path, or a URI of {', '.join(f'{each}:' for each in _SCHEMES)}.",
        )
    if scheme == "file" and authority not in {"", "localhost"}:
        raise ConfigError.single(
            key, f"names the host {authority}", "Write file:///path for a file of this machine."
        )
    if scheme not in {"file", "hdfs", "viewfs"} and not authority:
        raise ConfigError.single(key, "names no host", f"Write {scheme}://host/path.")


def _normal(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return compile_java(text)
    except ValueError as error:
        raise ConfigError.single(
            URI,
            f"has a regular expression that cannot be used: {error}",
            "Correct the expression behind ?RE=; it has Java's form, and percent escapes are"
            " decoded.",
        ) from error
