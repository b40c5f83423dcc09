"""The ``Link`` response header (RFC 8288, section 3): addresses with a relation to the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TARGET = re.compile(r"[\s,]*<([^>]*)>")
# A parameter: its name, and a value that is a token or a quoted string, or none at all.
_PARAMETER = re.compile(
    r"""\s*;\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?"""
)
_ESCAPED = re.compile(r"\\(.)")


def next_link(header: str) -> str | None:
    """Return the address of the first link whose relation is ``next``, None without one.

    A relation may be one of several and in any letter case. Links that speak of something else
    than the answer (``anchor``) do not count. What comes after a malformed link is not read.

    >>> next_link('<?page=3>; rel="prev next", </>; rel=first')
    '?page=3'
    """
    for target, parameters in _links(header):
        relations = parameters.get("rel", "").lower().split()
        if "next" in relations and "anchor" not in parameters:
            return target
    return None


def _links(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each target with its parameters; of a repeated parameter the first counts."""
    position = 0
    while (link := _TARGET.match(header, position)) is not None:
        position = link.end()
        parameters: dict[str, str] = {}
        while (found := _PARAMETER.match(header, position)) is not None:
            position = found.end()
            name, quoted, token = found.groups()
            value = _ESCAPED.sub(r"\1", quoted) if quoted is not None else token or ""
            parameters.setdefault(name.lower(), value)
        yield link[1].strip(), parameters
