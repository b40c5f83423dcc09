"""Splits signatures of work units into their parts (rule P17)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.text.zones import iso

_FORM = re.compile(r"\[watermark\.(.+?)\.(-?[0-9]{1,18}), watermark\.(.+)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SignatureParts:
    """The parts of a signature: ``low`` is the nominal partition start in epoch ms UTC.

    ``unit_key`` is ``<unit watermark name>.<unit JSON>``.
    """

    datetime_name: str
    low: int
    unit_key: str

    @property
    def unit_json(self) -> str:
        """Return the unit's JSON object as text; empty if there is none."""
        brace = self.unit_key.find("{")
        return "" if brace < 0 else self.unit_key[brace:]


@dataclass(frozen=True, slots=True)
class ImportedHigh:
    """A work unit's high watermark in another store; epoch ms UTC."""

    signature: str
    parts: SignatureParts
    high: int

    @property
    def low(self) -> int:
        """Return the nominal partition start, epoch ms UTC."""
        return self.parts.low


def parts_of_signature(text: str) -> SignatureParts | None:
    """Return the parts of a raw signature, None for a text of another form."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    name, low, unit_key = match.groups()
    return SignatureParts(name, int(low), unit_key)


def begin_of(signature: str) -> str:
    """Return the start of a work unit's partition, ISO 8601 in UTC; empty if unknown."""
    parts = parts_of_signature(signature)
    return (iso(parts.low) or "") if parts else ""


def encoded(signature: str) -> str:
    """Return the stored form, in which signatures are compared: ``/`` is ``%2F``."""
    return signature.replace("/", "%2F")


def decoded(signature: str) -> str:
    """Return the raw form of a stored signature."""
    return signature.replace("%2F", "/")
