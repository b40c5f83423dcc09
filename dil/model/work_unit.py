"""Work units and the plan that holds them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from dil.model.interval import Interval
from dil.model.json import JsonValue, read_number


class Reason(StrEnum):
    """Why a work unit is due. See rule P29."""

    NEW = "new"
    RETRY = "retry"
    INCREMENTAL = "incremental"
    BACKFILL = "backfill"


class WorkUnit(msgspec.Struct, frozen=True, gc=False):
    """One partition of the datetime watermark combined with one unit; all times epoch ms UTC.

    ``low`` is the instant where reading starts (the partition start, or later if a part was read
    before), ``high`` is the partition's end. ``unit_json`` is the unit as compact JSON, members in
    their order: it is part of the signature. ``last_high``, ``cutoff`` (the work unit's own, C) and
    ``overall`` (its unit's, O(u)) explain the decision; they are None if there is no record. A task
    waits until the instant ``not_before`` (pacing); 0 means no wait.
    """

    signature: str
    low: int
    high: int
    partition: Interval
    unit_name: str
    unit_json: str
    reason: Reason
    timelabel: str | None = None
    last_high: int | None = None
    cutoff: int | None = None
    not_before: int = 0
    overall: int | None = None

    @property
    def unit(self) -> dict[str, JsonValue]:
        """Return the unit as a dict; members keep their order, numbers their text."""
        return read_unit(self.unit_json)

    @property
    def unit_key(self) -> str:
        """Return the second half of the signature, which all partitions of the unit share."""
        return unit_key(self.unit_name, self.unit_json)

    @property
    def hash(self) -> str:
        """Return 16 hex digits that name this work unit in paths."""
        return unit_hash(self.signature)


def read_unit(unit_json: str) -> dict[str, JsonValue]:
    """Return a unit as a dict; members keep their order, numbers their text."""
    value: dict[str, JsonValue] = json.loads(
        unit_json, parse_float=read_number, parse_int=read_number
    )
    return value


def unit_key(unit_name: str, unit_json: str) -> str:
    """Return the key of a unit's records: ``<unit watermark name>.<unit JSON>``."""
    return f"{unit_name}.{unit_json}"


def unit_key_of(signature: str) -> str:
    """Return the key of a signature's unit (rule P17), empty for a text of another form."""
    return signature.partition(", watermark.")[2].removesuffix("]")


def unit_hash(signature: str) -> str:
    """Return the first 16 hex digits of the signature's SHA-256, safe in any file name."""
    return hashlib.sha256(signature.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Skip:
    """A candidate that is not due, kept only for a full explanation of the plan.

    ``own_cutoff`` is the candidate's C, ``cutoff`` is the larger of C and the unit's O(u); both are
    epoch ms UTC and None if nothing succeeded before.
    """

    signature: str
    partition: Interval
    unit_json: str
    last_high: int | None
    cutoff: int | None
    why: str
    own_cutoff: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedClosedLabels:
    """How a run treats closed timelabels (rule T32).

    ``left`` counts the skipped work units that stay unread because their timelabels are closed;
    ``left_labels`` are these labels. ``reopens`` are the closed timelabels that the run reopens,
    ``beside`` the closed timelabels whose rows the run publishes beside the dataset.
    """

    left: int = 0
    left_labels: tuple[str, ...] = ()
    reopens: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The work units of one run, in execution order; all times epoch ms UTC.

    ``cutoff`` is the largest overall cutoff of any unit, None if there is no history. ``skipped``
    counts candidates that are not due, ``left`` counts due candidates beyond the parallelism limit,
    and ``left_low`` is the earliest partition start among these. ``work_units`` is immutable and
    equals a tuple; its items may be made when they are accessed. ``partitions`` is the number of
    partitions of the range. ``skips`` is None unless the plan was made with an explanation.
    ``missed`` are skipped work units that no run reads, because no run took place in their time;
    the run records them. ``before_first`` counts skipped work units that are older than the first
    run's period; ``partitions`` does not count their partitions. ``books`` is the stored name of
    ``closed_labels``, which code reads; it is unset if no work unit has a closed timelabel, so that
    stored plans leave it out. ``grace_why`` says why this run reads back as far as it does, unset
    if the grace period is just configured.
    """

    now: int
    zone: str
    full_extract: bool
    cutoff: int | None
    work_units: Sequence[WorkUnit]
    skipped: int = 0
    left: int = 0
    left_low: int | None = None
    grace_ms: int = 0
    abstinent_ms: int = 0
    skips: tuple[Skip, ...] | None = None
    partitions: int = 0
    missed: tuple[WorkUnit, ...] = ()
    before_first: int = 0
    books: PlannedClosedLabels | msgspec.UnsetType = msgspec.UNSET
    grace_why: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def closed_labels(self) -> PlannedClosedLabels:
        """Return how the run treats closed timelabels, also if there are none."""
        return PlannedClosedLabels() if self.books is msgspec.UNSET else self.books

    def at_once(self) -> Plan:
        """Return the plan with all work units made, for readers that access them repeatedly."""
        return replace(self, work_units=tuple(self.work_units))
