"""Compares the last publish in state with the last publish in the dataset.

With each intent, and in the same transaction, the state store records the number and the
destination of the publish. If a dataset has a later commit of the same job, a newer state published
it: this state is an older copy, and would read the rows of those commits again. A state without any
publish was lost, or is a copy from before the first publish.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, cast

from dil.errors import ConfigError, StateError
from dil.model.dataset import source_name
from dil.model.destination import TableKind
from dil.model.job import Job, PublishingSpec, PublishMode
from dil.model.json import JsonObject
from dil.publishing.destination import described, destination_for
from dil.spi.destination import Destination
from dil.spi.state_store import LAST_PUBLISH, StateStore
from dil.storage import Filesystem

if TYPE_CHECKING:
    from dil.publishing.warehouse import WarehouseDestination

log = logging.getLogger(__name__)

# The option that lets one run read a whole source again; dil.model.derived has the option for
# inputs.
ANEW = "-D ms.publish.mode=replace"


def newer_dataset(job: str, store: StateStore, spec: PublishingSpec, filesystem: Filesystem) -> str:
    """Return the problem if the dataset has commits that the state lacks, else ""."""
    destination = destination_for(spec, filesystem)
    older = _older_copy(job, store, spec, destination)
    return older or lost_state(job, store, spec, destination)


def lost_state(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    destination: Destination,
) -> str:
    """Return the problem if a job has rows in the dataset but no publish in its state, else "".

    There is no problem if an operator set the state since then, for example by importing
    watermarks.
    """
    if store.checkpoint(LAST_PUBLISH):
        return ""
    known = chain.from_iterable(map(store.blocks_of_kind, ("SetDataSchema", "ResetState")))
    if next(known, None) is not None:
        return ""
    landed = destination.landed(source_name(job))
    if landed is None or landed < 0 or not destination.live():
        return ""
    here = _place(described(spec, destination))
    return (
        f"the dataset at {here} has rows that {job} published, up to commit {landed}, and its"
        " state knows of no publish: it was lost, or is a copy from before the first one"
    )


def _older_copy(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    destination: Destination,
) -> str:
    """Return the problem if the state is an older copy that lacks later publishes, else "".

    A dataset in another place is no problem here; ``refuse_other_place`` checks that.
    """
    known = store.checkpoint(LAST_PUBLISH)
    number = known.get("sequence")
    if not isinstance(number, int):
        return ""
    here = described(spec, destination)
    if _place(str(known.get("destination"))) != _place(here):
        return ""
    landed = destination.landed(source_name(job))
    if landed is None or landed <= number:
        return ""
    return (
        f"the dataset at {_place(here)} has commit {landed} of {job}, and its state knows of"
        f" no commit after {number}: the state is an older copy"
    )


def not_loaded(uris: Iterable[str], spec: PublishingSpec, filesystem: Filesystem) -> list[str]:
    """Return the published files, among some URIs, whose loading a warehouse's table lacks.

    A database that was restored, or that failed over to a replica that lagged, lacks the last
    loads, together with their records. The result is empty if there is no such table.
    """
    if not loads_one_table(spec):
        return []
    return cast("WarehouseDestination", destination_for(spec, filesystem)).not_loaded(uris)


def loads_one_table(spec: PublishingSpec) -> bool:
    """Return whether all rows are loaded into one table of a warehouse."""
    return spec.warehouse is not None and spec.warehouse.kind is TableKind.REGULAR


def is_newest_state(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    destination: Destination,
) -> bool:
    """Return whether the state has the job's last commit in the dataset."""
    last = store.checkpoint(LAST_PUBLISH)
    if _place(str(last.get("destination"))) != _place(described(spec, destination)):
        return False
    return _has_last_commit(job, last, destination)


def _has_last_commit(job: str, last: JsonObject, destination: Destination) -> bool:
    """Return whether the newest commit of a job in the dataset is the last one in its state."""
    landed = destination.landed(source_name(job))
    return landed is not None and landed == last.get("sequence")


def refuse_older_state(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    filesystem: Filesystem,
    destination: Destination | None = None,
    *,
    anew: str = ANEW,
) -> None:
    """Raise if an older copy of the state would append rows again; warn if rows are replaced.

    Raises:
        StateError: published rows would be read and appended a second time.
    """
    destination = destination or destination_for(spec, filesystem)
    problem = _older_copy(job, store, spec, destination)
    if not problem:
        return
    if spec.mode is not PublishMode.APPEND:
        log.warning("%s. Rows that are read again replace the published ones", problem)
        return
    raise StateError(
        f"{problem}. Rows that were published since would be read and appended a second time",
        _ways_out(anew),
    )


def refuse_lost_state(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    destination: Destination,
    *,
    anew: str = ANEW,
) -> None:
    """Raise if a state without any publish would append to a dataset with the job's rows.

    Raises:
        StateError: all rows would be read and appended a second time.
    """
    problem = lost_state(job, store, spec, destination)
    if problem and spec.mode is PublishMode.APPEND:
        raise StateError(
            f"{problem}. All rows would be read and appended a second time",
            f"{_ways_out(anew)} To append all the same: dil run JOB.conf --accept-new-signatures.",
        )


def _ways_out(anew: str) -> str:
    """Return the ways to make state and dataset agree, as the advice of a message.

    A single run with window_replace is not one of these ways: the next run, which appends, would
    append the rows that the single run left out.
    """
    restore = (
        "Nothing was changed. Restore the newest copy of the state: dil state restore JOB.conf"
        " FILE. If there is no copy,"
    )
    if not anew:
        return f"{restore} give the job another job.name and table."
    return (
        f"{restore} run once with {anew}, which reads everything again (of a"
        " stream with -D ms.stream.mode=none, too). A job with ms.source.files.once refuses that:"
        " move its dataset away, run dil state forget JOB.conf --all --keep-files --yes, and then"
        " run the job, which reads all files that its source still has."
    )


def refuse_other_place(job: Job, store: StateStore, filesystem: Filesystem) -> None:
    """Raise if the job would publish elsewhere although its watermarks count rows as published.

    Raises:
        ConfigError: the job's rows so far are in another place.
    """
    last = store.checkpoint(LAST_PUBLISH)
    known = last.get("destination")
    reads_all = job.publishing.mode is PublishMode.REPLACE or job.planning.ignore_history
    if not isinstance(known, str) or not known or reads_all:
        return
    destination = destination_for(job.publishing, filesystem)
    before, now = _place(known), _place(described(job.publishing, destination))
    if before == now or store.history().is_empty():
        return
    is_moved = _has_last_commit(job.name, last, destination)  # together with its records
    if is_moved and not _is_earlier_place(store, before, now, destination):
        return
    key = job.publishing.place_key
    raise ConfigError.single(
        key,
        f"leads to {now}, but {job.name} has published to {before} so far: rows that count as"
        " published would be missing here",
        "Set the destination back. To start over in the new place: dil state forget JOB.conf"
        " --all --keep-files; then the job reads everything again, or only from the date in"
        " ms.watermark. The rows in the old place stay there.",
        job.properties.origin(key),
    )


def _is_earlier_place(store: StateStore, last: str, now: str, destination: Destination) -> bool:
    """Return whether a job published to ``now`` before it went to ``last``.

    Each place numbers its commits, so the last commits of two places may have the same number.
    A dataset that was moved away and back has the files that came at ``last``.
    """
    published = tuple(store.live_uris())
    names = {_name(uri) for uri in published if _is_in(last, uri)}
    live = {_name(file.uri) for file in destination.live()}
    return bool(names) and live.isdisjoint(names) and any(_is_in(now, uri) for uri in published)


def _is_in(place: str, uri: str) -> bool:
    return uri.startswith((f"{place}/", f"{place}?"))


def _name(uri: str) -> str:
    return uri.replace("#", "/").rpartition("/")[2]


def _place(destination: str) -> str:
    """Return the place in a text of ``described``, without the publish mode and options."""
    return destination.partition(" with ")[0].partition("?mode=")[0].rstrip("/")
