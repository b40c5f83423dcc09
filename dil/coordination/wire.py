"""The messages between a task and the driver: JSON, with one answer to each question.

No message is pickled: even a caller that reaches the port and knows the key can only send these
questions. Before the first message, both sides prove to each other that they know the key (HMAC
challenges of ``multiprocessing.connection``). Tokens are encrypted with AES-256-GCM under another
key, which is derived from the first, because others may read a cluster's network.
"""

from __future__ import annotations

import hashlib
import secrets
import socket
import struct
from collections.abc import Mapping
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import msgspec

from dil.coordination.pace import Ticket
from dil.errors import (
    AuthenticationError,
    DilError,
    PluginFailureError,
    QuotaError,
    SourceContractError,
    SourceError,
    TransientSourceError,
)
from dil.model.secret import Secret

MAX_BYTES = 1 << 20
HANDSHAKE_S = 10
_NONCE_BYTES = 12
_ERRORS: Mapping[str, type[DilError]] = {
    kind.code: kind
    for kind in (
        AuthenticationError, PluginFailureError, QuotaError, SourceContractError, SourceError,
    )
}  # fmt: skip


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of all messages; the tag is the class's name."""


class AskTicket(Message, frozen=True):
    """Asks when a request may be sent, after the wait for ``earlier``. Answer: GiveTicket."""

    earlier: Ticket | None


class AskSpent(Message, frozen=True):
    """Asks whether the run's quota is used up. Answer: GiveSpent."""


class AskCredential(Message, frozen=True):
    """Asks for a token; ``rejected`` is a refused token, sealed. Answer: GiveCredential."""

    rejected: bytes | None


class TellSlowDown(Message, frozen=True):
    """Asks to hold all requests back. Answer: Done."""

    seconds: float


class TellQuotaSpent(Message, frozen=True):
    """Asks to refuse all requests. Answer: Done."""

    why: str


class TellProgress(Message, frozen=True):
    """Asks to add to the run's totals. Answer: Done."""

    requests: int
    rows: int
    size: int


class GiveTicket(Message, frozen=True):
    """Gives a slot."""

    ticket: Ticket


class GiveSpent(Message, frozen=True):
    """Gives the reason why no more requests are sent; empty while requests are sent."""

    why: str


class GiveCredential(Message, frozen=True):
    """Gives a sealed token."""

    token: bytes


class Done(Message, frozen=True):
    """The answer without content."""


class Refused(Message, frozen=True):
    """The answer if the driver raised one of our errors."""

    code: str
    message: str
    fix: str
    retry_after_s: float | None


Question = AskTicket | AskSpent | AskCredential | TellSlowDown | TellQuotaSpent | TellProgress
Answer = GiveTicket | GiveSpent | GiveCredential | Done | Refused

_encode = msgspec.json.Encoder().encode
_questions = msgspec.json.Decoder(Question)
_answers = msgspec.json.Decoder(Answer)


def send(connection: Connection, message: Question | Answer) -> None:
    """Send one message."""
    connection.send_bytes(_encode(message))


def question(connection: Connection) -> Question:
    """Wait for a question.

    Raises:
        OSError, EOFError: the connection ended.
        msgspec.MsgspecError: the message is not a question.
    """
    found: Question = _questions.decode(connection.recv_bytes(MAX_BYTES))
    return found


def answer(connection: Connection) -> Answer:
    """Wait for an answer; raises the same errors as ``question``."""
    found: Answer = _answers.decode(connection.recv_bytes(MAX_BYTES))
    return found


def greet(link: socket.socket, key: bytes, *, as_server: bool) -> Connection:
    """Return the connection over a socket after both sides have proved that they know the key.

    Raises:
        OSError, EOFError: the other side closed, or was silent for ten seconds.
        multiprocessing.AuthenticationError: the other side has another key.
    """
    _time_out(link, HANDSHAKE_S)
    connection = Connection(link.detach())
    try:
        steps = (deliver_challenge, answer_challenge)
        for step in steps if as_server else reversed(steps):
            step(connection, key)
        with socket.socket(fileno=connection.fileno()) as again:
            _time_out(again, 0)
            again.detach()
    except BaseException:
        connection.close()
        raise
    return connection


def _time_out(link: socket.socket, seconds: int) -> None:
    """Make the system end a read that takes longer than ``seconds``; 0 for no limit."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))


def refusal(error: DilError) -> Refused:
    """Return the message that describes an error."""
    return Refused(error.code, error.message, error.fix, getattr(error, "retry_after_s", None))


def error_of(refused: Refused) -> DilError:
    """Return the error that a message describes."""
    if refused.code == TransientSourceError.code:
        return TransientSourceError(refused.message, refused.fix, refused.retry_after_s)
    return _ERRORS.get(refused.code, SourceError)(refused.message, refused.fix)


def seal(token: Secret, key: bytes) -> bytes:
    """Return a token encrypted for the other side."""
    # Imported here: few jobs have tokens, and the import takes longer than a question.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(_token_key(key)).encrypt(nonce, token.reveal().encode(), None)


def unseal(sealed: bytes, key: bytes) -> Secret:
    """Return the token that the other side sealed.

    Raises:
        ValueError: the token was changed on its way.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
    try:
        return Secret(AESGCM(_token_key(key)).decrypt(nonce, rest, None).decode())
    except InvalidTag:
        raise ValueError("a token was changed on its way") from None


def _token_key(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=32, person=b"dil token").digest()
