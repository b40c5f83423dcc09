"""What a ``FaultySource`` can do wrong: acts, and functions that make them."""

from __future__ import annotations

import gzip
import json
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from typing import Any

from tests.servers.faulty_server import Act, Answer, Asked, Wire
from tests.servers.rows import encode

_ERROR = b'{"error":"a fault"}'
MAINTENANCE = b"<!DOCTYPE html><html><body>Down for maintenance</body></html>"
# Longer than the time-outs of the jobs, which are 1 s.
_LONG_S = 30.0
Page = dict[str, Any]


# Refusals


def refuses(status: int, body: bytes = _ERROR, reason: str = "Fault", **headers: str) -> Act:
    """Answer with a status; underscores in the names of ``headers`` become hyphens."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        wire.answer(replace(answer, body=body, status=status, reason=reason).over(**headers))

    return act


def refuses_until(seconds: float, *, clock_off_s: float = 0.0, is_dated: bool = True) -> Act:
    """Answer 429 with a date in ``Retry-After`` by a wrong clock; ``is_dated`` sends its Date."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        now = time.time() + clock_off_s
        date = formatdate(now, usegmt=True) if is_dated else ""
        opens = formatdate(now + seconds, usegmt=True)
        refuses(429, Retry_After=opens, Date=date)(wire, asked, answer)

    return act


def redirects(status: int, target: Callable[[Asked], str]) -> Act:
    """Redirect the client to ``target``."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        refuses(status, b"", Location=target(asked))(wire, asked, answer)

    return act


# Connections


def resets(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Reset the connection instead of answering."""
    wire.reset()


def hangs_up(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Close the connection instead of answering."""
    wire.close()


def closes_in_headers(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Close the connection after the status and before the header that says the body's length."""
    wire.send(answer.head.partition(b"\r\n")[0] + b"\r\nServer: faulty\r\n")
    wire.close()


def resets_in_body(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Reset the connection in the middle of the body."""
    wire.send(answer.head + answer.body[: len(answer.body) // 2])
    wire.pause(0.05)  # otherwise the sent bytes would be lost together with the connection
    wire.reset()


def closes_in_body(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Close the connection in the middle of the body."""
    wire.send(answer.head + answer.body[: len(answer.body) // 2])
    wire.close()


def closes_in_chunk(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Close the connection in the middle of a chunk."""
    wire.send(_chunked_head(answer) + b"%x\r\n" % len(answer.body) + answer.body[:-20])
    wire.close()


def leaves_out_the_last_chunk(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Send the whole body in a chunk, and close without the empty chunk that ends it."""
    wire.send(_chunked_head(answer) + _chunk(answer.body))
    wire.close()


def sends_a_bad_chunk(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Write a chunk whose length is no number."""
    half = len(answer.body) // 2
    wire.send(_chunked_head(answer) + _chunk(answer.body[:half]) + b"zz\r\n" + answer.body[half:])
    wire.close()


def promises(extra: int) -> Act:
    """Send a Content-Length that is off by so much, and close."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        wire.answer(answer.over(Content_Length=str(len(answer.body) + extra)))
        wire.close()

    return act


def is_slow_to_begin(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Begin the answer after the client's time-out."""
    wire.pause(_LONG_S)


def stalls_in_body(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Stop in the middle of the body, until the client's time-out is over."""
    wire.send(answer.head + answer.body[:100])
    wire.pause(_LONG_S)


def trickles(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Send a byte now and then, always before the client's time-out."""
    wire.send(_chunked_head(answer))
    while wire.is_open:
        wire.send(_chunk(b" "))
        wire.pause(0.1)


def trickles_headers(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Send a byte of a header now and then, always before the client's time-out."""
    wire.send(b"HTTP/1.1 200 OK\r\nX-Note: ")
    while wire.is_open:
        wire.send(b"a")
        wire.pause(0.1)


def talks_gibberish(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Answer something that is not HTTP."""
    wire.send(b"220 mail.example.com ESMTP ready\r\n\r\n")
    wire.close()


def closes_when_idle(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Answer well, as if the connection stayed open, and close it."""
    wire.answer(answer)
    wire.close()


def answers_as_of_old(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Answer as HTTP/1.0 does: the body ends with the connection."""
    wire.answer(replace(answer, version="HTTP/1.0", is_bare=True))
    wire.close()


def gives_no_reason(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Leave the reason phrase out."""
    wire.answer(replace(answer, reason=""))


def says_continue_first(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Send an interim answer before the final answer."""
    wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    wire.answer(answer)


def gives_hints_first(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Send two interim answers with headers before the final answer."""
    wire.send(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    wire.answer(answer)


def has_headers(number: int, size: int) -> Act:
    """Add ``number`` headers of ``size`` bytes each."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        wire.answer(answer.over(**{f"X_{each}": "x" * size for each in range(number)}))

    return act


# Bodies


def packs(change: Callable[[bytes], bytes], coding: str = "gzip") -> Act:
    """Compress the body, and damage it."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        packed = change(answer.body)
        wire.answer(replace(answer, body=packed).over(Content_Encoding=coding))

    return act


def cut_where_flushed(body: bytes) -> bytes:
    """Return a gzip body that ends after its first half, where it was flushed."""
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return packer.compress(body[: len(body) // 2]) + packer.flush(zlib.Z_SYNC_FLUSH)


def with_bad_checksum(body: bytes) -> bytes:
    """Return a gzip body with a wrong checksum."""
    packed = gzip.compress(body)
    return packed[:-8] + struct.pack("<I", 0xBADBAD) + packed[-4:]


def body(change: Callable[[bytes], bytes], kind: str = "application/json") -> Act:
    """Send another body, with a content type."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        wire.answer(replace(answer, body=change(answer.body)).over(Content_Type=kind))

    return act


def instead(text: bytes, kind: str = "application/json") -> Act:
    """Send a text instead of the page, with status 200."""
    return body(lambda good: text, kind)


def page(change: Callable[[Page, Asked], Page | None]) -> Act:
    """Let ``change`` change a page in place, or return another page."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        members = json.loads(answer.body)
        wire.answer(replace(answer, body=encode(change(members, asked) or members)))

    return act


def rows(change: Callable[[dict[str, Any]], object]) -> Act:
    """Let ``change`` change each row of a page in place."""

    def act(members: Page, asked: Asked) -> None:
        for row in members["data"]:
            change(row)

    return page(act)


def members(**changes: object) -> Act:
    """Replace members of a page."""
    return page(lambda good, asked: {**good, **changes})


def _chunked_head(answer: Answer) -> bytes:
    return replace(answer, is_bare=True).over(Transfer_Encoding="chunked").head


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# Paging; a cursor is ``c`` and the number of rows before it, in hex


def again(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Send the rows of the page before in place of this page's rows."""
    good = json.loads(answer.body)
    before = good["offset"] - len(good["data"])
    earlier = json.loads(wire.page(asked, cursor=f"c{before:x}").body)
    wire.answer(replace(answer, body=encode({**good, "data": earlier["data"]})))


def as_without(**query: str) -> Act:
    """Answer as if the request had asked with other values."""

    def act(wire: Wire, asked: Asked, answer: Answer) -> None:
        wire.answer(wire.page(asked, **query))

    return act


def names_cursor(next_cursor: Callable[[Asked], object]) -> Act:
    """Name another cursor than the right one."""
    return page(lambda good, asked: {**good, "next": next_cursor(asked)})


def names_address(address: Callable[[Asked], object]) -> Act:
    """Name a wrong address of the next page."""
    return page(lambda good, asked: {**good, "next_url": address(asked)})


def sends_no_rows_yet(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Answer without rows, with a new cursor to the same page."""
    good = json.loads(answer.body)
    cursor = f"c0{asked.query.get('cursor', 'c0').removeprefix('c')}"
    empty = {**good, "data": [], "next": cursor, "more": True}
    wire.answer(replace(answer, body=encode(empty)))


def is_short(wire: Wire, asked: Asked, answer: Answer) -> None:
    """Send only two rows of the page; the cursor leads to the rows after these two."""
    wire.answer(wire.page(asked, limit="2"))
