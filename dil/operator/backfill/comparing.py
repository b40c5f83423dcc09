"""Compares a backfill with the live rows: by work unit, and by key if the job has keys."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dil.errors import ConfigError
from dil.model.dataset import PublishedFile
from dil.model.job import PublishMode
from dil.model.work_unit import WorkUnit
from dil.operator.backfill.definition import BackfillDefinition
from dil.operator.backfill.key_counts import KeyComparison, KeyCounts
from dil.operator.backfill.publication import Publication, RowDecision, propose_publication
from dil.operator.session import OperatorSession
from dil.publishing.run_commit import recorded_schema


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
    status, live = publication.status, session.own_live_files()
    before, after = _by_unit(live), _by_unit(status.files)
    # Files with rows of several work units belong to no single one.
    is_joint = (
        publication.mode is PublishMode.MERGE
        or bool(publication.shared_file)
        or any(file.is_shared for file in live)
    )
    keys = tuple(session.job.extraction.primary_keys) if by_key else ()
    counts: dict[str, KeyCounts | None] = {}
    total: KeyCounts | None = None
    notes: tuple[str, ...] = ()
    if keys:
        schemas = (recorded_schema(session.store), status.schema)
        comparison = KeyComparison(session.job, schemas, keys)
        if is_joint:
            total = comparison.merged(live, publication.files)
        else:
            for unit in definition.plan.work_units:
                name = unit.signature
                if name in status.done:
                    counts[name] = comparison.replaced(before.get(name, ()), after.get(name, ()))
            compared = [each for each in counts.values() if each is not None]
            if compared:
                total = sum(compared, KeyCounts())
            elif counts or after:
                notes = (f"not compared by key: not every file has the columns {', '.join(keys)}",)
    elif by_key:
        notes = ("not compared by key: extract.primary.key.fields is not set",)
    units = tuple(_differences(publication, None if is_joint else before, after, counts))
    return Difference(publication, units, keys, total, notes)


def _by_unit(files: Iterable[PublishedFile]) -> Mapping[str, Sequence[PublishedFile]]:
    found: dict[str, list[PublishedFile]] = defaultdict(list)
    for file in files:
        found[file.signature].append(file)
    return found


def _differences(
    publication: Publication,
    before: Mapping[str, Sequence[PublishedFile]] | None,
    after: Mapping[str, Sequence[PublishedFile]],
    counts: Mapping[str, KeyCounts | None],
) -> Iterator[UnitDifference]:
    """Yield the rows of each work unit on both sides; ``before`` is None if it is unknown."""
    status, stale = publication.status, frozenset(publication.stale)
    for unit in status.definition.plan.work_units:
        name = unit.signature
        is_read = name in status.done
        if name in stale:
            how = "stale"
        elif is_read:
            how = "read"
        else:
            how = "failed" if name in status.failed else "not read"
        earlier = None if before is None else sum(file.rows for file in before.get(name, ()))
        rows = sum(file.rows for file in after.get(name, ())) if is_read else None
        yield UnitDifference(unit, how, earlier, rows, counts.get(name))
