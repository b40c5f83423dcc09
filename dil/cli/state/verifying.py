"""``dil state verify``: rechecks the state of a job, and its published files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_json
from dil.errors import ConfigError, DilError, WriteError
from dil.model.destination import TableFormat
from dil.model.json import JsonObject
from dil.observe.logs import one_line
from dil.publishing.layout import META, dataset_dir
from dil.publishing.lost_state import newer_dataset, not_loaded, set_back_files
from dil.publishing.manifest import live_files
from dil.publishing.owner import owning_jobs
from dil.publishing.shared_files import misfit
from dil.run.exit_codes import FAILED
from dil.run.process import real_clock
from dil.state.blocks.verification import ChainReport, verify_chain
from dil.state.chain.recorded_files import live_parts
from dil.storage import filesystem_for

_PIECE = 1 << 20

if TYPE_CHECKING:
    from dil.model.dataset import PublishedFile
    from dil.model.job import Job
    from dil.operator.replaying import ReplayedBlock
    from dil.spi.state_store import StateStore
    from dil.state.blocks.input_validation import InputChain


@click.command()
@job_command()
@click.option(
    "--full", is_flag=True, help="Also read the published files, and compare their SHA-256."
)
@click.option(
    "--replay",
    "is_replayed",
    is_flag=True,
    help="For a derived dataset: run its queries again on the recorded slices, and compare the "
    "rows.",
)
@click.option(
    "--from",
    "first",
    metavar="BLOCK",
    type=click.IntRange(min=0),
    default=None,
    help="With --replay: begin at this block.",
)
def verify(call: JobCall, *, full: bool, is_replayed: bool, first: int | None) -> int:
    """Recheck the chain, the work units and the published files; the exit code is 1 if not sound.

    The command compares the sizes of files, and with --full their content. The chain must know all
    files that the dataset's manifest lists. For a file of several work units, the manifest must say
    which work unit each row belongs to.
    """
    if first is not None and not is_replayed:
        raise ConfigError.single("--from", "is given without --replay", "Add --replay.")
    with opened(call) as (job, store), _inputs(job) as chains:
        store.lease_holder()  # a store that cannot be asked is an error, and no sign of damage
        # Rows that were loaded into a database are in no file whose size could be compared.
        dataset = _Dataset(job, store)
        report = verify_chain(
            store,
            size_of=dataset.size_of,
            hash_of=dataset.hash_of if full else None,
            listed=dataset.listed,
            is_of_files=job.publishing.keeps_files,
            chains=chains,
        )
        problems = (
            *dataset.newer_state(),
            *dataset.lost_loads(),
            *dataset.set_back(),
            *dataset.unlisted(),
            *dataset.misfits(),
            *_lost_inputs(job, chains, report),
        )
        replayed = _replayed(call, job, store, first) if is_replayed else ()
        wrong = (each.problem for each in replayed if each.problem)
        report = replace(report, problems=(*problems, *report.problems, *wrong))
    if call.as_json:
        blocks = [
            {"block": each.sequence, "outcome": each.outcome.name.lower(), "why": each.why}
            for each in replayed
        ]
        emit_json(
            {
                **({"replayed": blocks} if is_replayed else {}),
                "job": job.name,
                "sound": report.is_sound,
                "blocks": report.blocks,
                "files": report.files,
                "problems": list(report.problems),
            }
        )
    else:
        _verify_text(job, report)
        for each in replayed:
            why = f": {each.why}" if each.why else ""
            emit(f"  block {each.sequence}  {each.outcome.value}{why}\n")
    return 0 if report.is_sound else FAILED


def _replayed(
    call: JobCall, job: Job, store: StateStore, first: int | None
) -> tuple[ReplayedBlock, ...]:
    """Run the queries of a derived dataset again.

    Raises:
        ConfigError: the job reads a source, or merges rows.
    """
    from dil.cli.run import run_options
    from dil.operator.replaying import replay

    if job.query is None:
        raise ConfigError.single(
            "--replay",
            "is for derived datasets, and this job reads a source",
            "Leave it out: --full compares the published files.",
        )
    options = run_options(call, call.invocation.now(None))
    return tuple(replay(job, job.query, store, options, first=first or 0))


@contextlib.contextmanager
def _inputs(job: Job) -> Iterator[Mapping[str, InputChain]]:
    """Open the chains of a derived dataset's inputs; a job that reads a source has none."""
    if job.query is None:
        yield {}
        return
    from dil.run.queries.slices import input_chains

    with input_chains(job.query, real_clock) as chains:
        yield chains


def _lost_inputs(job: Job, chains: Mapping[str, InputChain], report: ChainReport) -> Iterator[str]:
    """Yield the inputs of a derived dataset whose chain is gone."""
    for each in () if job.query is None or not report.blocks else job.query.inputs:
        if each.dataset not in chains:
            yield (
                f"V39: input {each.dataset} has no chain in its state store: rows that were read "
                "from it cannot be checked"
            )


class _Dataset:
    """The published rows of a job as they are now: its files, or its table in a warehouse."""

    def __init__(self, job: Job, store: StateStore) -> None:
        self._job, self._store = job, store
        self._filesystem = filesystem_for(job.publishing.final_dir)
        self._folder = dataset_dir(job.publishing)
        self._sizes: dict[str, dict[str, int]] = {}

    def size_of(self, uri: str) -> int | None:
        """Return a file's size, None if the file is gone; a reading lists each folder once."""
        try:
            path = self._filesystem.path_of(uri)
        except WriteError:  # in another store, to which the job published before
            return None
        folder = path.rpartition("/")[0]
        if folder not in self._sizes:
            found = self._filesystem.files(folder)
            self._sizes[folder] = {info.path: info.size for info in found}
        return self._sizes[folder].get(path)

    def hash_of(self, uri: str) -> str | None:
        """Read a file and return its SHA-256, None if the file is gone."""
        digest = hashlib.sha256()
        try:
            with self._filesystem.open_input(self._filesystem.path_of(uri)) as stream:
                while piece := stream.read(_PIECE):
                    digest.update(piece)
        except FileNotFoundError:
            return None
        return digest.hexdigest()

    def listed(self) -> Mapping[str, PublishedFile] | None:
        """Begin a reading: return the live files by URI; None if the manifest is not compared.

        It is compared if the rows are in files, and no other job publishes there.
        """
        self._sizes.clear()
        if not (self._job.publishing.keeps_files and self._job.state.enabled):
            return None
        owners = owning_jobs(self._filesystem, self._folder)
        live = live_files(self._filesystem, self._folder)
        # A dataset whose ``_dil`` was deleted has neither owners nor listed files.
        if owners != {self._job.name} and (owners or live):
            return None
        return {file.uri: file for file in live}

    def newer_state(self) -> Iterator[str]:
        """Yield a problem if a newer state has published to the dataset."""
        job = self._job
        try:
            problem = newer_dataset(job.name, self._store, job.publishing, self._filesystem)
        except DilError as error:
            problem = f"the dataset cannot be checked: {error.message}"
        if problem:
            yield problem

    def lost_loads(self) -> Iterator[str]:
        """Yield a problem if the table of a warehouse lacks loads that the chain has."""
        spec, store = self._job.publishing, self._store
        if spec.warehouse is None:
            return
        head = store.head()
        parts = live_parts(store)
        try:
            lost = not_loaded(parts, spec, self._filesystem)
        except DilError:  # ``newer_state`` says that the database cannot be asked
            return
        if lost and self._is_unchanged(head):
            rows = sum(parts[uri].rows for uri in lost)
            yield (
                f"V20: the table lacks {rows:,} rows that were loaded from {len(lost):,} files, so "
                "the table was dropped, or the database is an older copy; the first file is "
                f"{lost[0]}"
            )

    def set_back(self) -> Iterator[str]:
        """Yield a problem if another program set a Delta or Iceberg table back."""
        job, store = self._job, self._store
        if not job.publishing.keeps_files or job.publishing.table.format is TableFormat.FILES:
            return
        head = store.head()
        parts = live_parts(store)
        try:
            lost = set_back_files(job.name, parts, job.publishing, self._filesystem)
            if lost:  # If only a compaction was undone, the table has the files from before it.
                parts = live_parts(store, are_compacted=False)
                lost = set_back_files(job.name, parts, job.publishing, self._filesystem)
        except DilError as error:
            yield f"the table cannot be checked: {error.message}"
            return
        if lost and self._is_unchanged(head):
            rows = sum(parts[uri].rows for uri in lost)
            yield (
                f"V20: the table lacks {rows:,} rows of {len(lost):,} published files, so it was "
                f"set back to an earlier version, or dropped; the first file is {lost[0]}"
            )

    def unlisted(self) -> Iterator[str]:
        """Yield a problem if files of the chain are there, and the manifest does not list them.

        A table has a log of its own, which other programs may change.
        """
        if self._job.publishing.table.format is not TableFormat.FILES:
            return
        head = self._store.head()
        known = self.listed()
        if known is None:
            return
        folder = f"{self._filesystem.uri(self._folder)}/"
        left_out = sorted(
            uri
            for uri in live_parts(self._store)
            if uri not in known and uri.startswith(folder) and self.size_of(uri) is not None
        )
        if left_out and self._is_unchanged(head):
            yield (
                f"the dataset's manifest does not list {len(left_out):,} files that the chain has, "
                f"for example {left_out[0]}: it was deleted, or is an older copy, and merges "
                "and readers of the manifest miss these rows. If no run has published since, "
                f"restore the newest manifest in {self._folder}/{META}; else read everything again "
                "once with ms.publish.mode=replace"
            )

    def _is_unchanged(self, head: JsonObject | None) -> bool:
        """Return whether the chain still ends at ``head``, and nothing is being published.

        A run that published meanwhile may have replaced some of the files.
        """
        return self._store.head() == head and self._store.pending_intent() is None

    def misfits(self) -> Iterator[str]:
        """Yield a problem for each shared file with a row that has not exactly one work unit."""
        if not self._job.publishing.keeps_files:
            return
        for file in live_files(self._filesystem, self._folder):
            wrong = misfit(file)
            if wrong:
                yield (
                    f"the dataset's manifest does not say which work unit each row of {file.uri} "
                    f"belongs to: {wrong}. Restore the newest manifest in {self._folder}/{META} "
                    "from a copy, or read everything again once with ms.publish.mode=replace"
                )


def _verify_text(job: Job, report: ChainReport) -> None:
    counts = f"blocks {report.blocks:,}, live files {report.files:,}"
    if report.is_sound and not report.blocks:
        emit(f"{job.name}  nothing to verify: no run has recorded a block yet\n")
        return
    if report.is_sound:
        emit(f"{job.name}  SOUND  {counts}\n")
        return
    emit(f"{job.name}  NOT SOUND  problems {len(report.problems):,}, {counts}\n")
    for problem in report.problems:
        if not emit(f"  {one_line(problem)}\n"):
            return
    emit(
        "  V20 concerns a published file: restore it. After a restore of the state, files that\n"
        "  runs replaced since are no loss: run the job, then dil state relist. Rows that a table\n"
        "  lacks are read again after dil state forget --keep-files; then dil state relist.\n"
        "  What is said of the manifest concerns the dataset's folder.\n"
        "  All else concerns the state store: keep it as it is now, and restore an earlier copy.\n"
    )
