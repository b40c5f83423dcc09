"""Replays the queries of a derived dataset on the slices that its blocks record.

The present result of a query is staged, compared with the published rows, and deleted. Nothing is
published, and no state changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from dil.errors import ConfigError, DilError
from dil.execution.executor import job_of_tasks
from dil.execution.queries.query import Query, QueryExecutor, QueryResult, View, view_of
from dil.execution.stages import Executors
from dil.model.dataset import FileRows
from dil.model.derived import Closing, DedupeSpec, InputSlice, emitted_until
from dil.model.event_tally import EventContext
from dil.model.interval import Interval
from dil.model.job import ClassRef, Job, PublishMode, QueryMode, QuerySpec
from dil.model.json import JsonObject
from dil.model.task import RunContext
from dil.model.work_unit import Reason, WorkUnit
from dil.publishing.layout import run_staging_dir
from dil.publishing.publisher import delete_staging
from dil.reshaping.files import DatasetFiles
from dil.reshaping.row_hash import logical_hash
from dil.run.lease import new_run_id
from dil.run.options import RunOptions
from dil.run.queries.execute import published_near
from dil.run.queries.slices import input_chains
from dil.spi.state_store import StateStore
from dil.state.blocks.block import read_block
from dil.state.blocks.canonical import instant_of
from dil.state.blocks.events import ConfigEvent, DataEvent
from dil.state.derived.dataset_chain import START
from dil.state.derived.input_rows import InputReading, InputRows, mode_of, recorded_reading
from dil.state.derived.inputs import StoredInput
from dil.storage import filesystem_for
from dil.types.schema_text import parse_schema


class ReplayOutcome(StrEnum):
    """The outcome of a replay."""

    SAME = "same"
    SAME_ROWS = "same rows, in another order"
    DIFFERS = "differs"
    FAILED = "cannot be replayed"
    SKIPPED = "not replayed"


@dataclass(frozen=True, slots=True)
class ReplayedBlock:
    """The outcome of the replay of one block; ``why`` explains the outcome, or is empty."""

    sequence: int
    outcome: ReplayOutcome
    why: str = ""

    @property
    def problem(self) -> str:
        """Return the problem as text, empty if there is none."""
        if self.outcome is ReplayOutcome.FAILED:
            return f"the query of block {self.sequence} cannot be run again: {self.why}"
        if self.outcome is not ReplayOutcome.DIFFERS:
            return ""
        return (
            f"the query of block {self.sequence} gives other rows than were published: {self.why}"
        )


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A block of a query, with the settings that were in force at this block.

    ``after`` is the instant up to which earlier blocks emitted windows, epoch ms UTC. ``is_new``
    says that the query was new with this block.
    """

    sequence: int
    event: DataEvent
    after: int | None
    transform: JsonObject
    schema: str
    is_new: bool


def replay(
    job: Job, spec: QuerySpec, store: StateStore, options: RunOptions, *, first: int = 0
) -> Iterator[ReplayedBlock]:
    """Run the queries of all blocks from ``first`` on again; yield the outcome of each.

    Raises:
        ConfigError: rows were merged by key, so blocks do not hold the results of queries.
        ExecutionError: Spark failed.
    """
    if job.publishing.mode is PublishMode.MERGE:
        raise ConfigError.single(
            "--replay",
            "compares the result of a query with the published rows, but ms.publish.mode=merge "
            "merges the result with other rows",
            "Use `dil state verify --full`, which checks the published files.",
        )
    run_id = f"replay-{new_run_id(options.clock())}"
    executors = options.executors(job)
    staging = run_staging_dir(job.publishing, job.name, run_id)
    replayer = _Replayer(job, spec, options, run_id, staging, executors)
    try:
        with input_chains(spec, options.clock) as chains:
            for recorded in _recorded(store, first):
                yield replayer.replayed(recorded, chains)
    finally:
        with suppress(DilError):
            delete_staging(filesystem_for(job.publishing.final_dir), staging)
        executors.close()


def _recorded(store: StateStore, first: int) -> Iterator[_Recorded]:
    """Yield the blocks with queries, oldest first."""
    found: list[tuple[int, DataEvent]] = []
    settings: list[tuple[int, ConfigEvent]] = []
    for fields in store.blocks():
        block = read_block({name: value for name, value in fields.items() if name != "hash"})
        event = block.event
        if isinstance(event, DataEvent) and event.inputs is not None:
            found.append((block.sequence, event))
        elif isinstance(event, ConfigEvent):
            settings.append((block.sequence, event))
    transform: JsonObject = {}
    schema = ""
    settings.reverse()
    after: int | None = None
    for sequence, event in reversed(found):
        is_new = False
        while settings and settings[0][0] < sequence:
            _, config = settings.pop(0)
            if config.kind == "SetTransform":
                transform, is_new = config.body, True
            elif config.kind == "SetDataSchema":
                schema = str(config.body.get("schema") or "")
        if sequence >= first:
            yield _Recorded(sequence, event, after, transform, schema, is_new)
        if event.new_watermark is not None:
            query = str(transform.get("query") or "")
            ended = emitted_until(query, instant_of(event.new_watermark))
            after = ended if after is None else max(after, ended)


class _SkippedError(Exception):
    """Raised with the reason why a block cannot be replayed."""


@dataclass(slots=True)
class _Replayer:
    job: Job
    spec: QuerySpec
    options: RunOptions
    run_id: str
    staging: str
    executors: Executors
    _executor: QueryExecutor | None = None

    def replayed(self, recorded: _Recorded, chains: Mapping[str, StoredInput]) -> ReplayedBlock:
        """Replay one block."""
        try:
            views, spec = tuple(self._views(recorded, chains)), self._spec(recorded)
            was_run = any(view.tasks for view in views) and _was_run(recorded, spec, chains)
            if not was_run and recorded.event.new_data is None:
                return ReplayedBlock(recorded.sequence, ReplayOutcome.SAME)
            result = self._run(recorded, spec, views)
            return self._compared(recorded, result)
        except _SkippedError as reason:
            return ReplayedBlock(recorded.sequence, ReplayOutcome.SKIPPED, str(reason))
        except DilError as error:
            return ReplayedBlock(recorded.sequence, ReplayOutcome.FAILED, error.message)

    def _judging(self, recorded: _Recorded) -> EventContext | None:
        """Return the event-time judge of a block's rows, None if there is none."""
        judged, spec = recorded.event.judged, self.job.events
        if judged is None:
            return None
        if spec is None or (spec.column, spec.late_action) != (judged.column, judged.action):
            raise _SkippedError(
                f"its rows were judged by the event time in {judged.column}, but the job judges "
                "rows in another way now"
            )
        return EventContext(judged.watermark)

    def _views(self, recorded: _Recorded, chains: Mapping[str, StoredInput]) -> Iterator[View]:
        inputs = {each.dataset: each for each in self.spec.inputs}
        aliases: Any = recorded.transform.get("aliases") or ()
        for item, view in zip(recorded.event.inputs or (), map(str, aliases), strict=True):
            known, chain = inputs.get(item.dataset_id), chains.get(item.dataset_id)
            if known is None or chain is None:
                raise _SkippedError(f"{item.dataset_id} is no input of the job any more")
            found = InputRows()
            if item.last_block is not None:
                reading = _reading(recorded, item, chain)
                needs_op = reading.reads_whole and known.keeps_changelog
                found = replace(reading, needs_changelog=needs_op).rows()
            yield view_of(view, found, known.writing)

    def _run(self, recorded: _Recorded, spec: QuerySpec, views: tuple[View, ...]) -> QueryResult:
        run = RunContext(
            job=job_of_tasks(self.job),
            run_id=f"{self.run_id}-{recorded.sequence}",  # a failure cancels the jobs of this id
            run_now=self.options.now_ms,
            full_extract=mode_of(recorded.transform).reads_whole,
            staging_dir=f"{self.staging}/{recorded.sequence}",
            logging=self.options.task_logging,
            known_schema=recorded.schema,
            events=self._judging(recorded),
        )
        whole = Interval(0, max(self.options.now_ms, 1))
        name = f"replay.{recorded.sequence}"
        unit = WorkUnit(name, whole.low, whole.high, whole, "query", "{}", Reason.INCREMENTAL)
        query = Query(spec, views, unit, _closing(recorded))
        if spec.dedupe is not None and spec.mode is QueryMode.APPEND:
            before = recorded.sequence - 1
            near = partial(published_near, self.job, spec.dedupe, self.options.clock, until=before)
            query = replace(query, published=near)
        result = self._started().query(run, query, lambda _reports: None)
        for report in result.reports:
            if report.failure is not None:
                raise _SkippedError(f"its rows could not be written: {report.failure.error}")
        return result

    def _spec(self, recorded: _Recorded) -> QuerySpec:
        text = str(recorded.transform.get("query") or "")
        code = str(recorded.transform.get("code") or "")
        windows = self.spec.windows
        if mode_of(recorded.transform) is QueryMode.WINDOWED and (
            windows is None
            or (text, recorded.transform.get("column")) != (self.spec.text, windows.column)
        ):
            raise _SkippedError("the windows of the job have changed since")
        dedupe = recorded.transform.get("dedupe")
        found = replace(
            self.spec,
            mode=mode_of(recorded.transform),
            text=text,
            function=None,
            code=code,
            dedupe=DedupeSpec.of(dedupe) if isinstance(dedupe, dict) else None,
        )
        if not code:
            return found
        if code != self.spec.code:
            raise _SkippedError(f"the module of the function {text} has changed since")
        module, _, name = text.partition(":")
        return replace(found, text="", function=ClassRef(module, name))

    def _compared(self, recorded: _Recorded, result: QueryResult) -> ReplayedBlock:
        data, number = recorded.event.new_data, recorded.sequence
        files = [file for report in result.reports for file in report.files]
        rows, published = sum(file.rows for file in files), 0 if data is None else data.rows
        if rows != published:
            why = f"{rows:,} rows now, {published:,} then"
            return ReplayedBlock(number, ReplayOutcome.DIFFERS, why)
        if data is None or not rows:
            return ReplayedBlock(number, ReplayOutcome.SAME)
        dataset_files = DatasetFiles(self.job.publishing.final_dir, "", self.job.writing)
        schema = parse_schema(recorded.schema)
        if data.logical_hash is not None:
            paths = [file.path for file in files]
            if logical_hash(dataset_files, paths, schema) == data.logical_hash:
                return ReplayedBlock(number, ReplayOutcome.SAME)
        uri = dataset_files.filesystem.uri
        now = tuple((FileRows.whole(uri(file.path), file.rows),) for file in files)
        then = tuple((FileRows.whole(part.path, part.rows),) for part in data.parts or ())
        count = self._started().differing(
            View("now", schema, now, dataset_files), View("then", schema, then, dataset_files)
        )
        if count:
            return ReplayedBlock(
                number, ReplayOutcome.DIFFERS, f"{count:,} of {rows:,} rows differ"
            )
        return ReplayedBlock(number, ReplayOutcome.SAME_ROWS)

    def _started(self) -> QueryExecutor:
        if self._executor is None:
            self._executor = self.executors.for_query()
        return self._executor


def _was_run(recorded: _Recorded, spec: QuerySpec, chains: Mapping[str, StoredInput]) -> bool:
    """Return whether the block's query was run; in mode full, it runs if rows came or went.

    A new query is run over all rows; a query with windows is run if a window was closed.
    """
    if mode_of(recorded.transform) is QueryMode.APPEND:
        return True
    if mode_of(recorded.transform) is QueryMode.WINDOWED:
        closing = _closing(recorded)
        return closing is not None and spec.windows is not None and spec.windows.closes_any(closing)
    for item in recorded.event.inputs or ():
        if item.last_block is None:
            continue
        reading = _reading(recorded, item, chains[item.dataset_id])
        if recorded.is_new:
            reading = replace(reading, reached=START)
        if reading.has_changes():
            return True
    return False


def _closing(recorded: _Recorded) -> Closing | None:
    """Return the windows that a block emitted, None if it emitted none."""
    until = recorded.event.new_watermark
    if mode_of(recorded.transform) is not QueryMode.WINDOWED or until is None:
        return None
    return Closing(recorded.after, instant_of(until))


def _reading(recorded: _Recorded, item: InputSlice, chain: StoredInput) -> InputReading:
    """Return which part of an input the block's query read."""
    found = recorded_reading(chain, item, recorded.transform)
    if found is None:
        raise _SkippedError(f"the chain of {chain.dataset_id} no longer has the read block")
    return found
