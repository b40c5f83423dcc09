"""Where rows of a dataset come from: blocks, files, work units and requests, across jobs.

Only chains are read; files are read only to find a row by a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import pyarrow as pa

from dil.errors import ConfigError
from dil.model.derived import InputSlice
from dil.model.job import DatasetInput, Job, StateSpec, WritingSpec
from dil.model.json import JsonObject
from dil.model.work_unit import unit_hash
from dil.operator.traced_rows import (
    Key,
    TracedFile,
    holding,
    offsets_in,
    offsets_of,
    schema_of,
    taken_rows,
)
from dil.run.kept_report import kept_unit_runs
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.blocks.events import ConfigEvent, DataEvent
from dil.state.blocks.source_state import KIND, UnitSummary
from dil.state.chain.chain_rows import config_event_at, read_block_at
from dil.state.derived.dataset_chain import DatasetChain
from dil.state.derived.inputs import StoredInput
from dil.state.opening import open_snapshot

MOST_BLOCKS = 20
MOST_FILES = 20
_FILE = re.compile(r"-(?P<run>[^-/]+-[^-/]+)-(?P<unit>[0-9a-z]+)-\d+(?:\.\d+)?\.\w+\Z")
_OFFSET = re.compile(r"[0-9]+")

Clock = Callable[[], int]
LoadJob = Callable[[str], Job]


@dataclass(frozen=True, slots=True)
class TracedUnit:
    """A work unit that read rows; ``requests`` is None if the run's report was not kept."""

    signature: str
    run_id: str
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class TracedInput:
    """The rows of an input that a query took for a block.

    If ``is_narrowed`` is true, ``blocks`` are only the blocks that have the wanted value; else they
    are all blocks that the query read.
    """

    dataset: str
    slice: InputSlice
    is_narrowed: bool
    blocks: tuple[TracedBlock, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class TracedBlock:
    """A block that published rows: its files, and the work units or inputs of its rows."""

    dataset: str
    sequence: int
    system_time: str
    run_id: str
    files: tuple[TracedFile, ...]
    units: tuple[TracedUnit, ...] = ()
    inputs: tuple[TracedInput, ...] = ()


@dataclass(frozen=True, slots=True)
class _Dataset:
    """A dataset that the trace reaches: its chain, and its job if that is known."""

    name: str
    state: StateSpec
    writing: WritingSpec
    inputs: Mapping[str, DatasetInput]


@dataclass(frozen=True, slots=True)
class Tracer:
    """Walks from rows back to their origins.

    ``load`` loads the job file of an input, together with the inputs of that job.
    """

    job: Job
    clock: Clock
    load: LoadJob

    def row(self, text: str) -> tuple[TracedBlock, ...]:
        """Return the blocks that published the row at an offset, or rows with ``column=value``.

        Raises:
            ConfigError: the text names no row, or the dataset has no such row.
            StateError: a store or a file cannot be read.
        """
        own = _of_job(self.job)
        if _OFFSET.fullmatch(text):
            with _chain(own, self.clock) as chain:
                DatasetChain(chain).position_of_offset(int(text))
                return self._blocks(own, chain, holding(chain, [(int(text), int(text))]), None)
        column, is_named, value = text.partition("=")
        if not is_named:
            raise ConfigError.single(
                "--row", f'is "{text}"', "Write an offset, such as 17, or column=value."
            )
        key = Key(column.strip(), value.strip())
        with _chain(own, self.clock) as chain:
            dataset = DatasetChain(chain)
            known = schema_of(dataset)
            _refuse_nested(known, key)
            offsets = offsets_of(own.writing, known, dataset.parts_at(dataset.head), key)
            if offsets is None:
                raise ConfigError.single(
                    "--row",
                    f"names {key.column}, but {own.name} has no such column",
                    f"Its columns are {', '.join(known.names)}.",
                )
            if not offsets:
                raise ConfigError.single(
                    "--row",
                    f"{text}: the dataset has no such row",
                    "The search leaves out late rows in the side table and rows in quarantine.",
                )
            found = holding(chain, [(each, each) for each in offsets])
            return self._blocks(own, chain, found, key)

    def block(self, sequence: int | None) -> tuple[TracedBlock, ...]:
        """Return a block with its origins; the newest block with rows if ``sequence`` is None.

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
            if sequence > chain.sequence:
                raise ConfigError.single(
                    "--block",
                    f"{sequence}: the chain of {own.name} has no such block, the newest is"
                    f" {chain.sequence}",
                    "`dil state log` lists blocks.",
                )
            found = list(chain.blocks_with_data(sequence - 1, sequence))
            offsets = offsets_in(found[0]) if found else None
            if offsets is None:
                raise ConfigError.single(
                    "--block",
                    f"{sequence}: this block published no rows",
                    "`dil state log` lists blocks.",
                )
            return self._blocks(own, chain, holding(chain, [offsets]), None)

    def _blocks(
        self,
        dataset: _Dataset,
        chain: StoredInput,
        found: Mapping[int, Sequence[TracedFile]],
        key: Key | None,
    ) -> tuple[TracedBlock, ...]:
        """Return the blocks that ``found`` has the files of, by number, with their origins."""
        blocks: list[TracedBlock] = []
        for sequence in sorted(found)[:MOST_BLOCKS]:
            block = read_block_at(chain.tx, chain.dataset_id, sequence)
            event, files = block.event, tuple(found[sequence])
            assert isinstance(event, DataEvent)  # noqa: S101 - only they have files
            runs = [match["run"] for file in files if (match := _FILE.search(file.uri))]
            traced = TracedBlock(
                dataset.name, sequence, block.system_time, runs[0] if runs else "", files
            )
            if event.inputs is None:
                with open_store(dataset.state, dataset.name, clock=self.clock) as store:
                    blocks.append(replace(traced, units=tuple(_units(event, files, store))))
                continue
            # The query of the block, as recorded in the chain.
            number = chain.last_until(sequence, ("SetTransform",))
            recorded: ConfigEvent | None = config_event_at(chain.tx, chain.dataset_id, number)
            how = {} if recorded is None else recorded.body
            inputs = [self._input(dataset, item, key, how) for item in event.inputs]
            blocks.append(replace(traced, inputs=tuple(inputs)))
        return tuple(blocks)

    def _input(
        self, dataset: _Dataset, item: InputSlice, key: Key | None, how: JsonObject
    ) -> TracedInput:
        """Return the rows that a query took of one input, with their origins."""
        bare = TracedInput(item.dataset_id, item, is_narrowed=False, blocks=())
        known = dataset.inputs.get(item.dataset_id)
        if known is None:
            return bare
        if known.path:
            above = _of_job(self.load(known.path))
        else:  # its own inputs are unknown
            above = _Dataset(known.dataset, known.state, known.writing, {})
        with _chain(above, self.clock) as chain:
            taken = taken_rows(item, chain, how)
            if taken is None:
                return bare
            found, is_narrowed = taken.holding(), False
            if key is not None and (narrowed := taken.holding_value(above.writing, key)):
                found, is_narrowed = narrowed, True
            blocks = self._blocks(above, chain, found, key if is_narrowed else None)
        left_out = max(0, len(found) - len(blocks))
        return TracedInput(item.dataset_id, item, is_narrowed, blocks, left_out)


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


def _units(
    event: DataEvent, files: Sequence[TracedFile], store: StateStore
) -> Iterator[TracedUnit]:
    """Yield the work units whose rows are in files, with the number of their requests."""
    state = event.new_source_state
    if state is None or state.kind != KIND:
        return
    by_hash = {unit_hash(str(row["sig"])): str(row["sig"]) for row in UnitSummary.delta_of(state)}
    seen: set[tuple[str, str]] = set()
    requests: dict[str, dict[str, int]] = {}
    for match in filter(None, (_FILE.search(file.uri) for file in files)):
        run_id, unit = match["run"], match["unit"]
        # A file that several work units share has no work unit in its name.
        for signature in [by_hash[unit]] if unit in by_hash else by_hash.values():
            if (run_id, signature) in seen:
                continue
            seen.add((run_id, signature))
            if run_id not in requests:
                kept = kept_unit_runs(store, run_id).units
                requests[run_id] = {each.signature: each.requests for each in kept}
            yield TracedUnit(signature, run_id, requests[run_id].get(signature))


def _refuse_nested(known: pa.Schema, key: Key) -> None:
    """Refuse to search rows by a column whose values cannot be written as text.

    Raises:
        ConfigError: the column holds records, lists or maps.
    """
    if key.column in known.names and pa.types.is_nested(known.field(key.column).type):
        plain = [field.name for field in known if not pa.types.is_nested(field.type)]
        raise ConfigError.single(
            "--row",
            f"names {key.column}, a column of {known.field(key.column).type}: rows can only be "
            "searched by plain values",
            f"Name one of {', '.join(plain)}, or an offset.",
        )


def trace_json(block: TracedBlock) -> dict[str, object]:
    """Return a block and its origins as JSON."""
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
    """Yield lines for people about a block and its origins."""
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
        how = "rows with that value" if each.is_narrowed else "rows that the query read"
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
    if file.first == file.last:
        return f"{path.name}, offset {file.first:,}"
    return f"{path.name}, offsets {file.first:,} to {file.last:,}"
