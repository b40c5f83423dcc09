"""A history given as a plain mapping, for the pure planner."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dil.model.history import UnitRecord
from dil.planning.unit_history import Known, Unit

# The partition start in "[watermark.NAME.START, watermark.UNIT.{...}]".
_START = re.compile(r"\.(-?[0-9]+), watermark\.")


class BareHistory:
    """High watermarks in epoch ms UTC, or whole records, by raw signature (rule P17).

    A high that equals the start of its partition means that the work unit never succeeded. A
    record, unlike a high, also says whether the last attempt failed. Signatures are not parsed:
    each planned signature is looked up, so that no name or unit can be mistaken for another.
    Records of signatures that are not planned do not count (rule P18).
    """

    def __init__(self, highs: Mapping[str, int | UnitRecord]) -> None:
        self._highs = highs

    def has_succeeded(self) -> bool:
        """Return whether any work unit succeeded once."""
        return any(_has_succeeded(signature, known) for signature, known in self._highs.items())

    def lowest(self, units: Sequence[Unit], starts: Sequence[int]) -> int | None:
        """Return the earliest of these starts that has a record; None if none has one."""
        found = (starts[index] for known in self.known(units, starts) for index in known)
        return min(found, default=None)

    def known(self, units: Sequence[Unit], starts: Sequence[int]) -> Iterator[dict[int, Known]]:
        """Yield, for each unit, the records of its partitions with these starts, by index.

        Signatures are compared unchanged. A signature that is not found is compared as a state
        store's keys spell it, with ``%2F`` for ``/`` (rule P17), unless this spelling could mean
        two units.
        """
        twofold = [unit for unit in units if "%2F" in _stored(unit.signature(0))]
        keys = Counter(_stored(unit.key) for unit in twofold)
        by_stored_key = {
            _stored(signature): known
            for signature, known in (self._highs.items() if twofold else ())
            if "%2F" in _stored(signature)
        }
        for unit in units:
            found = _found(self._highs, unit.head, unit.tail, starts)
            if keys[_stored(unit.key)] == 1:
                head, tail = _stored(unit.head), _stored(unit.tail)
                found = _found(by_stored_key, head, tail, starts) | found
            yield found


def _has_succeeded(signature: str, known: Known) -> bool:
    if not isinstance(known, int):
        return known.succeeded_once
    start = _START.search(signature)
    return start is None or known > int(start[1])


def _found(
    highs: Mapping[str, Known], head: str, tail: str, starts: Sequence[int]
) -> dict[int, Known]:
    get = highs.get
    return {
        index: known
        for index, start in enumerate(starts)
        if (known := get(f"{head}{start}{tail}")) is not None
    }


def _stored(signature: str) -> str:
    """Return a signature, or a part of one, as the stored key spells it (rule P17)."""
    return signature.replace("/", "%2F")
