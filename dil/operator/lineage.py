"""Where rows of a dataset come from: blocks, files, work units and requests, across jobs.

Chains are read, and files only where a row is looked for by a value of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConfigError
from dil.model.derived import InputSlice
from dil.model.file_rows import FileRows
from dil.model.job import DatasetInput, Job, QueryMode, StateSpec, WritingSpec
from dil.model.work_unit import unit_hash
from dil.reshaping.dataset_reading import DatasetReading
from dil.reshaping.files import DatasetFiles
from dil.run.kept_report import kept_unit_runs
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.blocks.block import Block
from dil.state.blocks.events import ConfigEvent, DataEvent
from dil.state.blocks.source_state import KIND, UnitSummary
from dil.state.chain.chain_rows import config_event_at
from dil.state.derived.dataset_chain import DatasetChain
from dil.state.derived.inputs import StoredInput
from dil.state.opening import open_snapshot
from dil.types.schema_text import parse_schema

MOST_BLOCKS = 20
MOST_FILES = 20
_MOST_ROWS = 10
_FILE = re.compile(r"-(?P<run>[^-/]+-[^-/]+)-(?P<unit>[0-9a-z]+)-\d+(?:\.\d+)?\.\w+\Z")
_OFFSET = re.compile(r"[0-9]+")

Clock = Callable[[], int]
LoadJob = Callable[[str], Job]


@dataclass(frozen=True, slots=True)
class TracedFile:
    """Rows of one file: those with offsets ``first`` to ``last``."""

    uri: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class TracedUnit:
    """A work unit that read rows; ``requests`` is None where the run's report is not kept."""

    signature: str
    run_id: str
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class TracedInput:
    """What a query took of an input for a block: offsets ``(after, last]``, None for none.

    ``is_narrowed`` says that ``blocks`` are only those with the value that was looked for; else
    they are of all rows that the query had.
    """

    dataset: str
    slice: InputSlice
    is_narrowed: bool
    blocks: tuple[TracedBlock, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class TracedBlock:
    """A block that published rows: its files, and what they were made of."""

    dataset: str
    sequence: int
    system_time: str
    run_id: str
    files: tuple[TracedFile, ...]
    units: tuple[TracedUnit, ...] = ()
    inputs: tuple[TracedInput, ...] = ()


@dataclass(frozen=True, slots=True)
class _Dataset:
    """A dataset on the way: its chain, and what is known of its job."""

    name: str
    state: StateSpec
    writing: WritingSpec
    inputs: Mapping[str, DatasetInput]


@dataclass(frozen=True, slots=True)
class _Key:
    """A value of a column that rows are looked for by, as text."""

    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Tracer:
    """Walks from rows back to what they were made of.

    ``load`` loads the job file of an input with its own inputs.
    """

    job: Job
    clock: Clock
    load: LoadJob

    def row(self, text: str) -> tuple[TracedBlock, ...]:
        """Return where a row comes from: one of an offset, or those of ``column=value``.

        Raises:
            ConfigError: the text names no row, or the dataset has none such.
            StateError: a store or a file cannot be read.
        """
        own = _of_job(self.job)
        if _OFFSET.fullmatch(text):
            with _chain(own, self.clock) as chain:
                DatasetChain(chain).position_of_offset(int(text))
                return self._blocks(own, chain, [(int(text), int(text))], None)
        column, is_named, value = text.partition("=")
        if not is_named:
            raise ConfigError.single(
                "--row", f'is "{text}"', "Write an offset, such as 17, or column=value."
            )
        key = _Key(column.strip(), value.strip())
        with _chain(own, self.clock) as chain:
            dataset = DatasetChain(chain)
            offsets = _offsets_of(own, dataset, dataset.parts_at(dataset.head), key)
            if offsets is None:
                raise ConfigError.single(
                    "--row",
                    f"names {key.column}, which is no column of {own.name}",
                    f"Its columns are {', '.join(_schema_of(dataset).names)}.",
                )
            if not offsets:
                raise ConfigError.single(
                    "--row",
                    f"{text}: the dataset has no such row",
                    "Rows that a run put beside the dataset, in its table of late rows or in"
                    " quarantine, are not looked through.",
                )
            return self._blocks(own, chain, [(each, each) for each in offsets], key)

    def block(self, sequence: int | None) -> tuple[TracedBlock, ...]:
        """Return what a block was made of, the newest one with rows if none is named.

        Raises:
            ConfigError: there is no such block.
            StateError: a store cannot be read.
        """
        own = _of_job(self.job)
        with _chain(own, self.clock) as chain:
            if sequence is None:
                dataset = DatasetChain(chain)
                last = max(dataset.head.offset, 0)
                sequence = dataset.position_of_offset(last).block
            found = list(chain.blocks_with_data(sequence - 1, sequence))
            offsets = _offsets(found[0]) if found else None
            if offsets is None:
                raise ConfigError.single(
                    "--block", f"{sequence}: no rows came with it", "`dil state log` lists blocks."
                )
            return self._blocks(own, chain, [offsets], None)

    def _blocks(
        self,
        dataset: _Dataset,
        chain: StoredInput,
        wanted: Sequence[tuple[int, int]],
        key: _Key | None,
    ) -> tuple[TracedBlock, ...]:
        """Return the blocks that published rows of some offsets, both ends taken, oldest first."""
        found = _holding(chain, wanted)
        return tuple(
            self._traced(dataset, chain, found[number], wanted, key)
            for number in sorted(found)[:MOST_BLOCKS]
        )

    def _traced(
        self,
        dataset: _Dataset,
        chain: StoredInput,
        block: Block,
        wanted: Sequence[tuple[int, int]],
        key: _Key | None,
    ) -> TracedBlock:
        event = block.event
        assert isinstance(event, DataEvent)  # noqa: S101 - _holding gives no others
        files = tuple(_files(event, wanted))
        runs = [match["run"] for file in files if (match := _FILE.search(file.uri))]
        traced = TracedBlock(
            dataset.name, block.sequence, block.system_time, runs[0] if runs else "", files
        )
        if event.inputs is None:
            with open_store(dataset.state, dataset.name, clock=self.clock) as store:
                return replace(traced, units=tuple(_units(event, files, store)))
        is_full = _is_full(chain, block.sequence)
        inputs = (self._input(dataset, item, key, is_full=is_full) for item in event.inputs)
        return replace(traced, inputs=tuple(inputs))

    def _input(
        self, dataset: _Dataset, item: InputSlice, key: _Key | None, *, is_full: bool
    ) -> TracedInput:
        """Return what a query took of one input, and where that comes from."""
        bare = TracedInput(item.dataset_id, item, is_narrowed=False, blocks=())
        known = dataset.inputs.get(item.dataset_id)
        last = item.last_offset if is_full else item.new_offset
        if known is None or last is None:
            return bare
        after = -1 if is_full or item.prev_offset is None else item.prev_offset
        above = self._dataset(known)
        with _chain(above, self.clock) as chain:
            wanted = [(after + 1, last)]
            is_narrowed = False
            if key is not None:
                rows = _rows_between(chain, item, after, last)
                offsets = _offsets_of(above, DatasetChain(chain), rows, key)
                if offsets:
                    wanted, is_narrowed = [(each, each) for each in offsets], True
            held = len(_holding(chain, wanted))
            blocks = self._blocks(above, chain, wanted, key if is_narrowed else None)
        return TracedInput(item.dataset_id, item, is_narrowed, blocks, max(0, held - len(blocks)))

    def _dataset(self, item: DatasetInput) -> _Dataset:
        """Return an input with its own inputs, where its job file is known."""
        if not item.path:
            return _Dataset(item.dataset, item.state, item.writing, {})
        return _of_job(self.load(item.path))


def _of_job(job: Job) -> _Dataset:
    inputs = () if job.query is None else job.query.inputs
    return _Dataset(job.name, job.state, job.writing, {each.dataset: each for each in inputs})


@contextmanager
def _chain(dataset: _Dataset, clock: Clock) -> Iterator[StoredInput]:
    """Open the chain of a dataset.

    Raises:
        StateError: there is none.
    """
    with open_snapshot(dataset.state, dataset.name, clock=clock) as tx:
        yield DatasetChain.of(tx, dataset.name).chain


def _offsets(block: Block) -> tuple[int, int] | None:
    """Return the first and the last offset of a block's rows, None without any."""
    event = block.event
    data = event.new_data if isinstance(event, DataEvent) else None
    if data is None or data.start is None or data.end is None:
        return None
    return data.start, data.end


def _holding(chain: StoredInput, wanted: Sequence[tuple[int, int]]) -> dict[int, Block]:
    """Return the blocks that published rows of these offsets, by number."""
    dataset = DatasetChain(chain)
    found: dict[int, Block] = {}
    for first, last in wanted:
        begin, end = dataset.position_of_offset(first).block, dataset.position_of_offset(last).block
        for block in chain.blocks_with_data(begin - 1, end):
            if _offsets(block) is not None:
                found[block.sequence] = block
    return found


def _files(event: DataEvent, wanted: Sequence[tuple[int, int]]) -> Iterator[TracedFile]:
    """Yield the files of a block that have rows of these offsets, once for each run of them."""
    for part in (event.new_data.parts or ()) if event.new_data else ():
        if part.start is None or part.end is None:
            continue
        held = [
            (max(first, part.start), min(last, part.end))
            for first, last in wanted
            if first <= part.end and last >= part.start
        ]
        for first, last in _runs(held) if part.rows else ():
            yield TracedFile(part.path, first, last)


def _runs(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, those that touch as one."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
        else:
            runs.append((first, last))
    return runs


def _units(
    event: DataEvent, files: Sequence[TracedFile], store: StateStore
) -> Iterator[TracedUnit]:
    """Yield the work units whose rows files hold, with the requests that they took."""
    state = event.new_source_state
    if state is None or state.kind != KIND:
        return
    by_hash = {unit_hash(str(row["sig"])): str(row["sig"]) for row in UnitSummary.delta_of(state)}
    seen: set[tuple[str, str]] = set()
    requests: dict[str, dict[str, int]] = {}
    for match in filter(None, (_FILE.search(file.uri) for file in files)):
        run_id, unit = match["run"], match["unit"]
        # A file that several work units share names none of them.
        for signature in [by_hash[unit]] if unit in by_hash else by_hash.values():
            if (run_id, signature) in seen:
                continue
            seen.add((run_id, signature))
            if run_id not in requests:
                kept = kept_unit_runs(store, run_id).units
                requests[run_id] = {each.signature: each.requests for each in kept}
            yield TracedUnit(signature, run_id, requests[run_id].get(signature))


def _is_full(chain: StoredInput, sequence: int) -> bool:
    """Return whether the query of a block read whole inputs."""
    number = chain.last_until(sequence, ("SetTransform",))
    event: ConfigEvent | None = config_event_at(chain.tx, chain.dataset_id, number)
    mode = QueryMode(str(event.body.get("mode") or QueryMode.APPEND)) if event else None
    return mode is not None and mode.reads_whole


def _rows_between(
    chain: StoredInput, item: InputSlice, after: int, last: int
) -> tuple[FileRows, ...]:
    """Return rows ``(after, last]`` as they were when a query took them."""
    sequence = None if item.last_block is None else chain.sequence_of(item.last_block)
    if sequence is None:
        return ()
    dataset = DatasetChain(chain)
    end = dataset.at(sequence)._replace(offset=last)
    return dataset.parts_at(end, after)


def _schema_of(chain: DatasetChain) -> pa.Schema:
    return parse_schema(chain.schema_at(chain.chain.sequence))


def _offsets_of(
    dataset: _Dataset, chain: DatasetChain, parts: Sequence[FileRows], key: _Key
) -> list[int] | None:
    """Return the offsets of the first rows with a value, None where there is no such column."""
    known = _schema_of(chain)
    if key.column not in known.names:
        return None
    target = pa.schema([known.field(key.column)])
    found: list[int] = []
    for part in parts:
        reading = DatasetReading(DatasetFiles(part.uri, "", dataset.writing), known, target)
        at = part.offset
        for batch in reading.rows(part):
            found += (at + place for place in _matches(batch.column(0), key.text))
            at += batch.num_rows
            if len(found) >= _MOST_ROWS:
                return found[:_MOST_ROWS]
    return found


def _matches(values: pa.Array, text: str) -> list[int]:
    try:
        wanted = pa.scalar(text).cast(values.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return []
    return list(pc.indices_nonzero(pc.fill_null(pc.equal(values, wanted), False)).to_pylist())  # noqa: FBT003


def trace_json(block: TracedBlock) -> dict[str, object]:
    """Return a block, and what it was made of, as JSON."""
    return {
        "dataset": block.dataset,
        "block": block.sequence,
        "time": block.system_time,
        "run_id": block.run_id or None,
        "files": [
            {"uri": file.uri, "offsets": {"first": file.first, "last": file.last}}
            for file in block.files
        ],
        "work_units": [
            {"signature": unit.signature, "run_id": unit.run_id, "requests": unit.requests}
            for unit in block.units
        ],
        "inputs": [
            {
                "dataset": each.dataset,
                "offsets": {"after": each.slice.prev_offset, "last": each.slice.last_offset},
                "rows": each.slice.rows,
                "narrowed": each.is_narrowed,
                "blocks": [trace_json(above) for above in each.blocks],
                "more_blocks": each.left_out,
            }
            for each in block.inputs
        ],
    }


def trace_lines(block: TracedBlock, depth: int = 0) -> Iterator[str]:
    """Yield a block, and what it was made of, for people."""
    pad = "  " * depth
    run = f", run {block.run_id}" if block.run_id else ""
    yield f"{pad}{block.dataset}  block {block.sequence} of {block.system_time[:19]}Z{run}"
    for file in block.files[:MOST_FILES]:
        span = f"{file.first:,}" if file.first == file.last else f"{file.first:,} to {file.last:,}"
        yield f"{pad}  file {PurePosixPath(file.uri).name}, offsets {span}"
    if len(block.files) > MOST_FILES:
        yield f"{pad}  and {len(block.files) - MOST_FILES:,} files more"
    for unit in block.units:
        count = "" if unit.requests is None else f", requests {unit.requests:,}"
        yield f"{pad}  work unit {unit.signature}{count}"
    for each in block.inputs:
        how = "rows with that value" if each.is_narrowed else "rows that the query had"
        yield f"{pad}  from {each.dataset}, {how}:"
        if not each.blocks:
            yield f"{pad}    none"
        for above in each.blocks:
            yield from trace_lines(above, depth + 2)
        if each.left_out:
            yield f"{pad}    and {each.left_out:,} blocks more"
