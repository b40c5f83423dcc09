"""The work-unit index inside ``newSourceState``; its size depends on the changes (rule C16).

The block has counts, marks and a digest of the whole index, and the changed rows. The digest is the
sum of the rows' SHA-256 modulo 2^256, so replacing a row costs one subtraction and one addition. It
finds mistakes, not attackers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring
from typing import Any

from dil.model.json import JsonObject
from dil.model.on_demand import OnDemand
from dil.state.blocks.canonical import canonical
from dil.state.blocks.events import SourceState

KIND = "dil/work-units+v1"
COMMITTED = "COMMITTED"
FAILED = "FAILED"
PENDING = "PENDING"  # an operator reset it as if it had never been read
SKIPPED = "SKIPPED"  # no run read it in its time, and none will
OPEN = (FAILED, PENDING)
NO_ROWS = "0" * 64
_MODULUS = 1 << 256


def failed_in(block: JsonObject | None) -> int:
    """Return how many work units a stored block counts as failed; 0 if it counts none."""
    found: object = block
    for member in ("event", "newSourceState", "value", "counts", FAILED):
        found = found.get(member) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) else 0


def delta_in(block: JsonObject) -> Sequence[Mapping[str, Any]]:
    """Return the rows that a stored block changes in the index, in their JSON form."""
    event: Any = block["event"]
    state = event.get("newSourceState")
    return state["value"].get("delta", ()) if state else ()


@dataclass(frozen=True, slots=True)
class UnitRow:
    """One work unit in the index; times are epoch ms UTC.

    ``high`` is the last successful high watermark, None if there was no success. ``cursor`` says
    where to continue a partly read work unit.
    """

    signature: str
    low: int
    expected_high: int
    high: int | None
    status: str
    attempts: int
    cursor: JsonObject | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> UnitRow:
        """Return the row that ``as_json`` wrote; ``fields`` must have all its members."""
        return cls(
            signature=fields["sig"],
            low=fields["low"],
            expected_high=fields["expectedHigh"],
            high=fields["high"],
            status=fields["status"],
            attempts=fields["attempts"],
            cursor=fields["cursor"],
        )

    def as_json(self) -> dict[str, Any]:
        """Return the row in the form of a block's delta; its canonical bytes are hashed."""
        return {
            "sig": self.signature,
            "low": self.low,
            "expectedHigh": self.expected_high,
            "high": self.high,
            "status": self.status,
            "attempts": self.attempts,
            "cursor": self.cursor,
        }

    @property
    def hash(self) -> str:
        """Return the row's SHA-256, 64 hex digits."""
        return row_hash(self.as_json())


_ROW_MEMBERS = frozenset(
    {"sig", "low", "expectedHigh", "high", "status", "attempts", "cursor"}
)  # fmt: skip


def row_hash(row: JsonObject) -> str:
    """Return the SHA-256 of a row in its JSON form, 64 hex digits."""
    content = _plain_row(row) if row.keys() == _ROW_MEMBERS else None
    return hashlib.sha256(canonical(row) if content is None else content).hexdigest()


def _plain_row(row: JsonObject) -> bytes | None:
    """Return the canonical bytes of a row without a cursor; None for any other row.

    This is faster than the general encoding, and an import has millions of such rows.
    """
    attempts, end, high, low = row["attempts"], row["expectedHigh"], row["high"], row["low"]
    if row["cursor"] is not None or not (type(attempts) is type(end) is type(low) is int):
        return None
    if high is not None and type(high) is not int:
        return None
    signature, status = row["sig"], row["status"]
    if type(signature) is not str or type(status) is not str:
        return None
    return (
        f'{{"attempts":{attempts},"cursor":null,"expectedHigh":{end},'
        f'"high":{"null" if high is None else high},"low":{low},'
        f'"sig":{encode_basestring(signature)},"status":{encode_basestring(status)}}}'
    ).encode()


def removal(signature: str) -> JsonObject:
    """Return the delta's entry for a row that is removed from the index."""
    return {"sig": signature, "removed": True}


def is_removal(row: JsonObject) -> bool:
    """Return whether a delta's entry removes a row from the index."""
    return row.get("removed") is True


def hash_in_digest(row: JsonObject) -> str | None:
    """Return the hash that a delta's entry adds to the digest; None if it removes a row."""
    return None if is_removal(row) else row_hash(row)


def replace_in_digest(digest: str, old: str | None, new: str | None) -> str:
    """Return the digest after one row's hash replaced another; None means no row."""
    total = int(digest, 16) - int(old or "0", 16) + int(new or "0", 16)
    return f"{total % _MODULUS:064x}"


def rolled_digest(digest: str, delta: Sequence[JsonObject], replaced: Mapping[str, str]) -> str:
    """Return the digest after a delta: the hash of each row takes the place of its old hash.

    ``replaced`` maps the signature of a row to its old hash; a new row has none.
    """
    rolled = digest
    for row in delta:
        rolled = replace_in_digest(rolled, replaced.get(str(row["sig"])), hash_in_digest(row))
    return rolled


@dataclass(frozen=True, slots=True)
class UnitSummary:
    """The facts of a block about the whole index; equality ignores derived values (8.6).

    ``max_high`` is the largest successful high. ``frontier`` is the smallest low of a work unit
    that is not committed, else ``max_high``: all time before it is committed.
    """

    version: int = 0
    digest: str = NO_ROWS
    max_high: int | None = field(default=None, compare=False)
    frontier: int | None = field(default=None, compare=False)
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, state: SourceState | None) -> UnitSummary:
        """Read the summary of a source state; None gives the summary of an empty index."""
        if state is None:
            return cls()
        value: Mapping[str, Any] = state.value
        return cls(
            version=value["stateVersion"],
            digest=value["digest"],
            max_high=value["maxHigh"],
            frontier=value["frontier"],
            counts=dict(value["counts"]),
        )

    @staticmethod
    def delta_of(state: SourceState) -> Sequence[JsonObject]:
        """Return the rows that the event of a state changed, in their JSON form."""
        delta: Any = state.value["delta"]
        rows: Sequence[JsonObject] = delta
        return rows

    def as_state(
        self,
        source_name: str,
        delta: Sequence[UnitRow],
        removed: Sequence[str] = (),
        *,
        stream: JsonObject | None = None,
    ) -> SourceState:
        """Return the source state to write; the rows of ``removed`` are removed from the index.

        ``stream`` names the micro-batch that wrote the state, and its end; None for other runs.
        """
        kept = len(delta)

        def change(place: int) -> JsonObject:
            return delta[place].as_json() if place < kept else removal(removed[place - kept])

        value: JsonObject = {
            "stateVersion": self.version,
            "maxHigh": self.max_high,
            "frontier": self.frontier,
            "counts": dict(self.counts),
            "digest": self.digest,
            "delta": OnDemand(change, range(kept + len(removed))),
            **({} if stream is None else {"stream": stream}),
        }
        return SourceState(source_name, KIND, value)
