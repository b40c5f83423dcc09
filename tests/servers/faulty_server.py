"""A source of rows that makes the faults that a test asks for, byte by byte, below HTTP libraries.

In a test::

    with FaultySource(Dataset.generate(25, units=("a", "b"))) as source:
        source.strikes.append(Strike(resets_in_body, page=3, unit="b"))
        ...  # requests to source.url
        source.strikes.clear()

``/records`` answers pages of rows, and so does ``/moved``, where nothing goes wrong. The query is
``?unit=U&since=MS&until=MS&limit=N`` and one of ``cursor``, ``offset``, ``page``. An answer has the
facts for every way to the next page::

    {"data":[...],"next":cursor|null,"next_url":path|null,"more":bool,"offset":o,"page":p,"total":t}

A fault is an ``Act``: a function that gets the wire, the request and the good answer, and sends
whatever it wants. See ``tests.servers.faulty_acts``.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.servers.http_server import records_page
from tests.servers.rows import Dataset, encode

_WHO_ARE_YOU = b'{"error":"who are you?"}'
_ENOUGH = b'{"error":"this walk does not end"}'
_PATHS = frozenset({"/records", "/moved"})
_MOST_REQUESTS = 200  # for one page; a walk that asks more often does not end


@dataclass(frozen=True)
class Asked:
    """A request; header names are in lower case, ``page`` counts a work unit's pages from 1."""

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    page: int = 0


@dataclass(frozen=True)
class Answer:
    """An answer as it should be sent; ``Content-Length`` is added unless ``is_bare``."""

    body: bytes
    status: int = 200
    reason: str = "OK"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    version: str = "HTTP/1.1"
    is_bare: bool = False

    @property
    def head(self) -> bytes:
        """Return everything before the body."""
        lines = [f"{self.version} {self.status} {self.reason}".rstrip()]
        names = {name.lower() for name, _ in self.headers}
        if "date" not in names:
            lines.append(f"Date: {formatdate(usegmt=True)}")
        lines.extend(f"{name}: {value}" for name, value in self.headers)
        if not self.is_bare and "content-length" not in names:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def over(self, **headers: str) -> Answer:
        """Return the answer with headers added; underscores are hyphens."""
        added = [(name.replace("_", "-"), text) for name, text in headers.items()]
        names = {name.lower() for name, _ in added}
        kept = [pair for pair in self.headers if pair[0].lower() not in names]
        return replace(self, headers=(*kept, *added))


class Wire:
    """One connection; after it is closed, nothing more is answered on it."""

    def __init__(
        self, connection: socket.socket, dataset: Dataset, stopping: threading.Event
    ) -> None:
        self._connection = connection
        self._dataset = dataset
        self._stopping = stopping
        self.is_open = True

    def page(self, asked: Asked, **query: str) -> Answer:
        """Return the answer that a request would get with other query values."""
        return rows_answer(self._dataset, replace(asked, query={**asked.query, **query}))[0]

    def answer(self, answer: Answer) -> None:
        """Send an answer completely and correctly."""
        self.send(answer.head + answer.body)

    def send(self, data: bytes) -> None:
        """Send bytes; the other side may be gone."""
        try:
            self._connection.sendall(data)
        except OSError:
            self.is_open = False

    def pause(self, seconds: float) -> None:
        """Wait, but no longer than the server lives."""
        if self._stopping.wait(seconds):
            self.is_open = False

    def close(self) -> None:
        """End the connection properly."""
        self.is_open = False

    def reset(self) -> None:
        """End the connection with RST instead of FIN."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.is_open = False


Act = Callable[[Wire, Asked, Answer], None]


@dataclass(frozen=True)
class Strike:
    """A fault in the first ``times`` answers for a page of a unit; ``times`` 0 means each answer.

    ``page`` 0 means any page, and ``unit`` "" means any unit.
    """

    act: Act
    page: int = 0
    unit: str = ""
    times: int = 0


@dataclass
class _State:
    """What the connections' threads share, guarded by ``lock``."""

    dataset: Dataset
    strikes: list[Strike] = field(default_factory=list)
    struck: dict[Strike, int] = field(default_factory=dict)
    requests: list[Asked] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    tokens: set[str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)


class FaultySource:
    """The source in threads of this process, on a free loopback port.

    ``tokens`` are the accepted bearer tokens, None accepts everybody.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._state = _State(dataset)
        self._listener: socket.socket | None = None
        self._port = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._state.stopping.set()
        self.hang_up()
        for thread in self._threads:
            thread.join()

    @property
    def url(self) -> str:
        """Return ``http://127.0.0.1:<port>``."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def dataset(self) -> Dataset:
        """Return the rows being served."""
        return self._state.dataset

    @property
    def strikes(self) -> list[Strike]:
        """Return the list of faults; append to it, clear it."""
        return self._state.strikes

    @property
    def requests(self) -> list[Asked]:
        """Return the requests so far."""
        return list(self._state.requests)

    @property
    def tokens(self) -> set[str] | None:
        """Return the accepted tokens; may be set."""
        return self._state.tokens

    @tokens.setter
    def tokens(self, tokens: set[str] | None) -> None:
        self._state.tokens = tokens

    def struck(self) -> set[str]:
        """Return the units of the strikes that struck so far."""
        return {strike.unit for strike in self._state.struck}

    def listen(self) -> None:
        """Take connections, at the earlier port if there was one."""
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=64)
        self._port = self._listener.getsockname()[1]
        self._begin(self._accept, self._listener)

    def hang_up(self) -> None:
        """Refuse connections from now on."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def _begin(self, target: Callable[[socket.socket], None], connection: socket.socket) -> None:
        thread = threading.Thread(target=target, args=(connection,), daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        wire = Wire(connection, self._state.dataset, self._state.stopping)
        connection.settimeout(0.1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            buffered = b""
            while wire.is_open and not self._state.stopping.is_set():
                try:
                    received = connection.recv(65536)
                except TimeoutError:
                    continue
                except OSError:
                    return
                if not received:
                    return
                buffered += received
                if not buffered[:1].isalpha():  # a handshake of TLS
                    wire.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    return
                while b"\r\n\r\n" in buffered and wire.is_open:
                    head, _, buffered = buffered.partition(b"\r\n\r\n")
                    self._answer(wire, _read(head))

    def _answer(self, wire: Wire, asked: Asked) -> None:
        state = self._state
        answer, page = rows_answer(state.dataset, asked)
        asked = replace(asked, page=page)
        with state.lock:
            state.requests.append(asked)
            state.asked[asked.target] += 1
            is_endless = state.asked[asked.target] > _MOST_REQUESTS
            strike = self._strike(asked)
            is_known = state.tokens is None or _token(asked) in state.tokens
        if is_endless:
            wire.answer(replace(answer, body=_ENOUGH, status=400, reason="Enough"))
        elif strike is not None:
            strike.act(wire, asked, answer)
        elif is_known:
            wire.answer(answer)
        else:
            wire.answer(replace(answer, body=_WHO_ARE_YOU, status=401, reason="Unauthorized"))

    def _strike(self, asked: Asked) -> Strike | None:
        struck = self._state.struck
        for strike in self._state.strikes:
            if asked.path != "/records" or strike.page not in {0, asked.page}:
                continue
            if strike.unit not in {"", asked.query.get("unit", "")}:
                continue
            number = struck.get(strike, 0) + 1
            if strike.times and number > strike.times:
                continue
            struck[strike] = number
            return strike
        return None


def rows_answer(dataset: Dataset, asked: Asked) -> tuple[Answer, int]:
    """Return the page that a request asks for, and its number."""
    if asked.path not in _PATHS:
        missing = Answer(b'{"error":"no such path"}', 404, "Not Found")
        return missing, 0
    query = dict(asked.query)
    page = json.loads(records_page(dataset.of(query.get("unit")), query))
    page["more"] = page["offset"] + len(page["data"]) < page["total"]
    page["next_url"] = None
    answer = Answer(b"")
    if page["next"] is not None:
        followed = {**query, "cursor": page["next"]}
        page["next_url"] = f"/records?{urlencode(followed)}"
        answer = answer.over(Link=f'<{page["next_url"]}>; rel="next"')
    return replace(answer, body=encode(page)), page["page"]


def _token(asked: Asked) -> str:
    return asked.headers.get("authorization", "").removeprefix("Bearer ")


def _read(head: bytes) -> Asked:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): text.strip() for name, _, text in pairs}
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Asked(method, target, parts.path, query, headers)
