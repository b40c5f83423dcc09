"""Work units and the plan that holds them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
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

    ``low`` is where reading starts (the partition start, or later when pruned), ``high`` is the
    partition's end. ``unit_json`` is the unit as compact JSON, members in their order: it is part
    of the signature. ``last_high``, ``cutoff`` (its own, C) and ``overall`` (its unit's, O(u))
    explain the decision and are None without a record. ``not_before`` holds a task back until that
    instant (pacing), 0 means no wait.
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
        """Return the unit as a dict, members in their order, numbers as they are written."""
        return read_unit(self.unit_json)

    @property
    def unit_key(self) -> str:
        """Return the second half of the signature: what all partitions of the unit share."""
        return unit_key(self.unit_name, self.unit_json)

    @property
    def hash(self) -> str:
        """Return 16 hex digits that name this work unit in paths."""
        return unit_hash(self.signature)


def read_unit(unit_json: str) -> dict[str, JsonValue]:
    """Return a unit as a dict, members in their order, numbers as they are written."""
    value: dict[str, JsonValue] = json.loads(
        unit_json, parse_float=read_number, parse_int=read_number
    )
    return value


def unit_key(unit_name: str, unit_json: str) -> str:
    """Return the key of a unit's records: ``<unit watermark name>.<unit JSON>``."""
    return f"{unit_name}.{unit_json}"


def unit_hash(signature: str) -> str:
    """Return the first 16 hex digits of the signature's SHA-256, safe in any file name."""
    return hashlib.sha256(signature.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Skip:
    """A candidate that is not due, kept only when a full explanation was asked for.

    ``own_cutoff`` is the candidate's C, ``cutoff`` the larger of it and its unit's O(u); both are
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
class PlannedBooks:
    """How a run treats closed timelabels (rule T32).

    ``left`` counts the work units among the skipped that are left as they are, ``left_labels`` are
    their timelabels. ``reopens`` are the closed timelabels that the run reopens, ``beside`` those
    whose rows it publishes beside the dataset.
    """

    left: int = 0
    left_labels: tuple[str, ...] = ()
    reopens: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run will do, in execution order; all times epoch ms UTC.

    ``cutoff`` is the largest overall cutoff of any unit, None without history. ``skipped`` counts
    candidates that are not due, ``left`` those that are due beyond the parallelism limit.
    ``left_low`` is the earliest partition start among the latter. ``work_units`` is immutable and
    equals a tuple; its items may be made when they are looked at. ``partitions`` counts those of
    the range, ``skips`` is None unless an explanation was asked for. ``missed`` are work units
    among the skipped that no run reads, because none was there in their time; the run records them.
    ``before_first`` counts those among the skipped that are older than the first run's period;
    their partitions are not among ``partitions``. ``books`` is unset if no work unit is of a
    closed timelabel, so that it is left out of stored plans. ``grace_why`` says why
    this run reads back as far as it does, unset if that is just configured.
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
    books: PlannedBooks | msgspec.UnsetType = msgspec.UNSET
    grace_why: str | msgspec.UnsetType = msgspec.UNSET
