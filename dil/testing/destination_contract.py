"""The framework's requirements on a destination, as tests for yours; they need pytest.

Subclass ``DestinationContract`` in a test module and give it a fixture ``store``: a
``DestinationHarness`` that opens your destination and returns the rows that readers see. pytest
runs the rest::

    class TestArchive(DestinationContract):
        @pytest.fixture
        def store(self, tmp_path: Path) -> DestinationHarness:
            return ArchiveHarness(tmp_path)

The tests carry commits out in this process, and in child processes that they kill at each line of
your code. Only tests import this module: ``dil`` itself does not need pytest.
"""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.errors import ConfigError, DilError, PluginFailureError
from dil.model.dataset import Commit, Intent, Move, Owner, PublishedFile
from dil.model.job import Job, PublishMode
from dil.model.report import RunStatus
from dil.model.work_unit import unit_hash
from dil.publishing.destination import destination_for, destination_text
from dil.publishing.layout import STAGING, dataset_dir, final_name, join
from dil.spi.destination import Destination
from dil.storage import filesystem_for
from dil.testing import few_rows
from dil.testing.killed import killed_at_each_line
from dil.testing.trial import NOW_MS, Trial
from dil.types.schema_text import schema_text

_APPEND, _REPLACE, _WINDOW = PublishMode.APPEND, PublishMode.REPLACE, PublishMode.WINDOW_REPLACE
_SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
_ROWS = 10


class DestinationHarness(ABC):
    """The tests' access to your destination: each test has a new one, without rows.

    ``kind`` is your class, in a module that can be imported. ``modes`` are the publish modes to
    test, by default the modes of the class. ``mistakes`` are pairs: a property of your job, and a
    text for it that must be refused, empty if the property is required. ``secrets`` are texts that
    no name and no message may show. ``code`` is the path prefix of the files at whose lines the
    tests kill a commit, by default the file of your class. If ``every`` is n, they kill only at
    each n-th line. ``can_fork`` is False if a library of yours cannot be used in a child of a
    process that used it before; then your own tests have to show what a kill does.
    """

    kind: type[Destination]
    modes: Collection[PublishMode] | None = None
    mistakes: Collection[tuple[str, str]] = ()
    secrets: Collection[str] = ()
    code: str = ""
    every: int = 1
    can_fork: bool = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def properties(self) -> Mapping[str, str]:
        """Return the properties of a job that publishes here, including ``ms.destination.class``.

        The suite sets the name, the source, the watermark, the state and the publish mode.
        """

    @abstractmethod
    def ids(self) -> Sequence[int]:
        """Return the column ``id`` of all rows that a reader sees now, in any order.

        Rows have the columns ``id``, an integer, and ``name``, a text. Read them as your users do,
        and not through your destination.
        """

    def gone(self) -> Mapping[str, str]:
        """Take the store away, or return properties of a store that does not exist."""
        pytest.skip("this store cannot be taken away")

    def job(self, mode: PublishMode, **changes: str) -> Job:
        """Load a job that publishes here; ``__`` in the name of a change is a dot.

        Raises:
            ConfigError: the job is wrong.
        """
        given = {
            "source.class": few_rows.NAME,
            "ms.source.uri": "few rows",
            "ms.publish.mode": mode.value,
            "ms.x.few.rows.count": str(_ROWS),
            **self.properties(),
        }
        return Trial(self.folder).job(given, **changes)

    def open(self, mode: PublishMode = _APPEND) -> Opened:
        """Return the destination in a new instance, as a new process would make it."""
        return Opened(self.job(mode))


class Opened:
    """The destination of a job, and methods that make commits for it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.files = filesystem_for(job.publishing.final_dir)
        self.destination = destination_for(job.publishing, self.files)

    def move(self, run_id: str, signature: str, *ids: int) -> Move:
        """Stage a file with some rows of a work unit, and return its move."""
        spec = self.job.publishing
        name = final_name(run_id, unit_hash(signature), 0, rows=None, extension="parquet")
        path = Path(spec.final_dir, STAGING, "trial", run_id, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"id": number, "name": f"row {number}"} for number in ids]
        pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path)
        target = PublishedFile(
            uri=self.destination.uri(join(dataset_dir(spec), name)),
            signature=signature,
            rows=len(ids),
            bytes=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            run_id=run_id,
        )
        return Move(str(path), target)

    def intent(self, run_id: str, *moves: Move, removes: Sequence[PublishedFile] = ()) -> Intent:
        """Return the intent of a commit, as a run decides it before it records the commit."""
        commit = Commit(
            run_id=run_id,
            config_digest=self.job.digest,
            source_name="dil/trial",
            moves=moves,
            removes=tuple(removes),
            schema=schema_text(_SCHEMA),
            system_time=NOW_MS,
            horizon=NOW_MS,
        )
        spec = self.job.publishing
        self.destination.claim(Owner("trial", self.job.state.place, spec.mode))
        self.destination.require_fit(commit)
        number = self.destination.next_sequence()
        return Intent(
            commit, 1, dataset_dir(spec), number, destination_text(spec, self.destination)
        )

    def publish(self, run_id: str, signature: str, *ids: int) -> Intent:
        """Publish rows of one work unit; earlier rows are removed as the publish mode says."""
        live = self.destination.live()
        removes = {
            _REPLACE: live,
            _WINDOW: [file for file in live if file.signature == signature],
        }.get(self.job.publishing.mode, ())
        moves = [self.move(run_id, signature, *ids)] if ids else []
        intent = self.intent(run_id, *moves, removes=tuple(removes))
        self.destination.carry_out(intent)
        return intent


class DestinationContract:
    """The tests; subclass this class, see the top of the module."""

    @pytest.fixture
    def store(self) -> DestinationHarness:
        """Return your destination; your subclass has to define this fixture."""
        pytest.fail("give your subclass a fixture `store`")

    # Publishing

    def test_what_is_published_is_there_once(self, store: DestinationHarness) -> None:
        """Readers see no row before ``carry_out``, and every row after it."""
        opened = store.open()
        opened.destination.check()
        intent = opened.intent(
            "run-1", opened.move("run-1", "a", 1, 2), opened.move("run-1", "b", 3)
        )
        assert _ids(store) == [], "rows are visible before carry_out"
        assert not store.open().destination.has_landed(intent)
        opened.destination.carry_out(intent)
        assert _ids(store) == [1, 2, 3]
        assert store.open().destination.has_landed(intent)

    def test_published_twice_is_published_once(self, store: DestinationHarness) -> None:
        """The next run may carry out a commit again that this run has carried out already."""
        opened = store.open()
        intent = opened.intent("run-1", opened.move("run-1", "a", 1, 2))
        opened.destination.carry_out(intent)
        opened.destination.carry_out(intent)
        store.open().destination.carry_out(intent)
        assert _ids(store) == [1, 2]

    def test_runs_add_to_each_other(self, store: DestinationHarness) -> None:
        """Under ``append``, every commit adds its rows, even if equal rows exist."""
        store.open().publish("run-1", "a", 1, 2)
        store.open().publish("run-2", "a", 2, 3)
        assert _ids(store) == [1, 2, 2, 3]

    def test_a_commit_has_landed_by_itself(self, store: DestinationHarness) -> None:
        """``has_landed`` is right for each commit, whatever other commits landed."""
        first = store.open().publish("run-1", "a", 1)
        opened = store.open()
        second = opened.intent("run-2", opened.move("run-2", "a", 2))
        assert opened.destination.has_landed(first)
        assert not opened.destination.has_landed(second)

    def test_numbers_grow(self, store: DestinationHarness) -> None:
        """``landed`` returns the number of the newest commit, if it returns numbers."""
        before = store.open().destination.landed("dil/trial")
        first = store.open().publish("run-1", "a", 1)
        landed = store.open().destination.landed("dil/trial")
        if landed is None:
            assert before is None, "say so always, or never"
            pytest.skip("this destination does not count commits")
        assert landed == first.sequence
        second = store.open().publish("run-2", "a", 2)
        assert second.sequence > first.sequence
        assert store.open().destination.landed("dil/trial") == second.sequence

    # Modes

    def test_a_replace_leaves_its_own_rows_alone(self, store: DestinationHarness) -> None:
        """Under ``replace``, no row of earlier commits stays, even if there are no new rows."""
        _require(store, _REPLACE)
        store.open(_REPLACE).publish("run-1", "a", 1, 2)
        store.open(_REPLACE).publish("run-2", "b", 3)
        assert _ids(store) == [3]
        store.open(_REPLACE).publish("run-3", "b")
        assert _ids(store) == []

    def test_a_work_unit_takes_the_place_of_its_own_rows(self, store: DestinationHarness) -> None:
        """Under ``window_replace``, the rows of other work units stay."""
        _require(store, _WINDOW)
        store.open(_WINDOW).publish("run-1", "a", 1, 2)
        store.open(_WINDOW).publish("run-2", "b", 3)
        store.open(_WINDOW).publish("run-3", "a", 2, 4)
        assert _ids(store) == [2, 3, 4]
        store.open(_WINDOW).publish("run-4", "a")
        assert _ids(store) == [3], "a work unit without rows has none"

    def test_a_replace_is_repeated(self, store: DestinationHarness) -> None:
        """A commit can be repeated, although the rows that it removes are gone."""
        mode = _WINDOW if _WINDOW in _modes(store) else _REPLACE
        _require(store, mode)
        store.open(mode).publish("run-1", "a", 1, 2)
        intent = store.open(mode).publish("run-2", "a", 3)
        store.open(mode).destination.carry_out(intent)
        assert _ids(store) == [3]

    # Crashes

    @pytest.mark.parametrize("mode", [_APPEND, _REPLACE, _WINDOW])
    def test_a_kill_at_any_line_loses_and_doubles_nothing(
        self, store: DestinationHarness, mode: PublishMode
    ) -> None:
        """A commit that is killed is there as a whole or not at all, and can be finished."""
        _require(store, mode)
        if not store.can_fork:
            pytest.skip("a library of this destination does not work in a forked process")
        store.open(mode).publish("run-0", "a", 1, 2)
        before, after = [1, 2], [3, 4] if mode is not _APPEND else [1, 2, 3, 4]
        opened = store.open(mode)
        job = opened.job
        live = () if mode is _APPEND else opened.destination.live()
        moves = [opened.move("run-1", "a", 3), opened.move("run-1", "b", 4)]
        intent = opened.intent("run-1", *moves, removes=live)
        code = store.code or inspect.getfile(store.kind)
        kills = 0
        for lines in killed_at_each_line(
            lambda: Opened(job).destination.carry_out(intent), code, store.every
        ):
            kills += 1
            destination = Opened(job).destination
            seen, landed = _ids(store), destination.has_landed(intent)
            assert seen in (before, after), f"killed after {lines} lines, readers see {seen}"
            assert landed is (seen == after), f"after {lines} lines has_landed says {landed}"
            assert destination.lost(intent) == (), f"after {lines} lines rows count as lost"
            if landed:
                destination.carry_out(intent)
                assert _ids(store) == after, f"finished after {lines} lines, rows are doubled"
        assert kills, f"no line of {code} ran"
        assert _ids(store) == after

    def test_a_staged_file_that_is_gone_is_lost(self, store: DestinationHarness) -> None:
        """``lost`` names the file before the commit has landed, and nothing afterwards."""
        opened = store.open()
        kept, gone = opened.move("run-1", "a", 1), opened.move("run-1", "b", 2)
        intent = opened.intent("run-1", kept, gone)
        content = Path(gone.source).read_bytes()
        Path(gone.source).unlink()
        assert store.open().destination.lost(intent) == (gone,)
        Path(gone.source).write_bytes(content)
        opened.destination.carry_out(intent)
        for move in (kept, gone):
            Path(move.source).unlink(missing_ok=True)
        assert store.open().destination.lost(intent) == ()

    def test_what_is_given_up_lands_no_more(self, store: DestinationHarness) -> None:
        """A driver that wakes up after ``fence`` publishes nothing."""
        if store.kind.fence is Destination.fence:
            pytest.skip("this destination has no fence")
        store.open().publish("run-0", "a", 0)
        opened = store.open()
        intent = opened.intent("run-1", opened.move("run-1", "a", 1))
        other = store.open().destination
        assert not other.is_given_up(intent)
        other.fence(intent)
        other.fence(intent)
        assert other.is_given_up(intent)
        with suppress(DilError):  # to refuse is as good as to do nothing
            opened.destination.carry_out(intent)
        assert _ids(store) == [0], "rows came in after the fence"
        assert not store.open().destination.has_landed(intent)

    def test_a_fence_takes_nothing_away(self, store: DestinationHarness) -> None:
        """A commit that has landed stays after ``fence``."""
        intent = store.open().publish("run-1", "a", 1)
        destination = store.open().destination
        destination.fence(intent)
        assert destination.has_landed(intent)
        assert not destination.is_given_up(intent)
        assert _ids(store) == [1]

    # Names and messages

    def test_a_destination_has_one_name(self, store: DestinationHarness) -> None:
        """An intent is finished only if ``uri`` is the same, and ``uri`` has no secret."""
        first, second = store.open(), store.open()
        name = destination_text(first.job.publishing, first.destination)
        assert name == destination_text(second.job.publishing, second.destination), (
            "it changes from run to run"
        )
        folder = dataset_dir(first.job.publishing)
        one, two = (first.destination.uri(f"{folder}/{each}.parquet") for each in ("one", "two"))
        assert one != two, "two files have one name"
        assert [each for each in store.secrets if each in f"{name} {one}"] == []

    def test_a_store_that_is_gone_is_said(self, store: DestinationHarness) -> None:
        """``check`` says, before a row is read, that nothing can be published, and what to do."""
        job = store.job(_APPEND, **_dotless(store.gone()))
        destination = destination_for(job.publishing, filesystem_for(job.publishing.final_dir))
        with pytest.raises(DilError) as caught:
            destination.check()
        assert not isinstance(caught.value, PluginFailureError), "raise an error of dil.errors"
        assert _advice(caught.value), f"say what to do, in the second argument of {caught.value!r}"
        assert [each for each in store.secrets if each in str(caught.value)] == []

    def test_wrong_properties_are_found_before_a_run(self, store: DestinationHarness) -> None:
        """The error names each wrong property, and says what to do."""
        for name, text in store.mistakes:
            with pytest.raises(ConfigError) as caught:
                store.job(_APPEND, **_dotless({name: text}))
            fixes = [problem.fix for problem in caught.value.problems if problem.key == name]
            assert fixes, f"{name} is not named: {caught.value}"
            assert all(fixes), f"{name}: say what to do, in `fix` of the Problem"

    # Whole runs

    def test_a_run_publishes_every_row_once(self, store: DestinationHarness) -> None:
        """A run publishes every row once, and a second run has nothing to do."""
        job, trial = store.job(_APPEND), Trial(store.folder)
        report = trial.run(job)
        assert report.failures == (), report.failures
        assert _ids(store) == list(range(_ROWS))
        assert trial.run(job).status is RunStatus.NOTHING_DUE
        assert _ids(store) == list(range(_ROWS))

    @pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
    def test_the_next_run_finishes_what_was_begun(
        self, store: DestinationHarness, *, is_done: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next run finishes a publish that crashed just before or after ``carry_out``."""
        job, trial = store.job(_APPEND), Trial(store.folder)
        original = store.kind.carry_out

        def crash(self: Destination, intent: Intent) -> None:
            if is_done:
                original(self, intent)
            raise _CrashError

        with monkeypatch.context() as patch:
            patch.setattr(store.kind, "carry_out", crash)
            with pytest.raises(_CrashError):
                trial.run(job)
        assert _ids(store) == (list(range(_ROWS)) if is_done else [])
        trial.run(job)
        assert _ids(store) == list(range(_ROWS))


class _CrashError(BaseException):
    """An exception that no code catches."""


def _ids(store: DestinationHarness) -> list[int]:
    return sorted(store.ids())


def _advice(error: DilError) -> str:
    if isinstance(error, ConfigError):
        return " ".join(problem.fix for problem in error.problems)
    return error.fix


def _modes(store: DestinationHarness) -> Collection[PublishMode]:
    return store.kind.modes if store.modes is None else store.modes


def _require(store: DestinationHarness, mode: PublishMode) -> None:
    if mode not in _modes(store):
        pytest.skip(f"this destination has no mode {mode}")


def _dotless(properties: Mapping[str, str]) -> dict[str, str]:
    return {name.replace(".", "__"): text for name, text in properties.items()}
