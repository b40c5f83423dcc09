"""The framework's requirements on a file writer, as tests for yours; they need pytest.

Subclass ``WriterContract`` in a test module and give it a fixture ``form``: a ``WriterHarness``
that reads the files that your class wrote. pytest runs the rest::

    class TestFixedWidth(WriterContract):
        @pytest.fixture
        def form(self, tmp_path: Path) -> WriterHarness:
            return FixedWidthHarness(tmp_path)

Only tests import this module: ``dil`` itself does not need pytest.
"""

from __future__ import annotations

import inspect
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pytest

from dil.errors import ConfigError, ConversionError
from dil.model.job import Job, WritingSpec
from dil.model.report import RunStatus
from dil.spi.writer import FileWriter
from dil.storage import Folder, LocalFilesystem
from dil.testing import few_rows
from dil.testing.killed import killed_at_each_line
from dil.testing.trial import Trial
from dil.writing.formats import writer_of
from dil.writing.rolling import FileNumbers, OutputFolder, RollingFiles
from dil.writing.sink import MeasuredSink

_ROWS = 10
_NOON = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
# A column of each type, with values that are easily changed by mistake; the tests add a null.
_COLUMNS: Mapping[str, tuple[pa.DataType, Sequence[object]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [0, -(2**31), 2**31 - 1]),
    "long": (pa.int64(), [0, -(2**63), 2**63 - 1, 9_007_199_254_740_993]),
    "double": (pa.float64(), [0.1, -0.0, 1e308, 5e-324, 123456789.123456789]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789")]),
    "string": (
        pa.string(),
        [
            "",
            " a ",
            "line\nbreak",
            "ümläut ✓ 𝄞",
            "q\"uo'te",
            "a,b;c\td",
            "\\N",
            "null",
            "x" * 70_000,
        ],
    ),
    "bytes": (pa.binary(), [b"", b"\x00\xff\r\n", bytes(range(256))]),
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [_NOON, datetime(1969, 12, 31, tzinfo=UTC)]),
    "record": (
        pa.struct(
            [pa.field("a", pa.int64()), pa.field("b", pa.struct([pa.field("c", pa.string())]))]
        ),
        [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, {"a": 2, "b": {"c": None}}],
    ),
    "list": (pa.list_(pa.int64()), [[], [1, 2, 3], [None]]),
    "records": (
        pa.list_(pa.struct([pa.field("a", pa.int64())])),
        [[], [{"a": 1}, {"a": None}]],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1), ("b", None)]]),
}


class WriterHarness(ABC):
    """The tests' access to files of your format.

    ``kind`` is your class, in a module that can be imported. ``refused`` are the names of the
    tested types that your format does not have: writing them has to fail. ``ends_early`` is False
    if your class writes megabytes to the stream at a time: then files get larger than the limit in
    the tests, and the test of this limit is skipped. ``needs_rows`` is True if the format has no
    file without rows; a run never writes one. ``mistakes`` are pairs: a property of your job, and a
    text for it that must be refused.
    """

    kind: type[FileWriter]
    ends_early: bool = True
    needs_rows: bool = False
    refused: Collection[str] = ()
    mistakes: Collection[tuple[str, str]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def read(self, path: Path) -> Sequence[Mapping[str, object]]:
        """Return the rows of a file, with the Python values that ``pyarrow`` has for their types.

        Read the file as your users do, and not through your class.
        """

    @abstractmethod
    def properties(self) -> Mapping[str, str]:
        """Return the properties of a job that writes such files, including ``ms.writer.class``.

        The suite sets the name, the source, the watermark and the state.
        """

    def job(self, **changes: str) -> Job:
        """Load a job that writes such files; ``__`` in the name of a change is a dot.

        Raises:
            ConfigError: the job is wrong.
        """
        given = {
            "source.class": few_rows.NAME,
            "ms.source.uri": "few rows",
            "ms.x.few.rows.count": str(_ROWS),
            **self.properties(),
        }
        # The trial sets writer.output.format, a property that only built-in formats have.
        return Trial(self.folder / "trial", without=("writer.output.format",)).job(given, **changes)


class WriterContract:
    """The tests; subclass this class, see the top of the module."""

    @pytest.fixture
    def form(self) -> WriterHarness:
        """Return your format; your subclass has to define this fixture."""
        pytest.fail("give your subclass a fixture `form`")

    # Values

    @pytest.mark.parametrize("name", _COLUMNS)
    def test_a_value_comes_back_as_it_was(self, form: WriterHarness, name: str) -> None:
        """A value comes back exactly, or is refused: no rounding, no trimming, no other zone."""
        kind, values = _COLUMNS[name]
        batch = _batch(kind, [*values, None])
        if name in form.refused:
            with pytest.raises((ValueError, TypeError, pa.ArrowException, ConversionError)):
                _written(form, batch.schema, batch)
            return
        rows = form.read(_written(form, batch.schema, batch))
        assert repr(rows) == repr(batch.to_pylist())

    def test_columns_keep_their_order(self, form: WriterHarness) -> None:
        """Columns have the names and the order of the schema."""
        names = ["z", "a", "Name with blank", "ä"]
        batch = pa.RecordBatch.from_pydict({name: ["x"] for name in names})
        assert [list(row) for row in form.read(_written(form, batch.schema, batch))] == [names]

    def test_a_file_without_rows_can_be_read(self, form: WriterHarness) -> None:
        """``close`` makes a complete file, even if no rows were written."""
        if form.needs_rows:
            pytest.skip("this format has no file without rows")
        schema = pa.schema([pa.field("value", pa.string())])
        assert list(form.read(_written(form, schema))) == []

    def test_rows_stay_in_their_order(self, form: WriterHarness) -> None:
        """Rows keep their order, in batches of any length and in slices of larger batches."""
        whole = _batch(pa.string(), [f"row {number}" for number in range(1000)])
        parts = [whole.slice(0, 0), whole.slice(0, 1), whole.slice(1, 700), whole.slice(701)]
        rows = form.read(_written(form, whole.schema, *parts))
        assert [row["value"] for row in rows] == whole["value"].to_pylist()

    # The stream

    def test_memory_is_said(self, form: WriterHarness) -> None:
        """``held_bytes`` counts bytes that are not in the stream yet; memory limits rely on it."""
        sink = io.BytesIO()
        schema = pa.schema([pa.field("value", pa.string())])
        writer, size = _writer(form, sink, schema), 0
        for _ in range(64):
            batch = _batch(pa.string(), [os.urandom(512).hex() for _ in range(64)])
            writer.write(batch)
            size += batch.nbytes
        known = sink.tell() + writer.held_bytes
        assert known > size / 4, f"{size} bytes were given, and {known} are accounted for"
        writer.close()

    def test_a_file_ends_when_it_is_large_enough(self, form: WriterHarness) -> None:
        """Each file can be read by itself, and together the files have all rows in order."""
        if not form.ends_early:
            pytest.skip("this format goes to the stream in large pieces")
        spec = form.job(ms__writer__target__bytes="20000", ms__writer__row__group__rows="100")
        files = _rolling(form, spec.writing)
        given = [os.urandom(200).hex() for _ in range(2000)]
        for start in range(0, len(given), 100):
            files.write(_batch(pa.string(), given[start : start + 100]))
        files.end_file()
        assert len(files.written) > 1, "ms.writer.target.bytes has no effect"
        read = [row["value"] for each in files.written for row in form.read(Path(each.file.path))]
        assert read == given

    # Failures

    def test_a_file_that_is_given_up_is_gone(self, form: WriterHarness) -> None:
        """A file that is given up half-way is deleted, even if the class still holds rows of it."""
        files = _rolling(form, form.job().writing)
        files.write(_batch(pa.string(), ["x"] * 100))
        files.abandon_file()
        assert [path for path in (form.folder / "files").rglob("*") if path.is_file()] == []

    def test_wrong_properties_are_found_before_a_run(self, form: WriterHarness) -> None:
        """The error names each wrong property, and says what to do."""
        for name, text in form.mistakes:
            with pytest.raises(ConfigError) as caught:
                form.job(**{name.replace(".", "__"): text})
            fixes = [problem.fix for problem in caught.value.problems if problem.key == name]
            assert fixes, f"{name} is not named: {caught.value}"
            assert all(fixes), f"{name}: say what to do, in `fix` of the Problem"

    # Whole runs

    def test_a_run_publishes_every_row_once(self, form: WriterHarness) -> None:
        """A run publishes every row once, and a second run has nothing to do."""
        job, trial = form.job(), Trial(form.folder / "trial")
        report = trial.run(job)
        assert report.failures == (), report.failures
        assert _published(form) == list(range(_ROWS))
        assert trial.run(job).status is RunStatus.NOTHING_DUE

    def test_rows_that_are_read_again_take_the_place_of_the_earlier(
        self, form: WriterHarness
    ) -> None:
        """After a second run that replaces the dataset, readers see only the rows of that run."""
        job = form.job(ms__publish__mode="replace", extract__table__type="SNAPSHOT_ONLY")
        trial = Trial(form.folder / "trial")
        trial.run(job)
        again = trial.run(job)
        assert again.rows == _ROWS, f"nothing was read again: {again}"
        assert _published(form) == list(range(_ROWS))

    def test_a_kill_at_any_line_leaves_no_half_file(self, form: WriterHarness) -> None:
        """Readers see nothing of a run that was killed in a write; the next run has all rows."""
        job, trial = form.job(), Trial(form.folder / "trial")
        kills = 0
        for _ in killed_at_each_line(lambda: trial.run(job), inspect.getfile(form.kind), 7):
            kills += 1
            assert _published(form) in ([], list(range(_ROWS)))
        assert kills, "no line of the class ran"
        assert _published(form) == list(range(_ROWS))


def _batch(kind: pa.DataType, values: Sequence[object]) -> pa.RecordBatch:
    field = pa.field("value", kind)
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], schema=pa.schema([field]))


def _writer(form: WriterHarness, sink: BinaryIO, schema: pa.Schema) -> FileWriter:
    spec = form.job().writing
    return writer_of(spec)(cast("BinaryIO", MeasuredSink(sink)), schema, spec)


def _written(form: WriterHarness, schema: pa.Schema, *batches: pa.RecordBatch) -> Path:
    path = form.folder / f"one.{form.kind.extension}"
    with path.open("wb") as sink:
        writer = _writer(form, sink, schema)
        for batch in batches:
            writer.write(batch)
        writer.close()
    return path


def _rolling(form: WriterHarness, spec: WritingSpec) -> RollingFiles:
    folder = Folder(LocalFilesystem(), str(form.folder / "files"))
    return RollingFiles(OutputFolder(folder, spec, writer_of(spec)), FileNumbers())


def _published(form: WriterHarness) -> list[int]:
    found = (
        row["id"] for path in Trial(form.folder / "trial").visible() for row in form.read(path)
    )
    return sorted(int(cast("int", number)) for number in found)
