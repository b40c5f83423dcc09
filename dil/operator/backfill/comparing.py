"""What a backfill holds beside what is live: rows by work unit, and by key where there are keys."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dil import publishing
from dil.errors import ConfigError
from dil.model.dataset import PublishedFile
from dil.model.job import Job, PublishMode
from dil.model.work_unit import WorkUnit
from dil.operator.acts.desk import Desk
from dil.operator.backfill.definition import Definition
from dil.operator.backfill.proposing import How, Publication, own_live, propose

if TYPE_CHECKING:
    from dil.operator.backfill.keyed import KeyCounts


@dataclass(frozen=True, slots=True)
class UnitDifference:
    """One work unit of a backfill.

    ``status`` is read, failed, not read, or stale: the job went on with it since. ``before`` and
    ``after`` are rows, None where they cannot be told. ``by_key`` is None without keys.
    """

    work_unit: WorkUnit
    status: str
    before: int | None
    after: int | None
    by_key: KeyCounts | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A backfill compared with what is live; ``total`` is by key, None without keys.

    ``notes`` say why something is not told.
    """

    publication: Publication
    work_units: tuple[UnitDifference, ...]
    keys: tuple[str, ...]
    total: KeyCounts | None
    notes: tuple[str, ...] = ()


def compare(desk: Desk, definition: Definition, *, by_key: bool = True) -> Difference:
    """Return what publishing a backfill would change for readers; changes nothing.

    Rows of one work unit are in memory at once, as they are and as they would be. Where rows are
    merged or compacted, live files belong to no work unit, and all rows of the backfill are
    compared together.

    Args:
        desk: The job's desk; it needs no lease.
        definition: The backfill.
        by_key: Whether rows are read and compared by ``extract.primary.key.fields``.

    Raises:
        ConfigError: it is published, so that it holds nothing to compare.
        ConversionError: a file cannot be read back.
    """
    publication = propose(desk, definition, How.REPLACE)
    standing = publication.standing
    if not standing.is_open:
        raise ConfigError.single(
            "ID",
            f"{definition.id} is {standing.status}: it holds no rows to compare any more",
            f"`dil state log {shlex.quote(desk.job.path)}` shows what was published.",
        )
    rows = _Rows(desk, publication)
    keys = desk.job.extraction.primary_keys if by_key else ()
    if not keys:
        units = tuple(_unit(each, rows) for each in definition.plan.work_units)
        note = () if not by_key else ("no keys: extract.primary.key.fields is not set",)
        return Difference(publication, units, (), None, note)
    return _compared(desk.job, publication, rows, tuple(keys))


def _compared(job: Job, publication: Publication, rows: _Rows, keys: tuple[str, ...]) -> Difference:
    from dil.operator.backfill.keyed import KeyCounts, Reader

    reader = Reader(job, rows.schemas, keys)
    plan = publication.standing.definition.plan.work_units
    if rows.is_merged:
        total = reader.merged(rows.live, publication.files)
        units = tuple(_unit(each, rows) for each in plan)
        return Difference(publication, units, keys, total)
    units = tuple(
        _unit(each, rows, reader.exchanged(*rows.sides(each)) if rows.is_read(each) else None)
        for each in plan
    )
    counts = [each.by_key for each in units if each.by_key is not None]
    if not counts:
        note = f"not compared by key: not every file has the columns {', '.join(keys)}"
        return Difference(publication, units, keys, None, (note,) if rows.after else ())
    return Difference(publication, units, keys, sum(counts, KeyCounts()))


class _Rows:
    """The files on both sides, by work unit."""

    def __init__(self, desk: Desk, publication: Publication) -> None:
        standing = publication.standing
        self.live = own_live(desk)
        self.is_merged = publication.mode is PublishMode.MERGE or bool(publication.mixed)
        self.before: dict[str, list[PublishedFile]] = defaultdict(list)
        self.after: dict[str, list[PublishedFile]] = defaultdict(list)
        for file in self.live:
            self.before[file.signature].append(file)
        for file in standing.files:
            self.after[file.signature].append(file)
        self.schemas = (publishing.recorded_schema(desk.store), standing.schema)
        self._standing = standing
        self._stale = frozenset(publication.stale)

    def sides(self, unit: WorkUnit) -> tuple[Sequence[PublishedFile], Sequence[PublishedFile]]:
        """Return the files of a work unit that are live, and those of the backfill."""
        return self.before[unit.signature], self.after[unit.signature]

    def is_read(self, unit: WorkUnit) -> bool:
        """Tell whether the backfill has a work unit."""
        return unit.signature in self._standing.done

    def status(self, unit: WorkUnit) -> str:
        """Return one word on a work unit."""
        if unit.signature in self._stale:
            return "stale"
        if self.is_read(unit):
            return "read"
        return "failed" if unit.signature in self._standing.failed else "not read"


def _unit(unit: WorkUnit, rows: _Rows, by_key: KeyCounts | None = None) -> UnitDifference:
    before = None if rows.is_merged else _sum(rows.before.get(unit.signature, ()))
    after = _sum(rows.after.get(unit.signature, ())) if rows.is_read(unit) else None
    return UnitDifference(unit, rows.status(unit), before, after, by_key)


def _sum(files: Sequence[PublishedFile]) -> int:
    return sum(file.rows for file in files)
