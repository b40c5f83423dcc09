"""Does what was previewed: one commit, published as a run's would be."""

from __future__ import annotations

from dil import publishing
from dil.model.dataset import Commit, source_name
from dil.model.json import JsonObject
from dil.operator.acts.desk import Desk
from dil.operator.acts.preview import Preview
from dil.publishing import act_asides, withdrawal
from dil.storage import Filesystem


def perform(desk: Desk, preview: Preview, reason: str = "") -> JsonObject | None:
    """Do what a preview of this desk shows; return its last block, None when it needs none.

    Args:
        desk: The desk that the preview was made at.
        preview: What is to be done.
        reason: Why, kept in the chain; the verb unless given.

    Raises:
        StateError: the act is refused until it is decided what becomes of published files, or a
            file is not what was published.
        CommitConflictError: another writer changed the same ground meanwhile.
        LeaseLostError: the lease was taken over.
    """
    if desk.lease is None:
        raise AssertionError("an act needs the lease")
    proposal, files = preview.proposal, preview.files
    if files.refusal is not None:
        raise files.refusal
    act_id = desk.lease.holder.run_id
    spec, filesystem = desk.job.publishing, desk.filesystem()
    if files.withdrawn:
        withdrawal.require_recorded(desk.store)
        withdrawal.withdraw(filesystem, spec, act_id, files.withdrawn)
    now = desk.clock()
    commit = Commit(
        run_id=act_id,
        config_digest=desk.job.digest,
        source_name=source_name(desk.job.name),
        moves=files.moves,
        removes=files.withdrawn,
        outcomes=(),
        schema="",
        system_time=now,
        horizon=max(now, desk.now_ms),
        act=proposal.act(reason or proposal.verb, desk.grid()),
        quarantine=files.aside,
    )
    block = publishing.publish(desk.store, desk.lease, commit, spec, filesystem)
    _drop_progress(desk, filesystem, commit)
    withdrawal.sweep(filesystem, files.moves)
    act_asides.sweep(filesystem, spec, files.aside)
    return block


def _drop_progress(desk: Desk, filesystem: Filesystem, commit: Commit) -> None:
    """Delete the pages that runs kept of work units that the act changed: they are read anew."""
    if commit.act is None:
        return
    changed = {*commit.act.removed, *(each.signature for each in commit.act.changed)}
    for run in desk.store.unfinished_runs():
        publishing.drop_logs(filesystem, run.staging_dir, changed)
