"""Derives the changes of a commit to each timelabel."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dil.model.dataset import Commit, Move, PublishedFile
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.text.windows import Windows, label_start

# The verb of the operator's act that drops labels.
DROP = "drop"


@dataclass(frozen=True, slots=True)
class LabelChange:
    """The files whose rows enter a label, and the work units whose rows leave it first.

    A run may read only some work units of a label; the rows of all other work units stay.
    """

    label: str
    moves: tuple[Move, ...]
    replaced: frozenset[str]

    def commit(self, whole: Commit) -> Commit:
        """Return the part of a commit that loads this label."""
        return replace(whole, moves=self.moves)


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """The changes of a commit: changed labels, in order of time, and dropped labels."""

    changes: Mapping[str, LabelChange]
    gone: frozenset[str]


def label_changes_of(
    commit: Commit, known: Mapping[str, LabelEntry], windows: Windows, retention_ms: int | None
) -> LabelChanges:
    """Return the changes that a commit makes to labels.

    A label is dropped if an operator's act drops it, or if its retention ended and it does not wait
    for a load; staged rows of such a label are not loaded.
    """
    coming: defaultdict[str, list[Move]] = defaultdict(list)
    for move in commit.moves:
        coming[move.target.timelabel or ""].append(move)
    replaced: defaultdict[str, set[str]] = defaultdict(set)
    for file in (*commit.removes, *(move.target for move in commit.moves)):
        replaced[file.timelabel or ""].add(file.signature)
    labels = replaced.keys() - {""}
    if commit.act is not None and commit.act.verb == DROP:
        return LabelChanges({}, frozenset(labels))
    gone: frozenset[str] = frozenset()
    if retention_ms is not None:
        there = {label for label, each in known.items() if each.state is not LabelState.DROPPED}
        entries = (entry_of(known, label, windows) for label in {*there, *labels})
        before = commit.system_time - retention_ms
        gone = frozenset(each.label for each in entries if each.is_over(before))
    return LabelChanges(
        {
            label: LabelChange(label, tuple(coming[label]), frozenset(replaced[label]))
            for label in sorted(labels - gone)
        },
        gone,
    )


def without_loaded(
    commit: Commit, known: Mapping[str, LabelEntry], windows: Windows, retention_ms: int | None
) -> Commit:
    """Return a commit without the files whose rows their labels already have.

    The files of a work unit in a label are compared by digest with the files that they would
    replace. A label that an operator wants to load again keeps its files in the commit.
    """
    gone = label_changes_of(commit, known, windows, retention_ms).gone
    has = _contents(commit.removes)
    equal = {
        part
        for part, files in _contents(move.target for move in commit.moves).items()
        if files == has.get(part)
        and part[1] in known
        and known[part[1]].keeps_rows
        and part[1] not in gone
    }
    if not equal:
        return commit
    return replace(
        commit,
        moves=tuple(move for move in commit.moves if _part(move.target) not in equal),
        removes=tuple(file for file in commit.removes if _part(file) not in equal),
    )


def _contents(files: Iterable[PublishedFile]) -> dict[tuple[str, str], Counter[str]]:
    """Return the digests of files by work unit and label; files without a digest equal no other."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for file in files:
        found[_part(file)][file.sha256 or file.uri] += 1
    return dict(found)


def _part(file: PublishedFile) -> tuple[str, str]:
    return (file.signature, file.timelabel or "")


def entry_of(known: Mapping[str, LabelEntry], label: str, windows: Windows) -> LabelEntry:
    """Return the registry's entry of a label; a new label is pending."""
    if label in known:
        return known[label]
    start = label_start(label)
    return LabelEntry(label, start, windows.at(start).high, LabelState.PENDING)
