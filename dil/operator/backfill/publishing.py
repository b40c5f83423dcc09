"""Publishes the files of a backfill, as one act in the job's chain, or drops them.

The backfill's files replace the live files of the same work units, or are merged or added, as the
publish mode says. The job's watermark stays; work units that had failed count as read. ``dil state
undo`` takes the act back like any other act.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from dil.errors import StateError
from dil.execution.stages import Stages
from dil.model.dataset import Lease, OperatorAct, RunWork
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.task import StagedFile, TaskReport
from dil.model.timelabels import AfterClose
from dil.operator.backfill.definition import (
    BackfillDefinition,
    act_prefix,
    backfill_job,
    folder_of,
)
from dil.operator.backfill.publication import Publication
from dil.operator.backfill.status import BackfillStatus
from dil.operator.session import OperatorSession
from dil.publishing import set_aside, withdrawal
from dil.publishing.closed_labels import settle_registry, with_closed_labels
from dil.publishing.layout import (
    backfills_dir,
    dataset_dir,
    output_dir,
    quarantine_dir,
    refused_dir,
    run_staging_dir,
    unit_hash_in,
)
from dil.publishing.lost_state import refuse_unlisted_rows
from dil.publishing.publisher import Publisher, delete_staging, untracked_files
from dil.publishing.results import FinishedUnit, PublishTarget
from dil.publishing.run_commit import build_commit, recorded_schema
from dil.publishing.shared_files import refuse_unlisted
from dil.reshaping import Reshaping, reshape
from dil.reshaping.files import row_file
from dil.run.closed_labels import load_closed_labels
from dil.run.lease import leased
from dil.run.options import RunOptions
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.state.chain.recorded_files import begins_changelog
from dil.storage import Filesystem, filesystem_for
from dil.types.schema_text import merged_text, parse_schema, schema_text

VERB = "backfill"


@contextlib.contextmanager
def open_session(
    job: Job,
    store: StateStore,
    definition: BackfillDefinition,
    *,
    now_ms: int,
    clock: Callable[[], int],
    is_dry_run: bool,
    verb: str = "",
) -> Iterator[OperatorSession]:
    """Hold the leases of a backfill and of its job, and finish publishes begun under them.

    A dry run takes no lease and finishes nothing. The act's id begins with ``verb``; if the act is
    a publish, the id names the backfill.

    Raises:
        LeaseHeldError: the backfill is being read, or a run of the job is under way.
        CommitUnknownError: the files of a begun publish are gone.
    """
    if is_dry_run:
        yield OperatorSession(job, store, now_ms, clock, None)
        return
    own = backfill_job(job, definition.id)
    with (
        open_store(own.state, own.name, clock=clock) as own_store,
        leased(own, own_store, "publish", clock) as own_lease,
        leased(job, store, verb or act_prefix(definition.id), clock) as lease,
    ):
        _finish_pending(own, own_store, own_lease)
        _finish_pending(job, store, lease)
        yield OperatorSession(job, store, now_ms, clock, lease)


def _finish_pending(job: Job, store: StateStore, lease: Lease) -> None:
    publisher = Publisher.of(job, store)
    commit = publisher.finish_pending(lease)
    if commit is not None and commit.act is not None:
        folder = run_staging_dir(job.publishing, job.name, commit.run_id)
        delete_staging(publisher.filesystem, folder)


def publish(
    session: OperatorSession, publication: Publication, options: RunOptions, reason: str = ""
) -> JsonObject | None:
    """Publish a backfill and return the last block of the act.

    Args:
        session: The session in which the publication was proposed.
        publication: The proposed publication.
        options: The clock, and the executor for tasks of a large merge.
        reason: The reason that the chain keeps.

    Raises:
        StateError: the publication is refused, or a live file differs from the published one.
        ConversionError: rows do not fit each other, or the merge keys.
        CommitConflictError: another writer changed the same work units or files meanwhile.
        LeaseLostError: a lease was taken over.
    """
    if publication.refusal is not None:
        raise publication.refusal
    lease, job, filesystem = session.require_lease(), session.job, session.filesystem
    act_id, backfill_id = lease.holder.run_id, publication.status.definition.id
    spec = replace(job.publishing, mode=publication.mode, shares_files=False)
    shaped_job = replace(job, publishing=spec)
    target = _target(session, act_id, publication.mode, options)
    with contextlib.closing(options.executors(job)) as executors:
        stage = Stages(executors, options.stage_bytes)
        work = Reshaping(shaped_job, target, session.now_ms, has_all_rows=False, stage=stage)
        shaped = reshape(work, _finished_units(job, publication), filesystem)
    decided = build_commit(shaped_job, target, shaped, filesystem)
    rejecting = _rejecting(job)
    closing = with_closed_labels(
        rejecting,
        load_closed_labels(rejecting, session.store),
        decided,
        shaped,
        grace_ms=job.planning.grace_ms,
    )
    decided = closing.commit
    if closing.rejected:
        raise StateError(
            f"backfill {backfill_id} has {sum(closing.rejected.values()):,} rows for closed "
            f"timelabels: {' '.join(closing.rejected)}",
            "Reopen those labels and publish again, or set ms.late.after.close=reopen.",
        )
    if decided.removes:
        withdrawal.require_recorded(session.store)
        withdrawal.withdraw(filesystem, job.publishing, act_id, decided.removes)
    partition_ends = session.partition_ends()
    act = OperatorAct(
        VERB,
        reason or f"publishes backfill {backfill_id}",
        # All records are named, because the name of a shared file does not show the work units of
        # the rows that leave it.
        changed=tuple(
            replace(entry, is_on_grid=partition_ends.get(entry.low) == entry.expected_high)
            for entry in publication.records
        ),
    )
    changes = decided.closed_labels
    if changes is not None:
        changes = replace(changes, sweeps=None)  # an act closes only its own labels
    aside = (*decided.quarantine, *publication.late)
    commit = replace(
        decided,
        run=RunWork(),
        quarantine=aside,
        quarantine_removes=(),
        late_dir=set_aside.late_dir_of(filesystem, job.publishing, aside),
        act=act,
        closed_labels=changes,
    )
    publisher = session.publisher
    block = publisher.publish(lease, commit)
    if changes is not None:
        settle_registry(publisher, lease)
    session.drop_page_logs(act)
    _sweep_staging(job, _staged(job, backfill_id, filesystem), filesystem)
    return block


def _rejecting(job: Job) -> Job:
    """Return the job, changed so that it rejects rows for closed labels that are not reopened.

    An operator compared these files with the dataset, so no rows go to a side table.
    """
    labels = job.planning.timelabel
    if labels is None or labels.after_close is AfterClose.REOPEN:
        return job
    labels = replace(labels, after_close=AfterClose.REJECT)
    return replace(job, planning=replace(job.planning, timelabel=labels))


def _target(
    session: OperatorSession, act_id: str, mode: PublishMode, options: RunOptions
) -> PublishTarget:
    spec, filesystem = session.job.publishing, session.filesystem
    now, live = options.clock(), session.live_files()
    replacing = replace(spec, mode=mode)
    untracked = untracked_files(replacing, live, filesystem)
    refuse_unlisted(replacing, untracked)
    refuse_unlisted_rows(
        replace(session.job, publishing=replacing), session.store, filesystem, live
    )
    folders = frozenset(filesystem.folders(dataset_dir(spec)))
    return PublishTarget(
        run_id=act_id,
        output_dir=output_dir(spec, now=session.now_ms, full=False, taken=folders),
        live=live if mode is PublishMode.APPEND else session.own_live_files(),
        untracked=untracked,
        system_time=now,
        horizon=max(now, session.now_ms),
        known_schema=recorded_schema(session.store),
        begins_changelog=begins_changelog(spec, session.store),
    )


def _finished_units(job: Job, publication: Publication) -> tuple[FinishedUnit, ...]:
    """Return the work units of a publication with their files, in the form of a run's results."""
    status = publication.status
    own = backfill_job(job, status.definition.id).publishing
    filesystem = filesystem_for(own.final_dir)
    base = dataset_dir(own)
    files: dict[str, list[StagedFile]] = defaultdict(list)
    for file in publication.files:  # in the order of reading, which a merge needs
        path = filesystem.path_of(file.uri)
        files[file.signature].append(
            StagedFile(
                path,
                file.rows,
                file.bytes,
                file.sha256,
                folder=path.rpartition("/")[0][len(base) :].strip("/"),
                timelabel=file.timelabel or "",
            )
        )
    quarantined = _files_by_unit(filesystem, quarantine_dir(own))
    refused = _files_by_unit(filesystem, refused_dir(own))
    return tuple(
        FinishedUnit(
            unit,
            TaskReport(
                unit.signature,
                unit.low,
                unit.high,
                1,
                files=tuple(files[unit.signature]),
                schema=_schema(status, files[unit.signature], filesystem),
                quarantined=quarantined.get(unit.hash, ()),
                refused=refused.get(unit.hash, ()),
            ),
        )
        for unit in publication.work_units
    )


def _schema(status: BackfillStatus, files: Sequence[StagedFile], filesystem: Filesystem) -> str:
    """Return the schema of a work unit's files.

    If all files of the backfill have one schema, it is that schema.
    """
    if not files or not status.has_schemas:
        return status.schema if files else ""
    known = parse_schema(status.schema)
    texts = [schema_text(row_file(filesystem, file.path, known).schema) for file in files]
    return merged_text(texts[0], texts[1:])


def _files_by_unit(filesystem: Filesystem, folder: str) -> Mapping[str, tuple[StagedFile, ...]]:
    """Return the files of quarantined or refused rows by their work units' hashes."""
    found: dict[str, tuple[StagedFile, ...]] = {}
    for file in filesystem.files(folder):
        name = unit_hash_in(file.path)
        found[name] = (*found.get(name, ()), StagedFile(file.path, 0, file.size, ""))
    return found


def _staged(job: Job, backfill_id: str, filesystem: Filesystem) -> list[str]:
    """Return the staging folders of a backfill's acts, also of acts that were killed."""
    root, prefix = _staging_root(job), f"{act_prefix(backfill_id)}-"
    return [f"{root}/{name}" for name in filesystem.folders(root) if name.startswith(prefix)]


def _sweep_staging(job: Job, staged: Sequence[str], filesystem: Filesystem) -> None:
    for folder in staged:
        delete_staging(filesystem, folder)
    filesystem.delete_empty_folder(_staging_root(job))


def _staging_root(job: Job) -> str:
    return run_staging_dir(job.publishing, job.name, "").rstrip("/")


def drop(job: Job, definition: BackfillDefinition, clock: Callable[[], int]) -> None:
    """Delete the folder and the staged files of a backfill; published files and its chain stay.

    After a crash, call this again: the definition is deleted last.

    Raises:
        LeaseHeldError: the backfill is being read or published; or a publish of it was killed, and
            a run of the job is under way.
        StateError: its publish is unfinished and needs the files.
    """
    own = backfill_job(job, definition.id)
    filesystem = filesystem_for(job.publishing.final_dir)
    with contextlib.ExitStack() as held:
        own_store = held.enter_context(open_store(own.state, own.name, clock=clock))
        held.enter_context(leased(own, own_store, "drop", clock))
        store = held.enter_context(open_store(job.state, job.name, clock=clock))
        staged = _staged(job, definition.id, filesystem)
        if staged:
            # If the publish was suspended and not killed, it goes on unless this lease is taken.
            held.enter_context(leased(job, store, "drop", clock))
        intent = store.pending_intent()
        if intent is not None and intent.commit.run_id.startswith(f"{act_prefix(definition.id)}-"):
            raise StateError(
                f"backfill {definition.id} is partly published, and finishing needs its files",
                "Finish it with `dil run` or `dil backfill publish`; then drop it.",
            )
        _sweep_staging(job, staged, filesystem)
        folder = folder_of(job.publishing, definition.id)
        for name in filesystem.folders(folder):
            filesystem.delete_tree(f"{folder}/{name}")
        filesystem.delete_tree(folder)
        filesystem.delete_empty_folder(backfills_dir(job.publishing))
