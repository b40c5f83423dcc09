"""The rule for repeated rows of a derived dataset: equal keys at about the same time."""

from __future__ import annotations

from dataclasses import dataclass

from dil.model.json import JsonObject

KEYS, COLUMN, WITHIN = "ms.dedupe.keys", "ms.dedupe.column", "ms.dedupe.within"


@dataclass(frozen=True, slots=True)
class DedupeSpec:
    """Rows with the same ``keys`` whose times in ``column`` are ``within_ms`` apart at most.

    Only the first of such rows is published, in the order of the inputs' offsets.
    """

    keys: tuple[str, ...]
    column: str
    within_ms: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that decide about repeats, each once; the times may be a key, too."""
        return tuple(dict.fromkeys((*self.keys, self.column)))

    @classmethod
    def of(cls, body: JsonObject) -> DedupeSpec:
        """Return the spec from the members that ``as_json`` returned.

        Raises:
            KeyError: a member is missing.
            TypeError: a member is of another type.
        """
        keys, within = body["keys"], body["withinMs"]
        if not isinstance(keys, list) or not isinstance(within, int):
            raise TypeError("keys is no list, or withinMs is no length of time")
        return cls(tuple(map(str, keys)), str(body["column"]), within)

    def as_json(self) -> JsonObject:
        """Return the members that the chain keeps, so that the query can be repeated."""
        return {"keys": list(self.keys), "column": self.column, "withinMs": self.within_ms}


def time_column(transform: JsonObject | None) -> str | None:
    """Return the column of times in a SetTransform's body; None if it has no rule for repeats."""
    dedupe = None if transform is None else transform.get("dedupe")
    return DedupeSpec.of(dedupe).column if isinstance(dedupe, dict) else None


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The least and the greatest time of some rows, both included, in epoch ms UTC."""

    first_ms: int
    last_ms: int

    @classmethod
    def of_micros(cls, least: int, most: int) -> TimeSpan:
        """Return the shortest span in ms around two times in epoch microseconds UTC."""
        return cls(least // 1000, -(-most // 1000))

    def widened(self, by_ms: int) -> TimeSpan:
        """Return the span that is ``by_ms`` longer at both ends."""
        return TimeSpan(self.first_ms - by_ms, self.last_ms + by_ms)
