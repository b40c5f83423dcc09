"""Shows requests without secrets to people and machines: as text, as JSON, as a curl command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

from dil.model.secret import MASK
from dil.observe.logs import one_line
from dil.spi.request_view import RequestView

_LONGEST = 10_000
# Schemes of credentials before a value (IANA's registry, and those of single services).
_SCHEME = re.compile(
    r"(Basic|Bearer|Digest|DPoP|Negotiate|OAuth|Token|ApiKey|Api-Key|SSWS|Key) (?=\S)",
    re.IGNORECASE,
)


def masked_view(view: RequestView, redact: Callable[[str], str]) -> RequestView:
    """Return a request with each part masked separately, so that a mask covers no other part."""
    return RequestView(
        view.action,
        redact(view.place),
        {name: _header(name, value, redact) for name, value in view.headers.items()},
        redact(view.text),
        is_http=view.is_http,
    )


def request_lines(view: RequestView) -> Iterator[str]:
    """Yield the lines of a masked request: verb and address, headers, statement or body."""
    yield one_line(f"{view.action} {view.place}")
    for name, value in view.headers.items():
        yield one_line(f"  {name}: {value}")
    text = view.text[:_LONGEST]
    for line in text.strip("\n").split("\n") if text else ():
        yield f"  {one_line(line)}"
    if len(view.text) > _LONGEST:
        yield f"  ... and {len(view.text) - _LONGEST:,} more characters"


def curl_line(view: RequestView) -> str:
    """Return the curl command for a masked HTTP request; empty for other protocols."""
    if not view.is_http:
        return ""
    parts = ["curl", "-X", view.action, view.place]
    for name, value in view.headers.items():
        parts += ["-H", f"{name}: {value}"]
    if view.text:
        parts += ["--data-raw", view.text]
    return " ".join(shlex.quote(part) for part in parts)


def request_json(view: RequestView) -> dict[str, object]:
    """Return a masked request as JSON members."""
    return {
        "action": view.action,
        "place": view.place,
        "headers": dict(view.headers),
        "text": view.text,
        "curl": curl_line(view) or None,
    }


def _header(name: str, value: str, redact: Callable[[str], str]) -> str:
    """Return the value of a header as a line of the log would show it."""
    head = f"{name}: "
    shown = redact(f"{head}{value}")
    if not shown.startswith(head):
        return MASK
    scheme = _SCHEME.match(value)
    # The scheme is no secret: it only says how to send the credential.
    return f"{scheme[1]} {MASK}" if scheme and shown == head + MASK else shown.removeprefix(head)
