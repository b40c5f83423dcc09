"""Encrypts the ``ENC(...)`` texts of a job file again, and changes nothing else in its text."""

from __future__ import annotations

import re
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

    def encrypted_again(found: re.Match[str]) -> str:
        purpose = purpose_of(found[0])
        return encryptor.encrypt(resolver.resolve(found[0], purpose).reveal(), purpose)

    lines = text.splitlines(keepends=True)
    changed: list[int] = []
    for number, line in enumerate(lines, 1):
        if _COMMENT.match(line) or not ENCRYPTED_INSIDE.search(line):
            continue
        try:
            lines[number - 1] = ENCRYPTED_INSIDE.sub(encrypted_again, line)
        except SecretError as error:
            raise SecretError(f"line {number}: {error.what}", error.fix) from None
        changed.append(number)
    return Rewritten("".join(lines), tuple(changed))
