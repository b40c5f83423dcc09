"""Shows people the request that a session would send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# A log masks the value of such a header up to the end of the line, so these headers come last.
_LAST = frozenset({"authorization", "proxy-authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class RequestView:
    """One whole request with revealed secrets: mask them before it is shown.

    Attributes:
        action: An HTTP method, or the word query, list, read or put.
        place: The address, with all values.
        headers: The headers of HTTP; empty for other protocols.
        text: A statement, a body, or other words about the request; may be empty.
        is_http: Whether curl could send it.
    """

    action: str
    place: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)
    is_http: bool = False

    @property
    def line(self) -> str:
        """Return the whole request on one line, for a log that masks secrets."""
        names = sorted(self.headers, key=lambda name: name.lower() in _LAST)
        headers = [f"{name}: {self.headers[name]}" for name in names]
        return " | ".join(filter(None, (f"{self.action} {self.place}", self.text, *headers)))
