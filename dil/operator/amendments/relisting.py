"""The verb ``relist``: records the live files of the dataset in the chain.

If a job merges or replaces rows and its state was lost, an older copy of the state names files that
are gone and lacks live files. The rows are right; only the list of files is wrong.
"""

from __future__ import annotations

from dil.errors import StateError
from dil.model.dataset import Move
from dil.model.destination import TableFormat
from dil.observe.progress import counted
from dil.operator.amendments.files import FileChange
from dil.operator.amendments.preview import Preview, preview_of
from dil.operator.session import OperatorSession
from dil.publishing.layout import dataset_dir
from dil.publishing.lost_state import not_loaded
from dil.publishing.owner import owning_jobs
from dil.publishing.run_commit import recorded_schema
from dil.state.amendments.operations import Proposal
from dil.state.chain.recorded_files import file_of, live_parts

VERB = "relist"


def propose_relist(session: OperatorSession) -> Preview:
    """Record the live files that the dataset's manifest lists; no file changes.

    If a file that the manifest lists is gone, it stays in the chain: its rows are lost. Files whose
    rows the table of a warehouse lacks leave the chain.

    Raises:
        StateError: the destination lists no files, other jobs publish to the dataset, or nothing
            was recorded so far.
    """
    job, filesystem = session.job, session.filesystem
    spec = job.publishing
    if spec.warehouse is not None:
        return _without_lost_loads(session)
    if not spec.keeps_files:
        raise StateError(f"the destination of {job.name} lists no files", "Nothing was changed.")
    folder = dataset_dir(spec)
    others = owning_jobs(filesystem, folder) - {job.name}
    if others:
        raise StateError(
            f"the dataset has rows of other jobs ({', '.join(sorted(others))}), and its manifest "
            "does not say which job published a file",
            "Nothing was changed.",
        )
    if not recorded_schema(session.store):
        raise StateError(
            f"no run of {job.name} has recorded rows yet", "Run the job first: dil run JOB.conf"
        )
    known = live_parts(session.store)
    live = {file.uri: file for file in session.live_files()}
    is_table = spec.table.format is not TableFormat.FILES
    gone = tuple(
        file_of(part)
        for uri, part in known.items()
        if uri not in live and (is_table or not filesystem.exists(filesystem.path_of(uri)))
    )
    strange = tuple(Move("", file) for uri, file in live.items() if uri not in known)
    files = FileChange(moves=strange, withdrawn=gone, only_records=True)
    notes = []
    if gone:
        notes.append(f"no longer listed: {counted(len(gone), 'file')} that left the dataset")
    if strange:
        notes.append(
            f"listed from now on: {counted(len(strange), 'file')} that are live in the dataset"
        )
    return preview_of(session, Proposal(VERB, notes=tuple(notes)), files)


def _without_lost_loads(session: OperatorSession) -> Preview:
    known = live_parts(session.store)
    lost = not_loaded(known, session.job.publishing, session.filesystem)
    files = FileChange(withdrawn=tuple(file_of(known[uri]) for uri in lost), only_records=True)
    notes = (
        f"no longer listed: {counted(len(lost), 'file')} whose rows the table lacks. The next run"
        " reads them again only if their work units were forgotten (dil state forget)",
    )
    return preview_of(session, Proposal(VERB, notes=notes if lost else ()), files)
