"""The form of ``ENC(...)`` that this project writes: AES-256-GCM under a key derived by scrypt.

``ENC(v1:...)`` holds the URL-safe base64, without padding, of

    1 byte   log2 of scrypt's N       16 bytes  salt of the key
    1 byte   scrypt's r               12 bytes  nonce, random for each text
    1 byte   scrypt's p               the rest  cipher text and its 16 byte tag

All bytes before the cipher text, and the prefix, are authenticated with it. The name of the
property is not: values may be moved between properties and files. A wrong password and a changed
text look the same, and neither passes unnoticed.

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

from dil.secrets.forms import PREFIX

_VERSION = PREFIX.encode()
_SALT_BYTES = 16
_NONCE_BYTES = 12
_TAG_BYTES = 16
_HEAD_BYTES = 3 + _SALT_BYTES
_KEY_BYTES = 32
_LARGEST_LOG_N = 20
# What a text may ask for: a changed one must not take all memory or an hour before it is refused.
_LARGEST_MEMORY = 256 * 2**20
_LARGEST_P = 16


@dataclass(frozen=True, slots=True)
class Cost:
    """What a key costs to derive: 32 MiB and about a third of a second by default."""

    log_n: int = 15
    r: int = 8
    p: int = 3

    @property
    def memory(self) -> int:
        """Return the bytes that scrypt needs."""
        return 128 * self.r * (1 << self.log_n)

    def check(self) -> None:
        """Refuse what no writer of this form asks for.

        Raises:
            ValueError: out of bounds.
        """
        is_sane = 1 <= self.log_n <= _LARGEST_LOG_N and self.r > 0 and 1 <= self.p <= _LARGEST_P
        if not is_sane or self.memory > _LARGEST_MEMORY:
            raise ValueError("the text inside ENC(...) was changed or cut off")


@dataclass(frozen=True, slots=True, repr=False)
class Encryptor:
    """Encrypts texts under one master password; derives its key once.

    ``salt`` is random for each encryptor; the texts of one share it, so that whoever reads them
    derives one key.
    """

    password: str
    salt: bytes
    cost: Cost

    @classmethod
    def of(cls, password: str, cost: Cost | None = None) -> Encryptor:
        """Return an encryptor with a new salt."""
        return cls(password, secrets.token_bytes(_SALT_BYTES), cost or Cost())

    def encrypt(self, text: str) -> str:
        """Return ``ENC(v1:...)`` of a text; each call gives another one."""
        head = bytes((self.cost.log_n, self.cost.r, self.cost.p)) + self.salt
        nonce = secrets.token_bytes(_NONCE_BYTES)
        key = _derived(self.password, self.salt, self.cost)
        sealed = AESGCM(key).encrypt(nonce, text.encode(), _VERSION + head + nonce)
        inside = base64.urlsafe_b64encode(head + nonce + sealed).rstrip(b"=").decode()
        return f"ENC({PREFIX}{inside})"


def decrypt(cipher_text: str, password: str) -> str:
    """Return the plain text of what stands inside ``ENC(...)``, prefix included.

    Raises:
        ValueError: it was cut off or changed, or the password is another one. The message repeats
            neither text.
    """
    raw = _decoded(cipher_text.removeprefix(PREFIX))
    head, nonce = raw[:_HEAD_BYTES], raw[_HEAD_BYTES : _HEAD_BYTES + _NONCE_BYTES]
    cost = Cost(*head[:3])
    cost.check()
    key = _derived(password, head[3:], cost)
    sealed = raw[_HEAD_BYTES + _NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, sealed, _VERSION + head + nonce).decode()
    except InvalidTag:
        raise ValueError("no master password fits, or the text was changed") from None


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:  # not ASCII, or binascii.Error
        raise ValueError("the text inside ENC(...) is not base64") from None
    if len(raw) < _HEAD_BYTES + _NONCE_BYTES + _TAG_BYTES:
        raise ValueError("the text inside ENC(...) is cut off")
    return raw


@functools.lru_cache(maxsize=64)
def _derived(password: str, salt: bytes, cost: Cost) -> bytes:
    """Return the key of a password; kept, as it is slow on purpose."""
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=1 << cost.log_n,
        r=cost.r,
        p=cost.p,
        maxmem=cost.memory + 2**20 + 128 * cost.r * cost.p,
        dklen=_KEY_BYTES,
    )
