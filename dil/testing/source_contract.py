"""The framework's requirements on a source, as tests for your connector; they need pytest.

Subclass ``SourceContract`` in a test module and give it a fixture ``source``: a ``SourceHarness``
that fills your source with rows, and breaks it. pytest runs the rest::

    class TestGauges(SourceContract):
        @pytest.fixture
        def source(self) -> Iterator[SourceHarness]:
            with GaugeServer() as server:
                yield GaugeHarness(server)

The tests run whole jobs in this process, without Spark. Only tests import this module:
``dil`` itself does not need pytest.
"""

from __future__ import annotations

import gc
import json
import pickle
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

from dil.errors import AuthenticationError, ConfigError, DilError, SourceError
from dil.model.job import Job
from dil.model.report import RunStatus
from dil.operator.source_preview import preview_source
from dil.spi.connector import ByteSession, Connector, RowSession
from dil.spi.registry import load
from dil.testing.trial import DAY, NOW_MS, Trial, reading_of

ROWS = 1000
_ALL = 10 * ROWS
_NAME = "good"
# What a name must not be taken for: SQL, another path or query, a pattern, an escape, a header.
_NO_NAMES = (
    "x' or 'a'='a", 'x" or "a"="a', "x') or ('a'='a", "x\\' or 1=1 -- ", "0 or 1=1", "good'; --",
    "x/../good", "good?a=b", "good&a=b", "good#a", "goo%64", "g*", "goo?", "[g]ood", ".*",
    "good\r\nX-A: b",
)  # fmt: skip


class SourceHarness(ABC):
    """The tests' access to your source: each test has a new one, and may fill and break it.

    ``mistakes`` are pairs: a property of your job, and a text for it that must be refused, empty if
    the property is required. ``secrets`` are texts that no message may show: passwords and tokens,
    right and wrong ones. ``elsewhere`` are names for ``named``, such as ``../other/rows``. They
    would lead to other rows if your connector took them for more than a name.

    Leave out the methods for abilities that your source lacks: the suite skips their tests.
    """

    mistakes: Collection[tuple[str, str]]
    secrets: Collection[str] = ()
    elsewhere: Collection[str] = ()

    @abstractmethod
    def fill(self, rows: int) -> Mapping[str, str]:
        """Put rows into the source and return the properties of a job that reads all of them.

        The rows have a column ``id``, which counts from 0, as numbers or as text; you choose the
        other columns. Make a row some 100 bytes long, and let the job ask for several pages if your
        source has pages. The suite sets the name, the dataset, the watermark and the state.
        """

    @abstractmethod
    def gone(self) -> Mapping[str, str]:
        """Take the source away, or return properties of a source that does not exist."""

    def refusing(self) -> Mapping[str, str]:
        """Return properties of a job whose login the source refuses."""
        pytest.skip("this source asks for no login")

    def cut(self, times: int) -> None:
        """Break the next transfers in the middle of the rows; ``times`` = 0 breaks no more."""
        del times
        pytest.skip("this source cannot be cut")

    def named(self, name: str) -> Mapping[str, str]:
        """Put one row under a name and return the properties of a job that reads ``{{name}}``.

        Put the variable where your users put variables: in the address, in the statement.
        """
        del name
        pytest.skip("this source has no place for a variable")


class SourceContract:
    """The tests. Each test begins with an empty source and a job that never ran."""

    @pytest.fixture
    def source(self) -> SourceHarness:
        """Return your source; your subclass has to define this fixture."""
        pytest.fail("give your subclass a fixture `source`")

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Trial:
        """Return the runner of the job."""
        return Trial(tmp_path / "trial")

    # Rows

    def test_a_run_publishes_every_row_once(self, source: SourceHarness, trial: Trial) -> None:
        """Every row is published once, in whatever pages, batches and files the rows come."""
        report = trial.run(trial.job(source.fill(ROWS)))
        assert report.failures == (), report.failures
        _check_each_once(trial)

    def test_a_second_run_reads_nothing(self, source: SourceHarness, trial: Trial) -> None:
        """Published work units are not due again."""
        job = trial.job(source.fill(ROWS))
        trial.run(job)
        again = trial.run(job)
        assert again.status is RunStatus.NOTHING_DUE, again
        assert again.units.planned == 0, again.units
        _check_each_once(trial)

    def test_no_rows_are_no_error(self, source: SourceHarness, trial: Trial) -> None:
        """A source without rows for a work unit is no error."""
        report = trial.run(trial.job(source.fill(0)))
        assert report.failures == (), report.failures
        assert report.rows == 0, report.rows

    # Properties

    def test_wrong_properties_are_found_before_a_run(
        self, source: SourceHarness, trial: Trial
    ) -> None:
        """``Connector.check`` and ``PluginProperty`` name the property and say what to do."""
        properties = source.fill(1)
        connector = _connector(trial.job(properties))
        own = {each.name: each for each in connector.properties}
        missing = [(name, "") for name, each in own.items() if each.required]
        for name, text in (*missing, *source.mistakes):
            _refused(trial, {**properties, name: text}, name)
        for name in own:
            _refused(trial, {**properties, f"{name}x": "misspelled"}, f"{name}x")

    def test_a_job_is_loaded_while_the_source_is_gone(
        self, source: SourceHarness, trial: Trial
    ) -> None:
        """Neither ``check`` nor the construction of the connector asks the source."""
        connector = _connector(trial.job({**source.fill(1), **source.gone()}))
        assert isinstance(connector(), Connector)

    def test_the_job_travels_to_a_task(self, source: SourceHarness, trial: Trial) -> None:
        """The parsed values of your properties can be pickled; a task finds your class by its name.

        The connector itself does not travel: a task makes its own, without arguments.
        """
        job = trial.job(source.fill(1))
        arrived: Job = pickle.loads(pickle.dumps(job))  # noqa: S301 - our own bytes
        assert _connector(arrived) is _connector(job)

    # Failures

    def test_a_source_that_is_gone_is_told_and_moves_no_watermark(
        self, source: SourceHarness, trial: Trial
    ) -> None:
        """The message says what to do, and the next run reads what this run could not read."""
        properties = source.fill(ROWS)
        job = trial.job({**properties, **source.gone()})
        _check_error(job, source, SourceError)
        assert trial.failure(job).startswith(SourceError.code)
        _check_nothing_counts(trial, job)

    def test_a_refused_login_is_told_and_not_tried_again(
        self, source: SourceHarness, trial: Trial
    ) -> None:
        """After ``AuthenticationError`` no attempt follows, because it might lock the account."""
        properties = source.fill(ROWS)
        job = trial.job({**properties, **source.refusing()}, task__maxretries="2")
        _check_error(job, source, AuthenticationError)
        assert trial.failure(job) == AuthenticationError.code
        _check_nothing_counts(trial, job)

    def test_a_cut_in_the_middle_doubles_no_row(self, source: SourceHarness, trial: Trial) -> None:
        """Your session goes on by itself, or it raises and the next attempt starts anew."""
        job = trial.job(source.fill(ROWS), task__maxretries="2")
        source.cut(1)
        report = trial.run(job)
        assert report.failures == (), report.failures
        _check_each_once(trial)

    def test_a_part_of_the_rows_is_never_published(
        self, source: SourceHarness, trial: Trial
    ) -> None:
        """An answer that ends early is an error, not an end."""
        job = trial.job(source.fill(ROWS))
        source.cut(1000)
        _check_error(job, source, SourceError)
        assert trial.failure(job).startswith(SourceError.code)
        _check_nothing_counts(trial, job)
        source.cut(0)
        report = trial.run(job)
        assert report.failures == (), report.failures
        _check_each_once(trial)

    # Sessions

    def test_close_releases_all(self, source: SourceHarness, trial: Trial) -> None:
        """``close`` releases everything, even if only some rows were read; it may be repeated."""
        job = trial.job(source.fill(ROWS))
        assert _left_open(job, 0, 1, None) <= 0, "files or sockets are still open after close()"

    def test_close_releases_all_after_a_failure(self, source: SourceHarness, trial: Trial) -> None:
        """``close`` releases everything, whatever failed before."""
        job = trial.job(source.fill(ROWS))
        source.cut(1000)
        assert _left_open(job, None) <= 0, "files or sockets are still open after close()"

    # Looks

    def test_a_preview_shows_rows_and_changes_nothing(
        self, source: SourceHarness, trial: Trial
    ) -> None:
        """``dil preview`` and ``dil check`` read a little and keep neither state nor files."""
        job = trial.job(source.fill(ROWS))
        assert _connector(job).changes(job) is None, "it would ask for --send"
        files = trial.files()
        seen = preview_source(job, now_ms=NOW_MS, rows=3)
        assert len({int(each.as_py()) for each in seen.rows["id"]}) > 0, "no rows"
        assert _shown([each.location for each in seen.answers], source) == [], "in `location`"
        assert trial.files() == files, trial.files()
        trial.run(job)
        state, files = trial.state(job), trial.files()
        preview_source(job, now_ms=NOW_MS, rows=1)
        assert trial.state(job) == state, trial.state(job)
        assert trial.files() == files, trial.files()

    # Variables

    def test_a_value_stays_in_its_place(self, source: SourceHarness, trial: Trial) -> None:
        """No value may become SQL, another path, a pattern or a header: values are foreign text."""
        properties = source.named(_NAME)
        assert _rows_of(trial, properties, _NAME) == 1, "the job must find what has the name"
        strayed = []
        for name in (*_NO_NAMES, *source.elsewhere):
            with suppress(DilError):  # a refused name is as good as an unknown one
                if _rows_of(trial, properties, name):
                    strayed.append(name)
        assert strayed == [], f"these are no names of rows, and brought some: {strayed}"


def _connector(job: Job) -> type[Connector]:
    found: type[Connector] = load(job.source.connector)
    return found


def _refused(trial: Trial, properties: Mapping[str, str], name: str) -> None:
    """Check that a job is refused because of the property ``name``, with advice."""
    with pytest.raises(ConfigError) as caught:
        trial.job(properties)
    fixes = [problem.fix for problem in caught.value.problems if problem.key == name]
    assert fixes, f"{name} is not named: {caught.value}"
    assert all(fixes), f"{name}: say what to do, in `fix` of the Problem"


def _check_each_once(trial: Trial) -> None:
    published = Counter(trial.ids())
    lost = sorted(set(range(ROWS)) - set(published))
    doubled = sorted(number for number, count in published.items() if count > 1)
    assert not lost, f"{len(lost)} rows are lost, the first has the id {lost[0]}"
    assert not doubled, f"{len(doubled)} rows came more than once, the first is {doubled[0]}"
    assert len(published) == ROWS, f"rows that are not the source's: {max(published)}"


def _check_nothing_counts(trial: Trial, job: Job) -> None:
    assert trial.ids() == [], f"{len(trial.ids())} rows were published"
    assert trial.state(job)[0] is None, "the work unit counts as done"


def _check_error(job: Job, source: SourceHarness, kind: type[DilError]) -> None:
    """Read all rows and check the session's error; a run would mask the secrets in it."""
    with pytest.raises(kind) as caught:
        preview_source(job, now_ms=NOW_MS, rows=_ALL)
    assert caught.value.fix, f"say what to do, in the second argument of {caught.value!r}"
    assert _shown([str(caught.value)], source) == [], "the message holds a secret"


def _shown(texts: Collection[str], source: SourceHarness) -> list[str]:
    """Return the secrets that some texts contain."""
    return [secret for secret in source.secrets if any(secret in text for text in texts)]


def _rows_of(trial: Trial, properties: Mapping[str, str], name: str) -> int:
    """Return how many rows a job reads with a name.

    Raises:
        DilError: the name was refused.
    """
    unit = {"name": "unit", "type": "unit", "units": [{"name": name}]}
    job = trial.job(properties, ms__watermark=json.dumps([DAY, unit]))
    return len(preview_source(job, now_ms=NOW_MS, rows=_ALL).rows)


def _left_open(job: Job, *batches: int | None) -> int:
    """Return how many files and sockets stay open after sessions that read ``batches`` each."""
    _read(job, None)  # loads and opens what the process loads and opens only once
    gc.collect()
    before = _open_files()
    sessions = [_read(job, most) for most in batches]  # kept, so that only close releases files
    _wait_until(lambda: _open_files() <= before)
    left = _open_files() - before
    del sessions
    return left


def _read(job: Job, batches: int | None) -> object:
    """Read through a session, close it twice, and return it."""
    held: list[ByteSession | RowSession] = []

    def hold(session: ByteSession | RowSession) -> ByteSession | RowSession:
        held.append(session)
        return session

    # A session that cannot be opened or closed fails the test by its own error.
    with reading_of(job).opened(hold) as rows, suppress(DilError):
        for _ in islice(rows, batches):
            pass
    held[0].close()
    return held[0]


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def _wait_until(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until ``holds``, at most ``seconds``: a server in this process closes sockets late."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
