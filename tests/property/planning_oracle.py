"""A planner written straight from the rules: slow, plain lists, no columns, no coverage.

It takes partitions as given and decides each candidate by itself (rules P16 to
P29), so that it shares no idea with the real planner but the words of the rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dil.model.history import UnitRecord
from dil.model.job import PlanningSpec


@dataclass(frozen=True)
class Due:
    """One due candidate, and what the choice among them depends on."""

    place: int
    unit: str
    signature: str
    low: int
    high: int
    start: int
    reason: str
    failed: bool = False
    attempts: int = 0
    is_first: bool = True
    is_rest: bool = False


@dataclass(frozen=True)
class Expected:
    """What a plan must say."""

    work_units: list[tuple[str, int, int, int, str]]
    skipped: int
    left: int
    left_low: int | None
    cutoff: int | None


def expected(
    spec: PlanningSpec,
    partitions: list[tuple[int, int]],
    history: Mapping[str, int | UnitRecord],
) -> Expected:
    """Return what the rules say of a plan."""
    shift = spec.abstinent_ms - spec.grace_ms
    due: list[Due] = []
    cutoffs: list[int] = []
    place = 0
    for start, end in partitions:
        for unit in spec.units or ():
            overall = _overall(spec, partitions, history, unit, shift)
            cutoffs += [] if overall is None else [overall]
            found = _decide(spec, (start, end), unit, history, overall)
            due += [] if found is None else [Due(place, unit, *found)]
            place += 1
    taken = _choose(due, spec.limit)
    left = [each for each in due if each not in taken]
    return Expected(
        [(each.signature, each.low, each.high, each.start, each.reason) for each in taken],
        place - len(due),
        len(left),
        min((each.start for each in left), default=None),
        max(cutoffs, default=None),
    )


def signature(spec: PlanningSpec, start: int, unit: str) -> str:
    """Return the identity of a work unit (rule P17)."""
    return f"[watermark.{spec.datetime_name}.{start}, watermark.{spec.unit_name}.{unit}]"


def _record(
    spec: PlanningSpec, start: int, unit: str, history: Mapping[str, int | UnitRecord]
) -> UnitRecord | None:
    if spec.backfill or spec.ignore_history:
        return None
    name = signature(spec, start, unit)
    value = history.get(name)
    return UnitRecord(name, start, value) if isinstance(value, int) else value


def _overall(
    spec: PlanningSpec,
    partitions: list[tuple[int, int]],
    history: Mapping[str, int | UnitRecord],
    unit: str,
    shift: int,
) -> int | None:
    records = [_record(spec, start, unit, history) for start, _ in partitions]
    highs = [r.high for r in records if r and r.high is not None and r.high != r.low]
    return max(highs) + shift if highs else None


def _decide(
    spec: PlanningSpec,
    partition: tuple[int, int],
    unit: str,
    history: Mapping[str, int | UnitRecord],
    overall: int | None,
) -> tuple[str, int, int, int, str, bool, int, bool, bool] | None:
    start, end = partition
    name = signature(spec, start, unit)
    record = _record(spec, start, unit, history)
    if record is None:
        reason = "backfill" if spec.backfill else "new"
        return name, start, end, start, reason, False, 0, True, False
    if record.high is None or record.high == start:
        return name, start, end, start, "retry", record.failed, record.attempts, True, False
    own = record.high + spec.abstinent_ms - spec.grace_ms
    low = start if spec.read_from_partition_start else max(start, own)
    assert overall is not None
    payable = record.failed and (record.owed is None or record.owed <= end)
    if not (payable or end > max(own, overall)) or low >= end:
        return None
    reason = "retry" if record.failed else "incremental"
    is_rest = not record.failed and record.high < end
    return name, low, end, start, reason, record.failed, record.attempts, False, is_rest


def _choose(due: list[Due], limit: int | None) -> list[Due]:
    if limit is None or len(due) <= limit:
        return due
    retries = [each for each in due if each.failed]
    others = [each for each in due if not each.failed]
    half = limit // 2
    if limit == 1 and not any(each.is_first for each in others):
        half = 1
    places = min(len(retries), max(half, limit - len(others)))
    first = others[: limit - places]
    patient = sorted(retries, key=lambda each: (each.attempts, each.place))[:places]
    rests = [each for each in others if each.is_rest and each not in first]
    again = [
        retry
        for retry in patient
        if not any(rest.unit == retry.unit and rest.place < retry.place for rest in rests)
    ]
    return sorted([*again, *others[: limit - len(again)]], key=lambda each: each.place)
