"""Canonical bytes, hashes and instants of the metadata chain (rules C9 and C10).

Hashes name their own kind: ``f`` is base16, ``1220`` is sha2-256 and ``1620`` is sha3-256 of 32
bytes. We write the first kind; chains of other tools may have the second.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from dil.model.json import JsonValue

SHA2_256 = "f1220"
SHA3_256 = "f1620"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ITEMS_OF_PIECE = 256
_SECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_SYSTEM_TIME = re.compile(_SECONDS + r"\.\d{6}Z", re.ASCII)
_WATERMARK = re.compile(_SECONDS + r"\.\d{3}Z", re.ASCII)


def canonical(value: JsonValue) -> bytes:
    """Return UTF-8 JSON with sorted keys, without blanks, and with only the necessary escapes.

    Raises:
        TypeError: the value has a float or a decimal, whose text form is not unique.
    """
    return b"".join(canonical_pieces(value))


def canonical_pieces(value: JsonValue) -> Iterator[bytes]:
    """Yield the bytes of ``canonical`` in pieces, so that long lists can make items on demand.

    A list is split into pieces if only objects enclose it.

    Raises:
        TypeError: as ``canonical`` does.
    """
    if isinstance(value, dict):
        yield b"{"
        for number, name in enumerate(sorted(value)):
            yield b"," * (number > 0) + _content(name) + b":"
            yield from canonical_pieces(value[name])
        yield b"}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield b"["
        for start in range(0, len(value), _ITEMS_OF_PIECE):
            yield b"," * (start > 0)
            yield _content(list(value[start : start + _ITEMS_OF_PIECE]))[1:-1]
        yield b"]"
    else:
        yield _content(value)


def _content(value: JsonValue) -> bytes:
    _refuse_fractions(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def content_hash(content: bytes) -> str:
    """Return the sha2-256 multihash of some bytes."""
    return hash_of_pieces((content,))


def hash_of_pieces(pieces: Iterable[bytes]) -> str:
    """Return the sha2-256 multihash of the pieces' joined bytes."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return SHA2_256 + digest.hexdigest()


def is_hash_of(multihash: str, content: bytes) -> bool:
    """Return whether the multihash, of either kind that we can read, belongs to the bytes."""
    if multihash.startswith(SHA3_256):
        return multihash == SHA3_256 + hashlib.sha3_256(content).hexdigest()
    return multihash == content_hash(content)


def key_hash(text: str) -> str:
    """Return the 64 hex digits that replace a long text in a key column (rule C19)."""
    return hashlib.sha256(text.encode()).hexdigest()


def system_time_text(instant: int) -> str:
    """Return epoch ms as UTC with exactly six fraction digits and ``Z``."""
    return _utc(instant).isoformat(timespec="microseconds") + "Z"


def watermark_text(instant: int) -> str:
    """Return epoch ms as UTC with exactly three fraction digits and ``Z``."""
    return _utc(instant).isoformat(timespec="milliseconds") + "Z"


def is_system_time(text: str) -> bool:
    """Return whether a text has the form of ``system_time_text``; such texts sort by time."""
    return _SYSTEM_TIME.fullmatch(text) is not None and _is_instant(text)


def is_watermark(text: str) -> bool:
    """Return whether a text has the form of ``watermark_text``; such texts sort by time."""
    return _WATERMARK.fullmatch(text) is not None and _is_instant(text)


def instant_of(text: str) -> int:
    """Return the epoch ms of a system time or watermark text.

    Raises:
        ValueError: the text is not a UTC instant with ``Z``.
    """
    if not text.endswith("Z"):
        raise ValueError(f"{text!r} is not a UTC instant")
    return (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND


def _is_instant(text: str) -> bool:
    try:
        instant_of(text)
    except ValueError:
        return False
    return True


def _utc(instant: int) -> datetime:
    return (_EPOCH + timedelta(milliseconds=instant)).replace(tzinfo=None)


def _refuse_fractions(value: JsonValue) -> None:
    if isinstance(value, str | int) or value is None:
        return
    if isinstance(value, Mapping):
        for item in value.values():
            _refuse_fractions(item)
    elif isinstance(value, Sequence):
        for item in value:
            _refuse_fractions(item)
    else:
        raise TypeError(f"{value!r} has no canonical form: only integers are allowed")
