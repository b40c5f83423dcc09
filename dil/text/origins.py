"""Checks filled addresses: values may choose paths and queries, but no other host."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from dil.errors import ConfigError
from dil.model.json import JsonValue, as_text
from dil.text.variables import placeholders, substitute

HOSTS = "ms.source.uri.hosts"
_ENTRY = re.compile(
    r"(?:([a-z][a-z0-9+.:-]*)://)?((?:\*\.)?(?:\[[0-9a-f:.]+\]|[^/:*\s\[\]]+))(?::(\d+))?"
)
_PATH_ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://([^/]*))?")
_INPUT = "ms.secondary.input"
# A variable directly behind the authority begins the path: http://host:8080{{path}}
_PATH_BEHIND = re.compile(r"[^{}/?#]+://[^{}/?#]*\{\{[^{}]+\}\}(?:[/?].*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NetworkOrigin:
    """The scheme, host and port of an address; ``port`` is None for the scheme's default port.

    ``rest`` are other parts that no value may choose: the user, options of a driver.
    """

    scheme: str
    host: str = ""
    port: int | None = None
    rest: Hashable = ()

    @classmethod
    def at(cls, scheme: str, authority: str) -> NetworkOrigin:
        """Return the origin of an authority; a part before an @ becomes a part of ``host``."""
        host, _, port = authority.lower().rpartition(":")
        if host and port.isdecimal():
            return cls(scheme, host, int(port))
        return cls(scheme, authority.lower())

    def __str__(self) -> str:
        """Return the origin for messages, without user and options."""
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{self.host.rpartition('@')[2] or self.host}{port}"


def is_host_entry(text: str) -> bool:
    """Return whether a text is a valid entry of ``ms.source.uri.hosts``."""
    return _ENTRY.fullmatch(text.lower()) is not None


def own_origin(template: str, parse: Callable[[str], NetworkOrigin]) -> NetworkOrigin | None:
    """Return the origin that a template has for all values, None if values decide the origin.

    Args:
        template: An address with ``{{variables}}``.
        parse: Returns the origin of a filled address; raises ValueError or ConfigError if it has
            none.
    """
    samples = ("/1", "/2") if _PATH_BEHIND.fullmatch(template) else ("1", "2")
    first, second = (_sample(template, each, parse) for each in samples)
    return first if first == second else None


def refuse_other_origin(
    template: str,
    text: str,
    parse: Callable[[str], NetworkOrigin],
    hosts: Iterable[str] = (),
    *,
    key: str = "ms.source.uri",
) -> None:
    """Refuse a filled address whose values lead to another origin than the template's.

    Args:
        template: The address as the job file has it.
        text: The address with values for its variables.
        parse: As in ``own_origin``; its errors about ``text`` are passed on.
        hosts: ``ms.source.uri.hosts``, the other hosts that values may lead to.
        key: The property that has the template.

    Raises:
        ConfigError: the origin is neither the template's nor one of the hosts.
    """
    if not placeholders(template):
        return
    found, own = parse(text), own_origin(template, parse)
    if found == own:
        return
    sample = own or _sample(template, "1", parse)
    if any(allows(each, found, sample) for each in hosts):
        return
    raise ConfigError.single(
        key,
        f"is filled with values that lead to {found}"
        + (f", and the job asks {own}" if own else ", and names no host itself"),
        f"Values fill the path and the query. If the job may ask that host: {HOSTS}={found}."
        if found.host and key == "ms.source.uri"
        else "Values fill the path and the query.",
    )


def refuse_way_out(
    template: str, variables: Mapping[str, JsonValue], key: str = "ms.source.uri"
) -> None:
    """Refuse a value with a part ``..``, which could lead out of the job's folder.

    Raises:
        ConfigError: a value that ``template`` asks for has such a part.
    """
    for name in placeholders(template):
        if name in variables and ".." in as_text(variables[name]).split("/"):
            raise ConfigError.single(
                key,
                f"gets a value for {{{{{name}}}}} that leads out of its folder (..)",
                "Correct the value at its origin.",
            )


def refuse_other_path(template: str, text: str, variables: Mapping[str, JsonValue]) -> None:
    """Refuse a filled path of an input that leads out of its folder, or to another file system.

    Raises:
        ConfigError: the path leads out of its folder, or to another file system.
    """
    refuse_way_out(template, variables, _INPUT)
    refuse_other_origin(template, text, _file_system, key=_INPUT)


def _file_system(text: str) -> NetworkOrigin:
    match = _PATH_ORIGIN.match(text)
    return NetworkOrigin.at(match[1].lower(), match[2] or "") if match else NetworkOrigin("file")


def _sample(
    template: str, value: str, parse: Callable[[str], NetworkOrigin]
) -> NetworkOrigin | None:
    try:
        return parse(substitute(template, dict.fromkeys(placeholders(template), value)).text)
    except (ValueError, ConfigError):
        return None


def allows(entry: str, found: NetworkOrigin, written: NetworkOrigin | None) -> bool:
    """Return whether an entry of ``ms.source.uri.hosts`` allows an origin.

    ``written`` is the origin in the job file. Its scheme and port apply if the entry names none;
    its user and options always apply.
    """
    match = _ENTRY.fullmatch(entry.strip().lower())
    if match is None or not found.host:
        return False
    scheme, host, port = match.groups()
    mine = written or NetworkOrigin("")
    if scheme is None:
        # A job that names no scheme has not allowed unencrypted HTTP.
        is_scheme = found.scheme == mine.scheme if mine.scheme else found.scheme != "http"
    else:
        is_scheme = found.scheme == scheme
    is_port = found.port in ({int(port)} if port else {None, mine.port})
    is_host = found.host == host or (
        host.startswith("*.") and found.host.partition(".")[2] == host[2:]
    )
    return is_scheme and is_port and is_host and replace(found, rest=mine.rest) == found
