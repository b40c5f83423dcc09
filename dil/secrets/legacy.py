"""Decrypts the encryption by password of LinkedIn's DIL: MD5 with DES, and with triple DES.

Both are weak, and kept only to read old values (rule S2). Wrong padding shows a wrong password, but
one wrong password in 256 gives right padding by chance.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.padding import PKCS7

_ROUNDS = 1000
_SALT_BYTES = 8
_BLOCK_BYTES = 8


def decrypt(cipher_text: str, password: str, *, strong: bool) -> str:
    """Return the plain text of the text inside ``ENC(...)``.

    Args:
        cipher_text: Base64 of eight bytes of salt, followed by the cipher text.
        password: The master password.
        strong: Whether triple DES was used, not DES (rule S2).

    Raises:
        ValueError: the text is not base64 or has no whole blocks, or the password does not fit.
    """
    try:
        raw = base64.b64decode(cipher_text, validate=True)
    except binascii.Error as error:
        raise ValueError("the text inside ENC(...) is not base64") from error
    salt, blocks = raw[:_SALT_BYTES], raw[_SALT_BYTES:]
    if not blocks or len(blocks) % _BLOCK_BYTES:
        raise ValueError("the text inside ENC(...) is too short or cut off")
    key, vector = (_strong_key if strong else _default_key)(salt, password.encode())
    decryptor = Cipher(TripleDES(key), modes.CBC(vector)).decryptor()
    padding = PKCS7(_BLOCK_BYTES * 8).unpadder()
    try:
        padded = decryptor.update(blocks) + decryptor.finalize()
        return (padding.update(padded) + padding.finalize()).decode()
    except ValueError as error:
        # The error itself may quote bytes of the plain text, so it is not passed on.
        raise ValueError("no master password fits") from error.__cause__


def _default_key(salt: bytes, password: bytes) -> tuple[bytes, bytes]:
    digest = password + salt
    for _ in range(_ROUNDS):
        digest = hashlib.md5(digest, usedforsecurity=False).digest()
    # Single DES is triple DES with one key three times.
    return digest[:8] * 3, digest[8:]


def _strong_key(salt: bytes, password: bytes) -> tuple[bytes, bytes]:
    first, second = salt[:4], salt[4:]
    if first == second:
        first = first[::-1]
    material = b""
    for half in (first, second):
        digest = half
        for _ in range(_ROUNDS):
            digest = hashlib.md5(digest + password, usedforsecurity=False).digest()
        material += digest
    return material[:24], material[24:]
