"""Where rows of a dataset come from: blocks, files, work units and requests, across jobs.

Chains are read, and files only where a row is looked for by a value of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dil.errors import ConfigError
from dil.model.derived import InputSlice
from dil.model.job import DatasetInput, Job, QueryMode, StateSpec, WritingSpec
from dil.model.json import JsonObject
from dil.model.schema_text import parse_schema
from dil.model.work_unit import unit_hash
from dil.reshaping.dataset_rows import DatasetReading, WantedRows
from dil.reshaping.files import Workshop
from dil.run.kept_report import kept_unit_runs
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.blocks.block import Block
from dil.state.blocks.events import ConfigEvent, DataEvent, Event, SideFile
from dil.state.blocks.source_state import KIND, UnitSummary
from dil.state.chain.chain_rows import config_event_at, read_block_at
from dil.state.derived.dataset_rows import NONE_YET, DatasetChain, PartRows
from dil.state.derived.input_rows import Stretch, one_after_the_other, place_of
from dil.state.derived.inputs import StoredInput
from dil.state.opening import open_snapshot

MOST_BLOCKS = 20
MOST_FILES = 20
_MOST_ROWS = 10
_FILE = re.compile(r"-(?P<run>[^-/]+-[^-/]+)-(?P<unit>[0-9a-z]+)-\d+(?:\.\d+)?\.\w+\Z")
_OFFSET = re.compile(r"[0-9]+")

Clock = Callable[[], int]
LoadJob = Callable[[str], Job]


@dataclass(frozen=True, slots=True)
class TracedFile:
    """Rows of one file: those with offsets ``first`` to ``last``.

    Both are None for a file beside the dataset, whose rows have no offsets.
    """

    uri: str
    first: int | None
    last: int | None


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
                DatasetChain(chain).reaching(int(text))
                return self._blocks(own, chain, [(int(text), int(text))], None)
        column, is_named, value = text.partition("=")
        if not is_named:
            raise ConfigError.single(
                "--row", f'is "{text}"', "Write an offset, such as 17, or column=value."
            )
        key = _Key(column.strip(), value.strip())
        with _chain(own, self.clock) as chain:
            dataset = DatasetChain(chain)
            known = _schema_of(dataset)
            _refuse_nested(known, key)
            offsets = _offsets_of(own, known, dataset.parts_at(dataset.head), key)
            if offsets is None:
                raise ConfigError.single(
                    "--row",
                    f"names {key.column}, which is no column of {own.name}",
                    f"Its columns are {', '.join(known.names)}.",
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
                sequence = dataset.reaching(last).block
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
        return self._traced_blocks(dataset, chain, _holding(chain, wanted), key)

    def _traced_blocks(
        self,
        dataset: _Dataset,
        chain: StoredInput,
        found: Mapping[int, Sequence[TracedFile]],
        key: _Key | None,
    ) -> tuple[TracedBlock, ...]:
        return tuple(
            self._traced(dataset, chain, number, found[number], key)
            for number in sorted(found)[:MOST_BLOCKS]
        )

    def _traced(
        self,
        dataset: _Dataset,
        chain: StoredInput,
        sequence: int,
        found: Sequence[TracedFile],
        key: _Key | None,
    ) -> TracedBlock:
        block, files = read_block_at(chain.tx, chain.dataset_id, sequence), tuple(found)
        event = block.event
        assert isinstance(event, DataEvent)  # noqa: S101 - only they have files
        runs = [match["run"] for file in files if (match := _FILE.search(file.uri))]
        traced = TracedBlock(
            dataset.name, sequence, block.system_time, runs[0] if runs else "", files
        )
        if event.inputs is None:
            with open_store(dataset.state, dataset.name, clock=self.clock) as store:
                return replace(traced, units=tuple(_units(event, files, store)))
        how = _transform_at(chain, sequence)
        inputs = (self._input(dataset, item, key, how) for item in event.inputs)
        return replace(traced, inputs=tuple(inputs))

    def _input(
        self, dataset: _Dataset, item: InputSlice, key: _Key | None, how: JsonObject
    ) -> TracedInput:
        """Return what a query took of one input, and where that comes from."""
        bare = TracedInput(item.dataset_id, item, is_narrowed=False, blocks=())
        known = dataset.inputs.get(item.dataset_id)
        if known is None:
            return bare
        above = self._dataset(known)
        with _chain(above, self.clock) as chain:
            taken = _taken(item, chain, how)
            if taken is None:
                return bare
            found, is_narrowed = taken.holding(), False
            if key is not None and (narrowed := taken.holding_value(above, key)):
                found, is_narrowed = narrowed, True
            blocks = self._traced_blocks(above, chain, found, key if is_narrowed else None)
        left_out = max(0, len(found) - len(blocks))
        return TracedInput(item.dataset_id, item, is_narrowed, blocks, left_out)

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


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a query took of an input: rows of the dataset, and files beside it with their blocks.

    ``after`` and ``last`` bound the offsets of the rows, ``last`` is None for none.
    """

    chain: StoredInput
    item: InputSlice
    after: int
    last: int | None
    beside: Sequence[tuple[int, SideFile]]
    schema_beside: str

    def holding(self) -> dict[int, Sequence[TracedFile]]:
        """Return the blocks that published what was taken, with their files."""
        rows = [] if self.last is None else [(self.after + 1, self.last)]
        return self._files(rows, self.beside)

    def holding_value(self, above: _Dataset, key: _Key) -> dict[int, Sequence[TracedFile]]:
        """Return the blocks that published rows of it with a value, none where there are none."""
        offsets: list[int] = []
        if self.last is not None:
            dataset = DatasetChain(self.chain)
            rows = _rows_between(self.chain, self.item, self.after, self.last)
            offsets = _offsets_of(above, _schema_of(dataset), rows, key) or []
        parts = one_after_the_other(file for _, file in self.beside)
        places = _offsets_of(above, parse_schema(self.schema_beside), parts, key) or []
        ends = [part.offset + part.count for part in parts]
        found = sorted({bisect_right(ends, place) for place in places})
        wanted = [(each, each) for each in offsets]
        return self._files(wanted, [self.beside[number] for number in found])

    def _files(
        self, rows: Sequence[tuple[int, int]], beside: Sequence[tuple[int, SideFile]]
    ) -> dict[int, Sequence[TracedFile]]:
        found = {number: [*files] for number, files in _holding(self.chain, rows).items()}
        for number, file in beside:
            found.setdefault(number, []).append(TracedFile(file.path, None, None))
        return dict(found)


def _taken(item: InputSlice, chain: StoredInput, how: JsonObject) -> _Taken | None:
    """Return what a query took of an input, None where the chain does not tell any more."""
    is_full = QueryMode(str(how.get("mode") or QueryMode.APPEND)).reads_whole
    reached = place_of(chain, item.prev_block_hash, item.prev_offset)
    last = None if item.last_block is None else chain.sequence_of(item.last_block)
    if reached is None or last is None:
        return None
    late: Any = how.get("late") or ()
    reads_late = item.dataset_id in late
    stretch = Stretch(chain, reached, last, is_full, reads_late)
    changed = None if is_full else stretch.changed_files()
    beside = [*(changed or ()), *(stretch.late_files() if reads_late else ())]
    offset = item.last_offset if is_full else item.new_offset
    return _Taken(
        chain,
        item,
        NONE_YET if is_full or item.prev_offset is None else item.prev_offset,
        offset if changed is None else None,
        beside,
        stretch.schema_beside(),
    )


def _holding(
    chain: StoredInput, wanted: Sequence[tuple[int, int]]
) -> dict[int, Sequence[TracedFile]]:
    """Return the blocks that published rows of these offsets, by number, with their files."""
    dataset = DatasetChain(chain)
    found: dict[int, Sequence[TracedFile]] = {}
    for first, last in wanted:
        begin, end = dataset.reaching(first).block, dataset.reaching(last).block
        for block in chain.blocks_with_data(begin - 1, end):
            if block.sequence not in found and _offsets(block) is not None:
                found[block.sequence] = tuple(_files(block.event, wanted))
    return found


def _files(event: Event, wanted: Sequence[tuple[int, int]]) -> Iterator[TracedFile]:
    """Yield the files of a block that have rows of these offsets, once for each run of them."""
    new_data = event.new_data if isinstance(event, DataEvent) else None
    for part in (new_data.parts or ()) if new_data else ():
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


def _transform_at(chain: StoredInput, sequence: int) -> JsonObject:
    """Return the query of a block, as the chain has it."""
    number = chain.last_until(sequence, ("SetTransform",))
    event: ConfigEvent | None = config_event_at(chain.tx, chain.dataset_id, number)
    return {} if event is None else event.body


def _rows_between(
    chain: StoredInput, item: InputSlice, after: int, last: int
) -> tuple[PartRows, ...]:
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
    dataset: _Dataset, known: pa.Schema, parts: Sequence[PartRows], key: _Key
) -> list[int] | None:
    """Return the offsets of the first rows with a value, None where there is no such column."""
    if key.column not in known.names:
        return None
    target = pa.schema([known.field(key.column)])
    found: list[int] = []
    for part in parts:
        reading = DatasetReading(Workshop(part.uri, "", dataset.writing), known, target)
        at = part.offset
        for batch in reading.rows(WantedRows(part.uri, part.rows, part.first, part.count)):
            found += (at + place for place in _matches(batch.column(0), key.text))
            at += batch.num_rows
            if len(found) >= _MOST_ROWS:
                return found[:_MOST_ROWS]
    return found


def _refuse_nested(known: pa.Schema, key: _Key) -> None:
    """Refuse to look for rows by a column whose values no text names.

    Raises:
        ConfigError: it holds records, lists or maps.
    """
    if key.column in known.names and pa.types.is_nested(known.field(key.column).type):
        plain = [field.name for field in known if not pa.types.is_nested(field.type)]
        raise ConfigError.single(
            "--row",
            f"names {key.column}, a column of {known.field(key.column).type}: rows are looked for"
            " by plain values",
            f"Name one of {', '.join(plain)}, or an offset.",
        )


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
            {
                "uri": file.uri,
                "offsets": None if file.first is None else {"first": file.first, "last": file.last},
            }
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
        yield f"{pad}  file {_shown(file)}"
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


def _shown(file: TracedFile) -> str:
    path = PurePosixPath(file.uri)
    if file.first is None:
        return f"{path.name}, in {path.parent.name}"
    span = f"{file.first:,}" if file.first == file.last else f"{file.first:,} to {file.last:,}"
    return f"{path.name}, offsets {span}"
