"""Takes a backfill's folder away; what it published stays."""

from __future__ import annotations

from collections.abc import Callable

from dil.errors import StateError
from dil.model.job import Job
from dil.operator.backfill import definition as definitions
from dil.operator.backfill.definition import FOLDER, Definition, act_prefix, folder_of
from dil.publishing.layout import join
from dil.run.runs import leased
from dil.state import open_store
from dil.storage import filesystem_for


def drop(job: Job, definition: Definition, clock: Callable[[], int]) -> None:
    """Delete all that a backfill holds; its own chain stays in the state store.

    Done again after a crash, it goes on: the definition goes last.

    Raises:
        LeaseHeldError: it is being read or published.
        StateError: its publish was begun and needs the files.
    """
    own = definitions.job_of(job, definition.id)
    with (
        open_store(own.state, own.name, clock=clock) as own_store,
        leased(own, own_store, "drop", clock),
        open_store(job.state, job.name, clock=clock) as store,
    ):
        intent = store.pending_intent()
        if intent is not None and intent.commit.run_id.startswith(f"{act_prefix(definition.id)}-"):
            raise StateError(
                f"backfill {definition.id} was not published to the end, and its files are needed "
                "for that",
                "It is finished by the next `dil run`, or by `dil backfill publish`; drop it then.",
            )
        filesystem = filesystem_for(job.publishing.final_dir)
        folder = folder_of(job.publishing, definition.id)
        for name in filesystem.folders(folder):
            filesystem.delete_tree(f"{folder}/{name}")
        filesystem.delete_tree(folder)
        filesystem.delete_empty_folder(join(job.publishing.final_dir, FOLDER))
