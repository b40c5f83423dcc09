"""Compares a backfill with the live rows: by work unit, and by key if the job has keys."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dil import publishing
from dil.errors import ConfigError
from dil.model.dataset import PublishedFile
from dil.model.job import PublishMode
from dil.model.work_unit import WorkUnit
from dil.operator.backfill.definition import BackfillDefinition
from dil.operator.backfill.key_counts import KeyComparison, KeyCounts
from dil.operator.backfill.publication import Publication, RowDecision, propose_publication
from dil.operator.session import OperatorSession


@dataclass(frozen=True, slots=True)
class UnitDifference:
    """One work unit of a backfill.

    ``status`` is "read", "failed", "not read" or "stale"; "stale" means that the job has read the
    work unit since. ``before`` and ``after`` count rows, None if unknown. ``by_key`` is None if
    rows are not compared by key.
    """

    work_unit: WorkUnit
    status: str
    before: int | None
    after: int | None
    by_key: KeyCounts | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A backfill compared with the live rows; ``total`` is None if rows are not compared by key.

    ``notes`` say which comparison was left out, and why.
    """

    publication: Publication
    work_units: tuple[UnitDifference, ...]
    keys: tuple[str, ...]
    total: KeyCounts | None
    notes: tuple[str, ...] = ()


def compare(
    session: OperatorSession, definition: BackfillDefinition, *, by_key: bool = True
) -> Difference:
    """Return what publishing a backfill would change for readers; changes nothing.

    The live and the new rows of one work unit are in memory at once. If rows are merged or
    compacted, live files belong to no single work unit, and all rows of the backfill are compared
    together.

    Args:
        session: The job's session; it needs no lease.
        definition: The backfill.
        by_key: Whether rows are read and compared by ``extract.primary.key.fields``.

    Raises:
        ConfigError: the backfill is published, so that it has no rows to compare.
        ConversionError: a file cannot be read back.
    """
    publication = propose_publication(session, definition, RowDecision.REPLACE)
    if not publication.status.is_open:
        raise ConfigError.single(
            "ID",
            f"{definition.id} is {publication.status.phase}: it has no rows to compare any more",
            f"`dil state log {shlex.quote(session.job.path)}` shows what was published.",
        )
    sides = _Sides(session, publication)
    planned = definition.plan.work_units
    keys = tuple(session.job.extraction.primary_keys) if by_key else ()
    if not keys:
        units = tuple(sides.difference(unit) for unit in planned)
        note = () if not by_key else ("not compared by key: extract.primary.key.fields is not set",)
        return Difference(publication, units, (), None, note)
    schemas = (publishing.recorded_schema(session.store), publication.status.schema)
    comparison = KeyComparison(session.job, schemas, keys)
    if sides.has_shared:
        total = comparison.merged(sides.live, publication.files)
        units = tuple(sides.difference(unit) for unit in planned)
        return Difference(publication, units, keys, total)
    units = tuple(
        sides.difference(
            unit,
            comparison.replaced(sides.before[unit.signature], sides.after[unit.signature])
            if sides.is_read(unit)
            else None,
        )
        for unit in planned
    )
    counts = [each.by_key for each in units if each.by_key is not None]
    if not counts:
        note = (f"not compared by key: not every file has the columns {', '.join(keys)}",)
        return Difference(publication, units, keys, None, note if sides.after else ())
    return Difference(publication, units, keys, sum(counts, KeyCounts()))


class _Sides:
    """The live files of each work unit, ``before``, and the files of the backfill, ``after``.

    If live files are shared (``has_shared``), they belong to no single work unit.
    """

    def __init__(self, session: OperatorSession, publication: Publication) -> None:
        self._status = publication.status
        self._stale = frozenset(publication.stale)
        self.live = session.own_live_files()
        self.has_shared = (
            publication.mode is PublishMode.MERGE
            or bool(publication.shared_file)
            or any(file.is_shared for file in self.live)
        )
        self.before: dict[str, list[PublishedFile]] = defaultdict(list)
        for file in self.live:
            self.before[file.signature].append(file)
        self.after: dict[str, list[PublishedFile]] = defaultdict(list)
        for file in publication.status.files:
            self.after[file.signature].append(file)

    def is_read(self, unit: WorkUnit) -> bool:
        """Return whether the backfill has read a work unit."""
        return unit.signature in self._status.done

    def difference(self, unit: WorkUnit, by_key: KeyCounts | None = None) -> UnitDifference:
        """Return the rows of a work unit on both sides."""
        if unit.signature in self._stale:
            status = "stale"
        elif self.is_read(unit):
            status = "read"
        else:
            status = "failed" if unit.signature in self._status.failed else "not read"
        before = None if self.has_shared else _rows(self.before.get(unit.signature, ()))
        after = _rows(self.after.get(unit.signature, ())) if self.is_read(unit) else None
        return UnitDifference(unit, status, before, after, by_key)


def _rows(files: Sequence[PublishedFile]) -> int:
    return sum(file.rows for file in files)
