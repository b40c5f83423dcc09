"""Laws of timeseries tables that need no database: names, the view's text, and what changes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dil.model.dataset import Commit, Move, OperatorAct, PublishedFile
from dil.model.interval import DAY_MS
from dil.model.timelabels import TimelabelSpec
from dil.publishing.timeseries.changes import DROP, label_changes_of, without_loaded
from dil.publishing.timeseries.loading import oldest
from dil.publishing.timeseries.names import Names
from dil.publishing.timeseries.registry import LabelEntry, LabelState
from dil.publishing.timeseries.view import TimeseriesView, branches
from dil.publishing.warehouse.dialect import TableName
from dil.publishing.warehouse.sqlite import SqliteDialect
from dil.text.warehouse_url import read_warehouse_url
from dil.text.windows import label_start, label_text, windows_of

NOW = label_start("20200120000000")
WINDOWS = windows_of(TimelabelSpec(schedule="10 0 * * *"))
DIALECT = SqliteDialect(read_warehouse_url("sqlite:///never-opened.db"))
DAYS = tuple(label_text(NOW - day * DAY_MS) for day in range(12))
WITH_ROWS = {LabelState.LOADED, LabelState.CLOSED, LabelState.REOPENED}

quickly = settings(max_examples=20)
labels = st.sampled_from(DAYS)
texts = st.text(min_size=1, max_size=9)
letters = st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"])
bases = st.text(letters, min_size=1).filter(lambda name: len(name.encode()) <= 47)
files = st.builds(
    lambda label, unit, sha, run: PublishedFile(
        f"db#{label}-{unit}-{sha}-{run}", f"{label}/{unit}", 1, 1, sha, run, label
    ),
    labels, st.sampled_from("ab"), st.sampled_from(["1", "2", ""]), st.just("run"),
)  # fmt: skip
entries = st.builds(
    lambda label, state, loaded: LabelEntry(
        label, label_start(label), label_start(label) + DAY_MS, state, 1,
        f"_t_{label}" if state in WITH_ROWS else "", 1, 1, loaded,
    ),
    labels, st.sampled_from(LabelState), st.sampled_from([None, NOW - 30 * DAY_MS, NOW]),
)  # fmt: skip
registries = st.lists(entries, unique_by=lambda entry: entry.label).map(
    lambda found: {entry.label: entry for entry in sorted(found, key=lambda each: each.label)}
)
DAY, START = DAYS[3], label_start(DAYS[3])
LOADED, PENDING = (
    {DAY: LabelEntry(DAY, START, START + DAY_MS, state, 1, "_t", 1, 1, NOW)}
    for state in (LabelState.LOADED, LabelState.PENDING)
)


def file_of(sha: str, run: str = "r") -> PublishedFile:
    return PublishedFile(f"db#{sha}-{run}", f"{DAY}/a", 1, 1, sha, run, DAY)


def commit(coming, going, act: OperatorAct | None = None) -> Commit:
    moves = tuple(Move(f"/staged/{number}", file) for number, file in enumerate(coming))
    return Commit("run", "d", "s", moves, tuple(going), "", NOW, NOW, act=act)


@quickly
@given(base=bases, one=labels, other=labels, number=st.integers(1, 9999), run=texts)
def test_names_fit_every_database_and_no_two_are_the_same(base, one, other, number, run) -> None:
    names = Names(TableName("shop", base))
    made = [
        names.label(one), names.label(other), names.attempt(one, number),
        names.old(one, number, run), names.old(one, number), names.next_base(),
        names.compacted(one, other, number), names.view,
    ]  # fmt: skip
    assert all(len(each.name.encode()) <= 63 and each.schema == "shop" for each in made)
    assert len({each.name for each in made}) == len(made) - (one == other)
    assert base not in {each.name for each in made}


@quickly
@given(base=bases, label=labels, number=st.integers(1, 9999), run=texts)
def test_the_name_of_a_table_that_was_replaced_tells_its_label_and_attempt(
    base, label, number, run
) -> None:
    names = Names(TableName("", base))
    old = names.old(label, number, run).name
    assert old.startswith(names.making)
    assert names.old_parts(old) == (label, number)
    for other in (names.old(label, number), names.attempt(label, number), names.next_base()):
        assert names.old_parts(other.name) is None


@quickly
@given(one=bases, other=bases)
def test_tables_in_the_making_of_two_bases_are_told_apart(one, other) -> None:
    first, second = (Names(TableName("", base)) for base in (one, other))
    assert (first.making == second.making) == (one == other)


@quickly
@given(coming=st.lists(files), going=st.lists(files), known=registries)
def test_a_label_changes_when_files_come_to_it_or_leave_it(coming, going, known) -> None:
    work = label_changes_of(commit(coming, going), known, WINDOWS, None)
    touched = {file.timelabel for file in (*coming, *going)}
    assert list(work.changes) == sorted(touched)
    assert not work.gone
    for label, change in work.changes.items():
        assert [move.target for move in change.moves] == [f for f in coming if f.timelabel == label]
        replaced = {f.signature for f in (*coming, *going) if f.timelabel == label}
        assert change.replaced == replaced


@quickly
@given(coming=st.lists(files), known=registries, days=st.integers(0, 15))
def test_retention_takes_labels_that_ended_before_and_no_other(coming, known, days) -> None:
    """Nor one that waits to be loaded, or was loaded again since."""
    work = label_changes_of(commit(coming, ()), known, WINDOWS, days * DAY_MS)
    before = NOW - days * DAY_MS
    for label in {*known, *(file.timelabel for file in coming)}:
        entry = known.get(label)
        is_old = label_start(label) + DAY_MS < before
        is_reopened = entry is not None and entry.state is LabelState.REOPENED
        is_kept = is_reopened and (entry.loaded_at is None or entry.loaded_at >= before)
        is_there = entry is not None and entry.state is not LabelState.DROPPED
        is_touched = any(file.timelabel == label for file in coming)
        assert (label in work.gone) == (is_old and not is_kept and (is_there or is_touched))
        assert label not in work.gone or label not in work.changes


@quickly
@given(going=st.lists(files, min_size=1), known=registries)
def test_a_drop_takes_the_labels_of_its_files_and_loads_nothing(going, known) -> None:
    work = label_changes_of(commit((), going, OperatorAct(DROP, "why")), known, WINDOWS, None)
    assert (dict(work.changes), work.gone) == ({}, {file.timelabel for file in going})


@quickly
@given(
    coming=st.lists(files),
    going=st.lists(files),
    known=registries,
    retention_ms=st.sampled_from([None, DAY_MS]),
)
@example([file_of("1")], [file_of("2")], LOADED, None)
@example([file_of("", "r")], [file_of("", "s")], LOADED, None)
@example([file_of("1")], [file_of("1")], LOADED, DAY_MS)
@example([file_of("1")], [file_of("1")], PENDING, None)
def test_equal_readings_are_spared_as_wholes_and_others_stay(
    coming, going, known, retention_ms
) -> None:
    whole = commit(coming, going)
    spared = without_loaded(whole, known, WINDOWS, retention_ms)
    over = label_changes_of(whole, known, WINDOWS, retention_ms).gone

    def contents(found, part):
        return sorted(f.sha256 for f in found if (f.signature, f.timelabel) == part)

    for part in {(file.signature, file.timelabel) for file in (*coming, *going)}:
        came, went = contents(coming, part), contents(going, part)
        entry = known.get(part[1])
        may_stay = entry is not None and entry.state in WITH_ROWS and not entry.waits
        may_stay = may_stay and part[1] not in over
        # A file without a digest equals itself alone.
        unknown = [f.uri for f in coming if (f.signature, f.timelabel) == part and not f.sha256]
        gone = [f.uri for f in going if (f.signature, f.timelabel) == part and not f.sha256]
        is_equal = bool(came) and came == went and sorted(unknown) == sorted(gone) and may_stay
        left = contents((move.target for move in spared.moves), part)
        assert left == ([] if is_equal else came)
        assert contents(spared.removes, part) == ([] if is_equal else went)
    assert without_loaded(spared, known, WINDOWS, retention_ms) == spared


@quickly
@given(known=registries, most=st.integers(1, 8))
def test_compaction_takes_the_oldest_labels_and_leaves_no_more_than_the_view_may_read(
    known, most
) -> None:
    live = [label for label, each in known.items() if each.is_live]
    chosen = oldest(list(known.values()), live, most)
    assert list(chosen) == live[: len(chosen)]
    if len(live) <= most:
        assert not chosen
    else:
        assert len(live) - len(chosen) + 1 <= most


@quickly
@given(known=registries, columns=st.dictionaries(st.text(letters, min_size=1), st.just("TEXT")))
def test_the_view_reads_each_live_label_once_in_order_with_every_column(known, columns) -> None:
    held = {label: replace(each, columns=columns) for label, each in known.items()}
    own = {label: TableName("", each.object) for label, each in held.items() if each.is_live}
    found = branches(held.values(), own, "")
    view = TimeseriesView(DIALECT, TableName("", "t_view"), columns)

    assert [branch.label for branch in found] == [each for each in DAYS[::-1] if each in own]
    text = view.text(TableName("", "t"), found, None)
    assert text.count(" FROM ") >= max(len(own), 1)
    for name in own.values():
        assert f"FROM {DIALECT.full(name)}" in text
    assert view.ordered(None)[-1][0] == "_timelabel"
    assert [name for name, _ in view.ordered(None)[:-1]] == [
        n for n in columns if n != "_timelabel"
    ]
