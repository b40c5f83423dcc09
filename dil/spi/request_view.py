"""A request as people read it: what a session would send, before it sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# What masks secrets in a log masks such a header up to the end of its line.
_LAST = frozenset({"authorization", "proxy-authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request, whole. Secrets are revealed here: whoever shows it masks them.

    Attributes:
        action: An HTTP method, or a word for what is done at the place: query, list, read, put.
        place: The address, with all values.
        headers: Headers of HTTP, none for other protocols.
        text: A statement, a body, or what else is said of the request; empty for nothing.
        is_http: Whether curl could send it.
    """

    action: str
    place: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)
    is_http: bool = False

    @property
    def line(self) -> str:
        """Return all of it on one line, for a log that masks secrets."""
        names = sorted(self.headers, key=lambda name: name.lower() in _LAST)
        headers = [f"{name}: {self.headers[name]}" for name in names]
        return " | ".join(filter(None, (f"{self.action} {self.place}", self.text, *headers)))
