"""The forms in which a secret may be written: plain, ``ENC(...)``, ``env:NAME``, ``file:PATH``."""

from __future__ import annotations

import re

ANYWHERE = "v1:"
BOUND = "v2:"
VERSIONS = frozenset({"", ANYWHERE, BOUND})  # the empty text means the forms of LinkedIn's DIL

ENCRYPTED = re.compile(r"ENC\((.*)\)", re.DOTALL)
ENVIRONMENT = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
FILE = re.compile(r"file:(?://(?:localhost)?(?=/))?(.+)", re.DOTALL)

# An encrypted text inside a longer text, such as a line of a job file.
ENCRYPTED_INSIDE = re.compile(r"ENC\(([A-Za-z0-9+/=:_-]+)\)")

_VERSION = re.compile(r"v[0-9]+:")


def is_reference(text: str) -> bool:
    """Return whether a whole text is ENC(...), env:NAME or file:PATH, and so means a secret."""
    return any(form.fullmatch(text) for form in (ENCRYPTED, ENVIRONMENT, FILE))


def is_encrypted(text: str) -> bool:
    """Return whether a whole text is ``ENC(...)``."""
    return ENCRYPTED.fullmatch(text) is not None


def version_of(cipher_text: str) -> str:
    """Return the version in front, such as ``v1:``; empty for the forms of LinkedIn's DIL.

    Base64 has no colon, so those forms never begin like a version.
    """
    match = _VERSION.match(cipher_text)
    return match[0] if match else ""
