"""Work units whose rows `dil compact` put among others': they cannot be taken out one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dil.errors import StateError
from dil.model.job import PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import unit_hash
from dil.operator.acts.desk import Desk
from dil.operator.acts.published import FileDecision
from dil.publishing.compacted import VERB, is_of_many
from dil.state.acts.last_act import LastAct


def refuse_put_together(desk: Desk, signatures: Collection[str], decision: FileDecision) -> None:
    """Refuse to let work units be read again whose rows nobody can find.

    Only where a run appends: elsewhere what is read again takes the place of what was there.

    Raises:
        StateError: rows would be there twice; ``--keep-files`` says that this is fine.
    """
    if desk.job.publishing.mode is not PublishMode.APPEND or decision is FileDecision.KEEP:
        return
    if not signatures or not any(map(is_of_many, desk.live_files())):
        return
    hashes = _put_together(desk.store.blocks())
    found = sorted(each for each in signatures if unit_hash(each) in hashes)
    if found:
        raise StateError(
            f"the rows of {found[0]} are in a file with those of other work units, which"
            " `dil compact` put together: they cannot be withdrawn, and the next run would publish"
            " them a second time",
            "Read everything anew with ms.publish.mode=replace, or give --keep-files if the rows"
            " are gone otherwise or doubled rows are fine. Nothing was changed.",
        )


def refuse_undoing(last: LastAct) -> None:
    """Refuse to undo a compaction: the files before it are gone, and no row is lost by it.

    Raises:
        StateError: the last act was one.
    """
    if last.verb == VERB:
        raise StateError(
            f"the last act put small files together ({last.act_id}), and the files before it are"
            " gone",
            "There is nothing to take back: it kept every row. Acts before it cannot be undone any"
            " more; `dil state rewind` goes back to a state.",
        )


def _put_together(blocks: Iterable[JsonObject]) -> frozenset[str]:
    """Return the hashes of work units whose files compactions took; blocks newest first."""
    found: set[str] = set()
    after: Mapping[str, Any] = {}
    for block in blocks:
        event: Any = block["event"]
        if event["kind"] == "ResetState" and event.get("act") == VERB:
            removes = (after.get("newData") or {}).get("removes") or ()
            found.update(hash_in(str(part["path"])) for part in removes)
        after = event
    return frozenset(found)


def hash_in(uri: str) -> str:
    """Return the hash of the work unit in the name of a published file (spec README 28).

    Other text where rows of several work units were put together.
    """
    return uri.rpartition("/")[2].rpartition("-")[0].rpartition("-")[2]
