"""The forms of ``ENC(...)`` that this project writes: AES-256-GCM under a key derived by scrypt.

``ENC(v2:...)`` holds the URL-safe base64, without padding, of

    1 byte   log2 of scrypt's N       12 bytes  nonce, random for each text
    1 byte   scrypt's r                2 bytes  length of the purpose, big endian
    1 byte   scrypt's p               so many   the purpose in UTF-8
    16 bytes salt of the key          the rest  cipher text and its 16 byte tag

The purpose is the property that the text was encrypted for; the text opens for no other property.
``ENC(v1:...)`` has neither a purpose nor its length, and opens for every property.

The prefix and all bytes before the cipher text are authenticated together with it. A wrong password
and a changed text give the same error; neither passes unnoticed.

Source: RFC 7914 (scrypt), NIST SP 800-38D (GCM, 96 bit nonces); cost as in the OWASP Password
Storage Cheat Sheet, read 2024-06.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import secrets
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dil.secrets.forms import ANYWHERE, BOUND, ENCRYPTED, version_of

_SALT_BYTES = 16
_NONCE_BYTES = 12
_TAG_BYTES = 16
_HEAD_BYTES = 3 + _SALT_BYTES
_FIXED_BYTES = _HEAD_BYTES + _NONCE_BYTES
_LENGTH_BYTES = 2
_KEY_BYTES = 32
_LARGEST_LOG_N = 20
# The most cost that a text may ask for: a changed text must not use up all memory or an hour.
_LARGEST_MEMORY = 256 * 2**20
_LARGEST_P = 16


class PurposeError(ValueError):
    """A text was opened for another purpose than the authentic ``purpose`` in it."""

    def __init__(self, purpose: str) -> None:
        super().__init__(f"the text was encrypted for {purpose}")
        self.purpose = purpose


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of deriving a key: 32 MiB and about a third of a second by default."""

    log_n: int = 15
    r: int = 8
    p: int = 3

    @property
    def memory(self) -> int:
        """Return the bytes that scrypt needs."""
        return 128 * self.r * (1 << self.log_n)

    def check(self) -> None:
        """Refuse a cost that no writer of this form asks for.

        Raises:
            ValueError: the cost is out of bounds.
        """
        is_sane = 1 <= self.log_n <= _LARGEST_LOG_N and self.r > 0 and 1 <= self.p <= _LARGEST_P
        if not is_sane or self.memory > _LARGEST_MEMORY:
            raise ValueError("the text inside ENC(...) was changed or cut off")


@dataclass(frozen=True, slots=True, repr=False)
class Encryptor:
    """Encrypts texts under one master password; derives its key once.

    ``salt`` is random for each encryptor; all texts of one encryptor share the salt, so that a
    reader derives one key for them.
    """

    password: str
    salt: bytes
    cost: Cost

    @classmethod
    def of(cls, password: str, cost: Cost | None = None) -> Encryptor:
        """Return an encryptor with a new salt."""
        return cls(password, secrets.token_bytes(_SALT_BYTES), cost or Cost())

    def encrypt(self, text: str, purpose: str = "") -> str:
        """Encrypt a text for a purpose as ``ENC(v2:...)``; the result is different in each call.

        Without a purpose the result is ``ENC(v1:...)``, which can be decrypted for every purpose.
        """
        version, bound = ANYWHERE, b""
        if purpose:
            name = purpose.encode()
            version, bound = BOUND, len(name).to_bytes(_LENGTH_BYTES, "big") + name
        nonce = secrets.token_bytes(_NONCE_BYTES)
        head = bytes((self.cost.log_n, self.cost.r, self.cost.p)) + self.salt + nonce + bound
        key = _derived(self.password, self.salt, self.cost)
        sealed = AESGCM(key).encrypt(nonce, text.encode(), version.encode() + head)
        inside = base64.urlsafe_b64encode(head + sealed).rstrip(b"=").decode()
        return f"ENC({version}{inside})"


def decrypt(cipher_text: str, password: str, purpose: str = "") -> str:
    """Return the plain text; ``cipher_text`` is the text inside ``ENC(...)``, with its prefix.

    Raises:
        PurposeError: the text was encrypted for another purpose.
        ValueError: the text was cut off or changed, or the password does not fit. The message
            repeats neither the text nor the password.
    """
    version = version_of(cipher_text)
    raw = _decoded(cipher_text.removeprefix(version))
    start, end = _purpose_place(raw) if version == BOUND else (_FIXED_BYTES, _FIXED_BYTES)
    cost = Cost(*raw[:3])
    cost.check()
    key = _derived(password, raw[3:_HEAD_BYTES], cost)
    nonce = raw[_HEAD_BYTES:_FIXED_BYTES]
    try:
        plain = AESGCM(key).decrypt(nonce, raw[end:], version.encode() + raw[:end]).decode()
    except InvalidTag:
        raise ValueError("no master password fits, or the text was changed") from None
    own = raw[start:end].decode()
    if version == BOUND and own != purpose:
        raise PurposeError(own)
    return plain


def purpose_of(text: str) -> str:
    """Return the purpose that a whole ``ENC(v2:...)`` names; empty if it names none.

    Only decryption shows that the purpose is authentic.
    """
    found = ENCRYPTED.fullmatch(text)
    if found is None or version_of(found[1]) != BOUND:
        return ""
    try:
        raw = _decoded(found[1].removeprefix(BOUND))
        start, end = _purpose_place(raw)
        return raw[start:end].decode()
    except ValueError:
        return ""


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:  # not ASCII, or binascii.Error
        raise ValueError("the text inside ENC(...) is not base64") from None
    if len(raw) < _FIXED_BYTES + _TAG_BYTES:
        raise ValueError("the text inside ENC(...) is cut off")
    return raw


def _purpose_place(raw: bytes) -> tuple[int, int]:
    """Return the positions at which the purpose starts and ends."""
    start = _FIXED_BYTES + _LENGTH_BYTES
    end = start + int.from_bytes(raw[_FIXED_BYTES:start], "big")
    if len(raw) < end + _TAG_BYTES:
        raise ValueError("the text inside ENC(...) was changed or cut off")
    return start, end


@functools.lru_cache(maxsize=64)
def _derived(password: str, salt: bytes, cost: Cost) -> bytes:
    """Return the key of a password; keys are cached, because deriving one is slow on purpose."""
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=1 << cost.log_n,
        r=cost.r,
        p=cost.p,
        maxmem=cost.memory + 2**20 + 128 * cost.r * cost.p,
        dklen=_KEY_BYTES,
    )
