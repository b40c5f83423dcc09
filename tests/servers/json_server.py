"""A fast HTTP server of JSON that it does not keep: one endless array, or very many small pages.

As a process of its own, stopped by its pid (one JSON line ``{"url","pid"}`` on stdout)::

    python tests/servers/json_server.py

Endpoints:
    /array/N    {"data":[rows...],"total":n}, about N MB in chunks, with rows of 255 bytes
    /pages/N    ?cursor=C: {"data":[10 rows],"next":cursor|null}, N pages in all
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":  # run as a script: make `tests.servers` importable
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.servers.rows import START_MS, generated_row

PAGE_ROWS = 10
_BLOCK_ROWS = 4000


def array(megabytes: int) -> Iterator[bytes]:
    """Yield the text of one large response; every block of rows is the same."""
    rows = (generated_row("a", number, START_MS + number) for number in range(_BLOCK_ROWS))
    block = ",".join(json.dumps(row, separators=(",", ":")) for row in rows).encode()
    blocks = max(1, megabytes * 1_000_000 // len(block))
    yield b'{"data":['
    for number in range(blocks):
        yield (b"," if number else b"") + block
    yield b'],"total":%d}' % (blocks * _BLOCK_ROWS)


def page(number: int, pages: int) -> bytes:
    """Return one small response; ``number`` counts from 0."""
    first = number * PAGE_ROWS
    rows = [generated_row("a", first + n, START_MS + first + n) for n in range(PAGE_ROWS)]
    following = number + 1 if number + 1 < pages else None
    return json.dumps({"data": rows, "next": following}).encode()


def serve(connection: socket.socket) -> None:
    """Answer the requests of one connection until it ends."""
    with connection, connection.makefile("rb") as requests:
        while line := requests.readline():
            while requests.readline().strip():
                pass
            path, _, query = line.split()[1].decode().partition("?")
            kind, size = path.strip("/").split("/")
            if kind == "array":
                _send_chunks(connection, array(int(size)))
            else:
                _send(connection, page(int(query.partition("cursor=")[2] or 0), int(size)))


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _send(connection: socket.socket, body: bytes) -> None:
    connection.sendall(_HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def _send_chunks(connection: socket.socket, chunks: Iterator[bytes]) -> None:
    connection.sendall(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for chunk in chunks:
        connection.sendall(b"%x\r\n" % len(chunk) + chunk + b"\r\n")
    connection.sendall(b"0\r\n\r\n")


def main() -> None:
    """Serve on a free port until stopped."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
