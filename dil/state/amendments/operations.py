"""The changes of an operator's command to a job's state: rows before and after.

Pure: takes rows and blocks, returns a ``Proposal``. No state is changed here; a proposal becomes
the ``OperatorAct`` of one commit (rules C11, P18 and P32).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dil.errors import StateError
from dil.model.closed_labels import LabelWindow
from dil.model.dataset import OperatorAct, UnitEntry
from dil.state.amendments.last_act import LastAct
from dil.state.blocks.source_state import COMMITTED, FAILED, PENDING
from dil.state.work_units.signatures import ImportedHigh, encoded, parts_of_signature

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class RowChange:
    """One work unit before and after; None if the index has no row for it."""

    signature: str
    before: UnitEntry | None
    after: UnitEntry | None

    @property
    def lowers_high(self) -> bool:
        """Return whether the change takes a high watermark away or lowers it."""
        before, after = self.before, self.after
        if before is None or before.high is None:
            return False
        return after is None or after.high is None or after.high < before.high


@dataclass(frozen=True, slots=True)
class Proposal:
    """The changes that a command would make. ``notes`` are sentences for the operator.

    If ``sets_watermark`` is true, the dataset's watermark becomes ``watermark`` (epoch ms UTC or
    None). ``keeps_records`` says whether planning would still have records. Rows of runs that began
    before ``runs_before`` would be deleted; ``runs`` is the number of these rows. ``named`` are
    unchanged rows of work units whose files change. ``closes`` and ``reopens`` are timelabels that
    would be closed or reopened.
    """

    verb: str
    changes: tuple[RowChange, ...] = ()
    notes: tuple[str, ...] = ()
    watermark: int | None = None
    sets_watermark: bool = False
    keeps_records: bool = True
    runs_before: int | None = None
    runs: int = 0
    named: tuple[UnitEntry, ...] = ()
    closes: tuple[LabelWindow, ...] = ()
    reopens: tuple[LabelWindow, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing would change."""
        return not (self.changes or self.runs or self.closes or self.reopens)

    @property
    def forgotten(self) -> tuple[UnitEntry, ...]:
        """Return the present rows of work units that runs would read again, at least in part."""
        if self.verb == "prune":  # such work units are out of the job's range
            return ()
        return tuple(
            each.before for each in self.changes if each.before is not None and each.lowers_high
        )

    def amended(self, entries: Iterable[UnitEntry]) -> Iterator[UnitEntry]:
        """Yield all rows after the change, the changed rows last."""
        changed = {each.signature for each in self.changes}
        yield from (entry for entry in entries if entry.signature not in changed)
        yield from (each.after for each in self.changes if each.after is not None)

    def act(self, reason: str, grid: Mapping[int, int]) -> OperatorAct:
        """Return the act; ``grid`` maps the start of each partition of the job to its end."""
        return OperatorAct(
            verb=self.verb,
            reason=reason,
            changed=tuple(
                _on_grid(entry, grid)
                for entry in (*(each.after for each in self.changes), *self.named)
                if entry is not None
            ),
            removed=tuple(each.signature for each in self.changes if each.after is None),
            watermark=self.watermark,
            sets_watermark=self.sets_watermark,
            runs_before=self.runs_before if self.runs else None,
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the work units that fit every given condition.

    ``signatures`` are in stored form (``encoded``), ``units`` are compact JSON. ``low`` and
    ``high`` bound the partition start, epoch ms UTC, half-open. ``failed_only`` selects work units
    whose last attempt failed, or that have an unread part.
    """

    signatures: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    low: int | None = None
    high: int | None = None
    failed_only: bool = False

    def takes(self, signature: str, low: int) -> bool:
        """Return whether a work unit is selected."""
        if self.low is not None and low < self.low:
            return False
        if self.high is not None and low >= self.high:
            return False
        if self.signatures and encoded(signature) not in self.signatures:
            return False
        return not self.units or _unit_json(signature) in self.units


def pending(entry: UnitEntry) -> UnitEntry:
    """Return the row of the same work unit, reset as if it had never been read."""
    return replace(entry, high=None, status=PENDING, attempts=0)


def forget(entries: Iterable[UnitEntry], selection: Selection) -> Proposal:
    """Return a proposal that resets work units as if never read: pending, no high, no attempts.

    Raises:
        StateError: a given signature or unit is not in the index.
    """
    changes: list[RowChange] = []
    missing = set(selection.signatures)
    known_units: set[str] = set()
    keeps_records = False
    for entry in entries:
        missing.discard(encoded(entry.signature))
        if selection.units:
            known_units.add(_unit_json(entry.signature))
        is_meant = not selection.failed_only or entry.status == FAILED
        if not (is_meant and selection.takes(entry.signature, entry.low)):
            keeps_records = keeps_records or entry.status != PENDING
        elif entry.status != PENDING:
            changes.append(RowChange(entry.signature, entry, pending(entry)))
    if missing:
        raise StateError(
            f"no work unit is recorded as {min(missing)}",
            "Copy signatures from `dil state show`, with quotes around them.",
        )
    _refuse_unknown_units(selection.units, known_units)
    return Proposal("forget", tuple(changes), keeps_records=keeps_records)


def _refuse_unknown_units(wanted: Collection[str], known: Collection[str]) -> None:
    missing = set(wanted).difference(known)
    if not missing:
        return
    names = ", ".join(sorted(known)[:_EXAMPLES]) or "none"
    more = f" and {len(known) - _EXAMPLES:,} more" if len(known) > _EXAMPLES else ""
    raise StateError(
        f"no work unit of unit {min(missing)} is recorded",
        f"Recorded units: {names}{more}.",
    )


def rewind(
    now: Iterable[UnitEntry],
    then: Iterable[UnitEntry],
    watermark_now: int | None,
    watermark_then: int | None,
) -> Proposal:
    """Return a proposal that resets all rows to ``then``, the watermark to ``watermark_then``."""
    changes, keeps_records = _difference(now, then)
    return Proposal(
        "rewind",
        changes,
        watermark=watermark_then,
        sets_watermark=watermark_then != watermark_now,
        keeps_records=keeps_records,
    )


def undo(
    last: LastAct, now: Iterable[UnitEntry], then: Iterable[UnitEntry], watermark: int | None
) -> Proposal:
    """Return a proposal that undoes the last act: the act's work units get their earlier rows back.

    Args:
        last: The act, after ``settled``.
        now: All present rows.
        then: All rows just before the act.
        watermark: The dataset's present watermark, epoch ms UTC.

    Raises:
        StateError: runs committed some of the same work units since.
    """
    if last.overwritten:
        examples = ", ".join(sorted(last.overwritten)[:_EXAMPLES])
        raise StateError(
            f"{last.verb} {last.act_id} cannot be undone: runs committed "
            f"{len(last.overwritten)} of its work units since ({examples})",
            "Use `dil state rewind`, which also undoes the records of those runs.",
        )
    others = [entry for entry in now if entry.signature not in last.signatures]
    mine = [entry for entry in now if entry.signature in last.signatures]
    wanted = [entry for entry in then if entry.signature in last.signatures]
    changes, keeps_records = _difference(mine, wanted)
    restored = last.watermark_to_restore(watermark)
    return Proposal(
        "undo",
        changes,
        watermark=restored,
        sets_watermark=restored != watermark,
        keeps_records=keeps_records or any(entry.status != PENDING for entry in others),
        named=tuple(entry for entry in others if entry.signature in last.named),
        closes=last.reopened,
        reopens=last.closed,
    )


def import_highs(
    now: Iterable[UnitEntry], highs: Iterable[ImportedHigh], *, replaces: bool
) -> Proposal:
    """Return a proposal with another store's high watermarks (rule P32).

    Args:
        now: All present rows.
        highs: The imported high watermarks, one per signature.
        replaces: Whether known highs may be lowered.

    Raises:
        StateError: a known high would be lowered, and ``replaces`` is false.
    """
    known = {entry.signature: entry for entry in now}
    changes, lowered, equal = [], [], 0
    for high in highs:
        before = known.get(high.signature)
        if before is not None and before.high is not None and before.high > high.high:
            lowered.append(high.signature)
        after = _imported(before, high)
        if after == before:
            equal += 1
        else:
            changes.append(RowChange(high.signature, before, after))
    if lowered and not replaces:
        raise StateError(
            f"known high watermarks would be lowered: {len(lowered):,}, the first for {lowered[0]}",
            "Rows after the lower high watermarks would be read again. Remove these lines from the "
            "file, or "
            "give --replace if you want that.",
        )
    notes = [f"known already: {equal:,}"] if equal else []
    if lowered:
        notes.append(f"lowered, so that their rest is due again: {len(lowered):,}")
    return Proposal("import", tuple(changes), tuple(notes))


def prune(
    entries: Iterable[UnitEntry], young: Collection[str], range_start: int, range_end: int
) -> Proposal:
    """Return a proposal that removes old records of work units outside the job's range.

    Three kinds of records are kept: ``young`` records (changed lately), records whose last attempt
    failed, and the newest success, so that the job never looks as if it had never run.

    Args:
        entries: All rows.
        young: Signatures that changed within the retention period.
        range_start: The start of the job's first partition, epoch ms UTC.
        range_end: The end of the job's last partition, epoch ms UTC.
    """
    known = list(entries)
    newest = max((entry.high for entry in known if entry.high is not None), default=None)
    changes = tuple(
        RowChange(entry.signature, entry, None)
        for entry in known
        if not range_start <= entry.low < range_end
        and entry.status != FAILED
        and entry.signature not in young
        and (entry.high is None or entry.high != newest)
    )
    gone = {each.signature for each in changes}
    keeps = any(each.status != PENDING and each.signature not in gone for each in known)
    return Proposal("prune", changes, keeps_records=keeps)


def _difference(
    now: Iterable[UnitEntry], then: Iterable[UnitEntry]
) -> tuple[tuple[RowChange, ...], bool]:
    """Return the changes from ``now`` to ``then``, and whether records are left after them."""
    earlier = {entry.signature: entry for entry in then}
    keeps_records = any(entry.status != PENDING for entry in earlier.values())
    changes = []
    for entry in now:
        wanted = earlier.pop(entry.signature, None)
        if wanted != entry:
            changes.append(RowChange(entry.signature, entry, wanted))
    changes += [RowChange(signature, None, entry) for signature, entry in earlier.items()]
    return tuple(changes), keeps_records


def _imported(before: UnitEntry | None, high: ImportedHigh) -> UnitEntry:
    """Return the row for a success in another store.

    A failed work unit stays failed until a success reaches the end of the failed reading.
    """
    if before is None:
        return UnitEntry(high.signature, high.low, high.high, high.high, COMMITTED, 0)
    is_owed = before.status == FAILED and high.high < before.expected_high
    return replace(
        before,
        high=high.high,
        expected_high=before.expected_high if is_owed else high.high,
        status=FAILED if is_owed else COMMITTED,
    )


def _on_grid(entry: UnitEntry, grid: Mapping[int, int]) -> UnitEntry:
    # dataclasses.replace is too slow: an import has a million rows.
    return UnitEntry(
        entry.signature,
        entry.low,
        entry.expected_high,
        entry.high,
        entry.status,
        entry.attempts,
        is_on_grid=grid.get(entry.low) == entry.expected_high,
    )


def _unit_json(signature: str) -> str:
    parts = parts_of_signature(signature)
    return parts.unit_json if parts else ""
