"""Finds in GnuPG's status lines whether a pass phrase was wrong or a key was missing.

GnuPG's last message is "No secret key" for both. Source: GnuPG 2.2, doc/DETAILS, "Format of the
--status-fd output"; error codes of libgpg-error.
"""

from __future__ import annotations

from collections.abc import Iterable

_PARAMETERS = "ms.extract.preprocessor.parameters"
# The lower half of a code is the error, the upper half the part of GnuPG that reported it.
_CODE = 0xFFFF
_BAD_PASSPHRASE, _NO_PASSPHRASE = 11, 177
_ANONYMOUS = "0" * 16


def unlocking_failure(lines: Iterable[str]) -> tuple[str, str] | None:
    """Return why a message could not be unlocked, and the advice; None if no line says why."""
    words = [line.split()[1:] for line in lines]
    codes = {_number(each[2]) & _CODE for each in words if each[:1] == ["ERROR"] and each[2:]}
    if _BAD_PASSPHRASE in codes:
        return "the pass phrase is wrong", f"Correct keystore_password in {_PARAMETERS}."
    if _NO_PASSPHRASE in codes or ["MISSING_PASSPHRASE"] in words:
        return "a pass phrase is needed", f"Set keystore_password in {_PARAMETERS}."
    missing = [each[1] for each in words if each[:1] == ["NO_SECKEY"] and each[1:]]
    if not missing:
        return None
    if set(missing) == {_ANONYMOUS}:
        return (
            "the message does not name its key, and no key of the job opens it",
            f"Check keystore_path and keystore_password in {_PARAMETERS}.",
        )
    keys = " or ".join(dict.fromkeys(missing))
    return (
        f"the secret key is missing: the message is for {keys}",
        f"Let keystore_path in {_PARAMETERS} name a file with this key: gpg --export-secret-keys"
        f" {missing[0]} writes the file on the machine that has the key.",
    )


def _number(text: str) -> int:
    """Return the number that a code begins with, such as 11 of ``11_BAD_PASSPHRASE``."""
    digits = text.partition("_")[0]
    return int(digits) if digits.isdigit() else 0
