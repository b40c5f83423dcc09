"""Encrypts the ``ENC(...)`` texts of a job file again, and changes nothing else in its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dil.secrets.authenticated import Encryptor, purpose_of
from dil.secrets.forms import ENCRYPTED_INSIDE
from dil.secrets.resolver import SecretError, SecretResolver

_COMMENT = re.compile(r"[ \t\f]*[#!]")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The new text of a file, and the lines (from 1) of the texts that were encrypted again."""

    text: str
    lines: tuple[int, ...]


def reencrypt(text: str, resolver: SecretResolver, encryptor: Encryptor) -> Rewritten:
    """Return a job file's text with every ``ENC(...)`` encrypted by ``encryptor``.

    Comment lines stay as they are, and each text keeps its purpose.

    Raises:
        SecretError: a text cannot be decrypted; the error names its line.
    """
    lines = text.splitlines(keepends=True)
    changed: list[int] = []
    for index, line in enumerate(lines):
        if _COMMENT.match(line) or not ENCRYPTED_INSIDE.search(line):
            continue
        lines[index] = ENCRYPTED_INSIDE.sub(_again(resolver, encryptor, index + 1), line)
        changed.append(index + 1)
    return Rewritten("".join(lines), tuple(changed))


def _again(
    resolver: SecretResolver, encryptor: Encryptor, line: int
) -> Callable[[re.Match[str]], str]:
    def replaced(found: re.Match[str]) -> str:
        try:
            purpose = purpose_of(found[0])
            return encryptor.encrypt(resolver.resolve(found[0], purpose).reveal(), purpose)
        except SecretError as error:
            raise SecretError(f"line {line}: {error.what}", error.fix) from None

    return replaced
