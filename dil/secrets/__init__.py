"""Turns ENC(...) texts and references such as ``env:`` and ``file:`` in job files into Secrets."""

from dil.secrets.forms import is_encrypted, is_reference
from dil.secrets.masking import learn, learned
from dil.secrets.resolver import (
    SecretError,
    SecretResolver,
    master_password_files,
    read_master_passwords,
)

__all__ = [
    "SecretError",
    "SecretResolver",
    "is_encrypted",
    "is_reference",
    "learn",
    "learned",
    "master_password_files",
    "read_master_passwords",
]
