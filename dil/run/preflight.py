"""Checks what a run needs besides its source before the first row is read.

Local folders must be writable and the settings of a catalog sound. A catalog that does not answer
does not stop a run: the rows are published, and the next run registers them.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from stat import S_ISDIR
from urllib.parse import urlsplit

from dil.catalog import glue
from dil.errors import ConfigError, Problem, WriteError
from dil.execution.session import SparkSettings, is_on_cluster
from dil.model.dataset import PublishedFile
from dil.model.destination import CatalogSpec, CatalogType, TableFormat
from dil.model.job import Job, PublishMode
from dil.observe.progress import counted
from dil.publishing.destination import destination_for
from dil.publishing.late_files import is_other_dataset
from dil.publishing.layout import changelog_dir, dataset_dir, late_dir, run_staging_dir
from dil.storage import LocalFilesystem, filesystem_for
from dil.text.warehouse_url import read_warehouse_url

FINAL, STATE, AUDIT = "data.publisher.final.dir", "state.store.dir", "ms.audit.dir"
METASTORE = "ms.catalog.hive.metastore"
WAREHOUSE = "ms.warehouse.url"
_CONNECT_S = 10
_KEEP = "Correct the path, or let this user write there; the run makes missing folders."


def refuse_lost_state(job: Job, environ: Mapping[str, str]) -> None:
    """Refuse a state store beside the job file if the driver's machine is gone after the run.

    Raises:
        ConfigError: the watermarks would be lost.
    """
    if job.state.is_default_place and is_on_cluster(environ):
        raise ConfigError.single(
            "state.store.dir",
            "is not set, and the driver runs on a machine of the cluster, so the watermarks would "
            "be lost with that machine",
            "Set it to a folder that every driver sees, or submit with --deploy-mode client.",
        )


def refuse_unfit_places(job: Job) -> None:
    """Refuse a job whose folders, or whose database file, on this machine cannot be written.

    The state store checks its own folder.

    Raises:
        WriteError: names each folder with its property.
        ConfigError: late or changed rows would go into the folder of another dataset.
    """
    _refuse(_unfit_folders(job))
    _refuse_unfit_database(job)
    _refuse_folders_of_others(job)


def make_final_dir(job: Job) -> None:
    """Make the final directory of a job if it is on this machine.

    Raises:
        WriteError: the folder cannot be made.
    """
    final = job.publishing.final_dir
    filesystem = filesystem_for(final)
    if not isinstance(filesystem, LocalFilesystem):
        return
    try:
        filesystem.make_folder(final, mode=job.publishing.dir_mode)
    except WriteError as error:
        # A mount may refuse to write although the permissions of the folder allow it.
        _refuse([_problem(job, FINAL, final, f"which cannot be made: {error.message}")])


def _refuse_folders_of_others(job: Job) -> None:
    """Refuse a folder for late or changed rows that is the folder of another dataset."""
    spec, filesystem = job.publishing, filesystem_for(job.publishing.final_dir)
    folder = late_dir(spec)
    if spec.has_side_table and is_other_dataset(folder, filesystem):
        is_late = job.events is not None and job.events.late_action == "side_table"
        name = "ms.late.action" if is_late else "ms.late.after.close"
        raise ConfigError.single(
            name,
            f"is side_table, but the folder for late rows, {folder}, is the folder of another "
            "dataset",
            f"Rename that dataset or this one, or set {name}={'flag' if is_late else 'reject'}.",
        )
    folder = changelog_dir(spec)
    if spec.keeps_changelog and is_other_dataset(folder, filesystem):
        raise ConfigError.single(
            "ms.publish.changelog",
            f"is true, but the folder for changed rows, {folder}, is the folder of another dataset",
            "Rename that dataset or this one, or set ms.publish.changelog=false.",
        )


def require_catalog(job: Job, live: Iterable[PublishedFile] = ()) -> None:
    """Refuse wrong settings of a catalog before rows are read, without asking the catalog.

    ``dil.execution.hive`` checks whether Spark's configuration names a metastore.

    Args:
        job: The job.
        live: The live files before the run.

    Raises:
        ConfigError: a region or credentials are missing, or live files have another format: a table
            in a catalog has files of one format.
        WriteError: the folder of a metastore cannot be written.
    """
    spec = job.publishing.catalog
    if spec is None:
        return
    if job.publishing.mode is not PublishMode.REPLACE:
        _refuse_other_formats(job, live)
    if spec.type is CatalogType.GLUE:
        glue.require_settings(spec)
    elif spec.metastore.startswith("/"):
        why = _unfit(Path(spec.metastore))
        if why:
            _refuse([_problem(job, METASTORE, spec.metastore, why)])


def check_outputs(job: Job, environ: Mapping[str, str], cache: Path | None) -> tuple[str, ...]:
    """Check the destinations of a job more closely than a run does; return lines for people.

    Nothing is made or written, so this does not show whether the user may write to a remote store.
    The lines name everything that was not checked.

    Raises:
        ConfigError: the existing dataset does not fit the job.
        WriteError: a folder cannot be written, a database or a catalog does not answer.
    """
    problems = list(_unfit_folders(job))
    if job.state.enabled and job.state.kind == "sqlite":
        why = _unfit(Path(job.state.directory))
        if why:
            problems.append(_problem(job, STATE, job.state.directory, why))
    _refuse(problems)
    _refuse_unfit_database(job)
    spec = job.publishing
    live: Iterable[PublishedFile] = ()
    if spec.catalog is not None:
        live = destination_for(spec, filesystem_for(spec.final_dir)).live()
    require_catalog(job, live)
    return (*_destination(job), *_catalog(job, environ, cache))


def _refuse_other_formats(job: Job, live: Iterable[PublishedFile]) -> None:
    ending = job.writing.format.value
    others = [file.format for file in live if not file.is_dump and file.format != ending]
    if others:
        kinds = ", ".join(sorted(set(others))).upper()
        key = "writer.output.format"
        raise ConfigError.single(
            key,
            f"is {ending.upper()}, and {counted(len(others), 'live file')} of earlier runs"
            f" {'is' if len(others) == 1 else 'are'} {kinds}: a table in a catalog has files of one"
            " format",
            "Set the format back. Or run once with ms.publish.mode=replace, which reads"
            " everything again, and drop the table in the catalog first.",
            job.properties.origin(key),
        )


def _unfit_folders(job: Job) -> Iterator[Problem]:
    spec = job.publishing
    if isinstance(filesystem_for(spec.final_dir), LocalFilesystem):
        # A run stages below the final directory; other jobs may have made the dataset's folder.
        staging = run_staging_dir(spec, job.name, "")
        for folder in (staging, dataset_dir(spec)):
            why = _unfit(Path(folder))
            if why:
                yield _problem(job, FINAL, spec.final_dir, why)
                break
    audit = job.audit
    if audit.enabled and audit.is_required and audit.directory:
        why = _unfit(Path(audit.directory))
        if why:
            yield _problem(job, AUDIT, audit.directory, why)


def _refuse_unfit_database(job: Job) -> None:
    """Refuse a database file that cannot be opened, or cannot be made if it is missing.

    Raises:
        WriteError: the folder of the file is missing or cannot be written.
    """
    if job.publishing.warehouse is None:
        return
    address = read_warehouse_url(job.publishing.warehouse.url.reveal())
    if address.server is not None:
        return
    file = Path(address.path)
    place = file if file.exists() else file.parent
    if not file.parent.is_dir():
        why = f"whose folder {file.parent} does not exist; the database makes only the file"
    elif file.is_dir():
        why = "which is a folder"
    elif not os.access(place, os.W_OK):
        why = f"and this user may not write {place}"
    else:
        return
    raise WriteError(
        str(_problem(job, WAREHOUSE, str(address), why)),
        f"Correct the path, or make the folder: mkdir -p {shlex.quote(str(file.parent))}",
    )


def _refuse(problems: Iterable[Problem]) -> None:
    found = "; ".join(map(str, problems))
    if found:
        # A disk may be back tomorrow, so this is no error of the job file.
        raise WriteError(found, _KEEP)


def _problem(job: Job, key: str, value: str, why: str) -> Problem:
    return Problem(job.properties.origin(key), key, f"is {value}, {why}")


def _unfit(folder: Path) -> str:
    """Return why a folder cannot be written or made; an empty text if it can be."""
    for place in (folder, *folder.parents):
        is_folder = False
        try:
            # Look only once: another run may make the folder between two looks.
            is_folder = S_ISDIR(place.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            if not place.is_symlink():
                continue
        except OSError as error:
            return f"which cannot be checked: {place}: {error.strerror}"
        if not is_folder:
            return f"where {place} is no folder"
        if os.access(place, os.W_OK | os.X_OK):
            return ""
        if place == folder:
            return "which this user may not write"
        return f"and this user may not make folders in {place}"
    return ""


def _destination(job: Job) -> Iterator[str]:
    """Let the destination check itself, unless the check would make a file or a table."""
    spec = job.publishing
    filesystem = filesystem_for(spec.final_dir)
    place, left = dataset_dir(spec), ""
    if spec.table.format is TableFormat.ICEBERG:
        yield f"destination: {place} (not checked: the Iceberg catalog)"
        return
    if spec.warehouse is not None:
        address = read_warehouse_url(spec.warehouse.url.reveal())
        place = f"{address}, table {spec.warehouse.table}"
        if address.server is None and not Path(address.path).exists():
            yield f"destination: {place} (not checked: the first run makes the file)"
            return
    if not isinstance(filesystem, LocalFilesystem):
        left = f" (not checked: whether this user may write in {spec.final_dir})"
    destination = destination_for(spec, filesystem)
    if spec.destination is not None:
        place = destination.uri("")
    destination.check()
    yield f"destination: {place}{left}"


def _catalog(job: Job, environ: Mapping[str, str], cache: Path | None) -> Iterator[str]:
    spec = job.publishing.catalog
    if spec is None:
        return
    if spec.type is CatalogType.GLUE:
        yield f"catalog: AWS Glue in {glue.ask(spec)}, table {spec.name}"
        return
    if spec.metastore.startswith("thrift:"):
        _reach(spec)
    elif not spec.metastore:
        from dil.execution.hive import look_for_metastore

        look_for_metastore(spec, SparkSettings(f"dil {job.name}", 1, environ, cache))
    yield f"catalog: Hive {spec.metastore or 'of Spark'}, table {spec.name}"


def _reach(spec: CatalogSpec) -> None:
    """Check that one of the metastore's addresses takes a connection; no Hive protocol is spoken.

    Raises:
        WriteError: no address takes a connection.
    """
    refused = []
    for text in spec.metastore.split(","):
        address = urlsplit(text)
        try:
            with socket.create_connection((address.hostname, address.port), timeout=_CONNECT_S):
                return
        except OSError as error:
            refused.append(f"{text}: {error.strerror or error}")
    raise WriteError(
        f"no Hive metastore answers: {'; '.join(refused)}",
        f"Check {METASTORE}, and whether the metastore runs. Until it answers, runs publish their "
        "rows and report that the catalog does not show them.",
    )
