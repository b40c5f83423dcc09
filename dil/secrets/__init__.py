"""ENC(...) texts, ``env:`` and ``file:`` references: from what a job file says to a Secret."""

from dil.secrets.forms import is_encrypted, is_reference
from dil.secrets.master_key import read_master_passwords
from dil.secrets.resolver import SecretError, SecretResolver

__all__ = [
    "SecretError",
    "SecretResolver",
    "is_encrypted",
    "is_reference",
    "read_master_passwords",
]
