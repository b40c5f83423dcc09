"""ENC(...) texts, ``env:`` and ``file:`` references: from what a job file says to a Secret."""

from dil.secrets.master_key import read_master_passwords
from dil.secrets.resolver import SecretError, SecretResolver, is_reference

__all__ = ["SecretError", "SecretResolver", "is_reference", "read_master_passwords"]
