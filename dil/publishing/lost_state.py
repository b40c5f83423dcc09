"""Compares the last publish in state with the last publish in the dataset.

With each intent, and in the same transaction, the state store records the number and the
destination of the publish. If a dataset has a later commit of the same job, a newer state published
it: this state is an older copy, and would read the rows of those commits again. A state without any
publish was lost, or is a copy from before the first publish. If the dataset lacks the last commit
of the state, the dataset was deleted, or is an older copy: no run would read the lost rows again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from dil.errors import ConfigError, StateError
from dil.model.dataset import EXPIRY, PublishedFile, source_name
from dil.model.derived import REBUILD_COMMAND, REBUILD_OPTIONS
from dil.model.destination import TableFormat, TableKind
from dil.model.job import Job, PublishingSpec, PublishMode, QueryMode
from dil.model.json import JsonObject
from dil.publishing.destination import destination_for, destination_text
from dil.publishing.layout import META, dataset_dir, unit_hash_in
from dil.spi.destination import Destination
from dil.spi.state_store import LAST_PUBLISH, StateStore, changed_uris
from dil.storage import Filesystem, filesystem_for

if TYPE_CHECKING:
    from dil.publishing.table_destination import TableDestination
    from dil.publishing.warehouse import WarehouseDestination

log = logging.getLogger(__name__)

# The options of a run that reads a whole source again; dil.model.derived has those for inputs.
REREAD_OPTIONS = "-D ms.publish.mode=replace"
# Blocks of runs without rows may follow the last block with files.
_NEWEST_BLOCKS = 100
# One recovery may finish a publish and publish a crashed run. If the database was lost with that
# run, the load before the two is missing.
_NEWEST_LOADS = 3
# The modes, in names of loaded files, under which rows of a work unit replace its earlier rows.
_BY_UNIT = (PublishMode.WINDOW_REPLACE, TableKind.TIMESERIES)
# Acts that let no work unit be read again.
_CLEANING = frozenset({"prune", EXPIRY})


@dataclass(frozen=True, slots=True)
class LastPublish:
    """A job's last publish to its dataset.

    ``place`` is the dataset, ``number`` is the commit's number in state, and ``landed`` is the
    number of the job's last commit in the dataset: -1 if it has none, None if that is unknown.
    """

    place: str
    number: int
    landed: int | None


def newer_dataset(job: str, store: StateStore, spec: PublishingSpec, filesystem: Filesystem) -> str:
    """Return the problem if the dataset has commits that the state lacks, else ""."""
    destination = destination_for(spec, filesystem)
    older = _older_copy(job, _last_publish(job, store, spec, destination))
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
    here = _place(destination_text(spec, destination))
    return (
        f"the dataset at {here} has rows that {job} published, up to commit {landed}, and its"
        " state knows of no publish: it was lost, or is a copy from before the first one"
    )


def _last_publish(
    job: str, store: StateStore, spec: PublishingSpec, destination: Destination
) -> LastPublish | None:
    """Return a job's last publish; None if its state knows none, or one to another place.

    ``refuse_other_place`` checks the place.
    """
    known = store.checkpoint(LAST_PUBLISH)
    number = known.get("sequence")
    if not isinstance(number, int):
        return None
    place = _place(destination_text(spec, destination))
    if _place(str(known.get("destination"))) != place:
        return None
    return LastPublish(place, number, destination.landed(source_name(job)))


def _older_copy(job: str, last: LastPublish | None) -> str:
    """Return the problem if the state is an older copy that lacks later publishes, else ""."""
    if last is None or last.landed is None or last.landed <= last.number:
        return ""
    return (
        f"the dataset at {last.place} has commit {last.landed} of {job}, and its state knows of"
        f" no commit after {last.number}: the state is an older copy"
    )


def not_loaded(uris: Iterable[str], spec: PublishingSpec, filesystem: Filesystem) -> list[str]:
    """Return the published files, among some URIs, whose loading a warehouse's table lacks.

    A database that was restored, or that failed over to a replica that lagged, lacks the last
    loads, together with their records. The result is empty if rows are in no warehouse.
    """
    if spec.warehouse is None:
        return []
    return cast("WarehouseDestination", destination_for(spec, filesystem)).not_loaded(uris)


def set_back_files(
    job: str, uris: Iterable[str], spec: PublishingSpec, filesystem: Filesystem
) -> list[str]:
    """Return the published files, among some URIs, that the job's Delta or Iceberg table lost.

    It lost them when another program set it back to an earlier version, or to an older copy.
    """
    table = cast("TableDestination", destination_for(spec, filesystem))
    return table.set_back_files(source_name(job), uris)


def is_newest_state(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    destination: Destination,
) -> bool:
    """Return whether the state has the job's last commit in the dataset."""
    last = store.checkpoint(LAST_PUBLISH)
    if _place(str(last.get("destination"))) != _place(destination_text(spec, destination)):
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
    destination: Destination,
    *,
    options: str = REREAD_OPTIONS,
) -> LastPublish | None:
    """Raise if an older copy of the state would append rows again; warn if rows are replaced.

    The result is the job's last publish, None if it was to another place or there was none.

    Raises:
        StateError: published rows would be read and appended a second time.
    """
    last = _last_publish(job, store, spec, destination)
    problem = _older_copy(job, last)
    if not problem:
        return last
    if spec.mode is not PublishMode.APPEND:
        log.warning("%s. Rows that are read again replace the published ones", problem)
        return last
    raise StateError(
        f"{problem}. Rows that were published since would be read and appended a second time",
        _ways_out(options),
    )


def refuse_lost_state(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    destination: Destination,
    *,
    options: str = REREAD_OPTIONS,
) -> None:
    """Raise if a state without any publish would append to a dataset with the job's rows.

    Raises:
        StateError: all rows would be read and appended a second time.
    """
    problem = lost_state(job, store, spec, destination)
    if problem and spec.mode is PublishMode.APPEND:
        raise StateError(
            f"{problem}. All rows would be read and appended a second time",
            f"{_ways_out(options)} To append all the same: dil run JOB.conf"
            " --accept-new-signatures.",
        )


def reread_options(job: Job) -> str:
    """Return the options of a run that makes the dataset anew, empty if no run can do so."""
    if job.query is None:
        return REREAD_OPTIONS
    # Windows that were emitted before would be missing in a dataset that a run replaces.
    return "" if job.query.mode is QueryMode.WINDOWED else REBUILD_OPTIONS


def _ways_out(options: str) -> str:
    """Return the ways to make state and dataset agree, as the advice of a message.

    A single run with window_replace is not one of these ways: the next run, which appends, would
    append the rows that the single run left out.
    """
    return (
        "Nothing was changed. Restore the newest copy of the state: dil state restore JOB.conf"
        f" FILE. If there is no copy, {_making_anew(options)}."
    )


def _making_anew(options: str) -> str:
    """Return how an operator lets a job make its dataset anew."""
    if not options:
        return "give the job another job.name and table"
    return (
        f"run once with {options}, which reads everything again (of a"
        " stream with -D ms.stream.mode=none, too). A job with ms.source.files.once refuses that:"
        " move its dataset away, run dil state forget JOB.conf --all --keep-files --yes, and then"
        " run the job, which reads all files that its source still has"
    )


def refuse_older_dataset(
    job: Job, store: StateStore, destination: Destination, last: LastPublish | None
) -> tuple[str, ...]:
    """Raise if a warehouse's table lacks the last loads; return a note if a dataset is gone.

    Some programs take published files away, together with the dataset's records, so a dataset of
    files that is gone is no error.

    Raises:
        StateError: a table lacks rows that count as published.
    """
    if last is None or _reads_all(job) or job.planning.backfill:
        return ()
    if job.publishing.warehouse is None:
        return _gone(job, store, destination, last)
    if last.landed is not None and last.landed > last.number:
        return ()  # the database is newer than the state
    files = _last_files(store, last.place)
    if not files:
        return ()
    found = cast("WarehouseDestination", destination).loads(files)
    if found.are_listed:
        return () if found.has_table else (_dropped(job, last),)
    raise StateError(
        f"{last.place} lacks rows that the last runs of {job.name} loaded: the database is an "
        "older copy, or was made anew. The rows count as published, so no run reads them again",
        "Nothing was changed. dil state verify JOB.conf counts the missing rows. To get them back, "
        f"{_reading_again(job, loses_all=False)}. To do without them, run only dil state relist "
        "JOB.conf --yes.",
    )


def _gone(
    job: Job, store: StateStore, destination: Destination, last: LastPublish
) -> tuple[str, ...]:
    """Return a note if a dataset lacks its last commit, or the files of that commit.

    A publish that was given up has a number, too, but all files of the earlier ones are there.
    """
    if last.landed is None or last.landed >= last.number:
        return ()
    files, is_older = _last_files(store, last.place), last.landed >= 0
    if not files:
        return ()
    if job.publishing.keeps_files:
        filesystem = filesystem_for(job.publishing.final_dir)
        if filesystem.exists(filesystem.path_of(files[0])):
            return _unlisted(job, destination, files[0])
    elif is_older:
        return ()  # of a destination of another kind only the numbers are known
    what = "is an older copy" if is_older else "was deleted or moved away"
    first = ""
    # The catalog of an Iceberg table names metadata that is gone.
    if job.publishing.table.format is TableFormat.ICEBERG:
        copy = "put the catalog's copy of the same age in place"
        first = f"{copy if is_older else 'drop the table from its catalog'}, and "
    return (
        f"PUBLISHED ROWS ARE GONE: {last.place} {what}, and no run reads the lost rows again. To "
        f"get them back, {first}{_reading_again(job, loses_all=not is_older)}",
    )


def _unlisted(job: Job, destination: Destination, file: str) -> tuple[str, ...]:
    """Return a note if the manifest of plain files does not list a published file, which is there.

    The log of a table lists its files, whatever the manifest says.
    """
    spec = job.publishing
    if spec.table.format is not TableFormat.FILES:
        return ()
    if any(each.uri == file for each in destination.live()):
        return ()
    return (
        f"PUBLISHED FILES ARE NOT LISTED: {_lost_manifest(spec, file)}. {_restoring_manifest(job)}",
    )


def _lost_manifest(spec: PublishingSpec, file: str) -> str:
    folder = f"{dataset_dir(spec)}/{META}"
    return f"the manifest in {folder} was deleted, or is an older copy: it does not list {file}"


def _restoring_manifest(job: Job) -> str:
    anew = _making_anew(reread_options(job))
    return f"Restore the newest manifest. If there is no copy, {anew}"


def refuse_unlisted_rows(
    job: Job, store: StateStore, filesystem: Filesystem, live: Iterable[PublishedFile]
) -> None:
    """Raise if a merge would not find rows, because the manifest lacks a file that is there.

    Raises:
        StateError: the rows would be doubled; nothing was decided.
    """
    spec = job.publishing
    is_merged = spec.mode is PublishMode.MERGE and spec.keeps_files
    if not is_merged or spec.table.format is not TableFormat.FILES:
        return
    listed = {file.uri for file in live}
    folder = dataset_dir(spec)
    below = f"{filesystem.uri(folder)}/"
    unlisted = {uri for uri in store.live_uris() if uri not in listed and uri.startswith(below)}
    # All files of a dataset that was moved away are unlisted: a request for each would take long.
    there = (filesystem.uri(file.path) for file in filesystem.files(folder)) if unlisted else ()
    found = next((uri for uri in there if uri in unlisted), None)
    if found is not None:
        raise StateError(
            f"{_lost_manifest(spec, found)}. Rows of such files that are merged again would be"
            " doubled",
            f"Nothing was published. {_restoring_manifest(job)}.",
        )


def set_back(
    job: Job, store: StateStore, destination: Destination, live: Iterable[PublishedFile]
) -> tuple[str, ...]:
    """Return a note if a Delta or Iceberg table was set back to before the last publishes.

    The manifest stays the newest, so only the table's own log, of which ``live`` are the files,
    shows it. Files that another program compacted, or whose rows it deleted, leave the log, too.
    """
    spec, known = job.publishing, store.checkpoint(LAST_PUBLISH)
    is_table = spec.keeps_files and spec.table.format is not TableFormat.FILES
    if not is_table or not known or not job.state.enabled:
        return ()
    if _reads_all(job) or job.planning.backfill:
        return ()
    place = _place(str(known.get("destination")))
    if {_name(file.uri) for file in live}.issuperset(map(_name, _last_files(store, place))):
        return ()
    if not cast("TableDestination", destination).is_set_back(source_name(job.name)):
        return ()
    return (
        f"PUBLISHED ROWS ARE GONE: the {spec.table.format} table at {place} was set back to an "
        "earlier version, and no run reads the lost rows again. To get them back, "
        f"{_reading_again(job, loses_all=False)}",
    )


def _dropped(job: Job, last: LastPublish) -> str:
    """Return the note about a table that was dropped, while the records of its loads stayed."""
    return (
        f"PUBLISHED ROWS ARE GONE: {last.place} was dropped, and no run reads the lost rows again. "
        f"To get them back, {_reading_again(job, loses_all=True)}"
    )


def _reading_again(job: Job, *, loses_all: bool) -> str:
    """Return how an operator lets a job make its rows anew.

    ``forget`` refuses work units whose rows are there and would be appended a second time. Once a
    run has created a dropped table again, ``relist`` takes its old loads for loaded.
    """
    if job.query is not None and job.query.mode is QueryMode.WINDOWED:
        return "give the job another job.name and table: it emits each window once"
    some = "--from DATE" if job.planning.is_dated else "--unit UNIT"
    units = "--all" if loses_all else f"{some} (only the lost ones; --all if all rows are lost)"
    forget, relist = f"dil state forget JOB.conf {units} --yes", "dil state relist JOB.conf --yes"
    if job.query is not None:
        return f"run {REBUILD_COMMAND}, then {relist}"
    return f"run {forget}, then {relist}, then the job"


def _last_files(store: StateStore, place: str) -> list[str]:
    """Return one file of each of the last blocks that added files which a place has to have.

    An operator who let the job read rows again, or removed files from the chain, knows about the
    rows before.
    """
    found: list[str] = []
    removed: set[str] = set()
    read_again: set[str] = set()
    for block in islice(store.blocks(), _NEWEST_BLOCKS):
        event: Any = block["event"]
        if event["kind"] == "ResetState" and event.get("act") not in _CLEANING:
            break
        added, gone = changed_uris(block)
        removed.update(gone)
        staying = (uri for uri in added if uri not in removed and _is_in(place, uri))
        found += [uri for uri in staying if unit_hash_in(uri) not in read_again][:1]
        if len(found) == _NEWEST_LOADS or any(_has_mode(uri, PublishMode.REPLACE) for uri in added):
            break
        # A newer state may have loaded the rows that were replaced.
        replacing = (uri for uri in added if _has_mode(uri, *_BY_UNIT))
        read_again.update(map(unit_hash_in, replacing))
    return found


def _has_mode(uri: str, *modes: str) -> bool:
    """Return whether a file was loaded into a warehouse in one of some modes."""
    return any(f"?mode={mode}#" in uri for mode in modes)


def _reads_all(job: Job) -> bool:
    """Return whether each run of a job reads everything."""
    return job.publishing.mode is PublishMode.REPLACE or job.planning.ignore_history


def refuse_other_place(job: Job, store: StateStore, filesystem: Filesystem) -> None:
    """Raise if the job would publish elsewhere although its watermarks count rows as published.

    Raises:
        ConfigError: the job's rows so far are in another place.
    """
    last = store.checkpoint(LAST_PUBLISH)
    known = last.get("destination")
    if not isinstance(known, str) or not known or _reads_all(job):
        return
    destination = destination_for(job.publishing, filesystem)
    before, now = _place(known), _place(destination_text(job.publishing, destination))
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
    return uri.startswith((f"{place}/", f"{place}?", f"{place}#"))


def _name(uri: str) -> str:
    return uri.replace("#", "/").rpartition("/")[2]


def _place(destination: str) -> str:
    """Return the place in a text of ``destination_text``, without the publish mode and options."""
    return destination.partition(" with ")[0].partition("?mode=")[0].rstrip("/")
