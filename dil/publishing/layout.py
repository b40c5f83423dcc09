"""Names and places: the dataset's folder, the staging below it, final file names.

The name of everything but published data begins with an underscore (rule U1). Final names depend
only on run, work unit and file number, so that repeating a publish changes nothing (rule U3).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from zoneinfo import ZoneInfo

from dil.model.job import PublishingSpec
from dil.text.zones import EPOCH

STAGING = "_staging"
META = "_dil"
QUARANTINE = "_quarantine"
REFUSED = "_failed"
LATE = "_late"
CHANGELOG = "_changelog"
AUDIT = "_audit"
SENDING = "_sending"
BACKFILL = "_backfill"
# These texts replace a work unit's hash in names of files with rows of several work units: the
# first if the manifest records which rows belong to which work unit, the second if not.
SHARED = "shared"
MERGED = "merged"
# This text replaces the hash in names of files with changed rows.
CHANGES = "changes"


def dataset_dir(spec: PublishingSpec) -> str:
    """Return the folder that holds the dataset's files or its run folders."""
    return join(spec.final_dir, spec.dataset_path)


def run_staging_dir(spec: PublishingSpec, job_name: str, run_id: str) -> str:
    """Return the folder below which one run stages all its files."""
    return join(spec.final_dir, STAGING, job_name, run_id)


def sending_dir(spec: PublishingSpec, job_name: str) -> str:
    """Return the folder of a job's start markers, which outlive the staging of its runs."""
    return join(spec.final_dir, STAGING, job_name, SENDING)


def backfills_dir(spec: PublishingSpec) -> str:
    """Return the folder that holds one folder of read files for each backfill."""
    return join(spec.final_dir, BACKFILL)


def quarantine_dir(spec: PublishingSpec) -> str:
    """Return the folder of rows that were put aside; these rows are not part of the dataset."""
    return join(dataset_dir(spec), QUARANTINE)


def late_dir(spec: PublishingSpec) -> str:
    """Return the folder of late rows beside the dataset; they are not part of the dataset."""
    return f"{dataset_dir(spec).rstrip('/')}{LATE}"


def changelog_dir(spec: PublishingSpec) -> str:
    """Return the folder of changed rows, which is beside the dataset's folder."""
    return f"{dataset_dir(spec).rstrip('/')}{CHANGELOG}"


def aside_dirs(spec: PublishingSpec) -> tuple[str, ...]:
    """Return the folders of rows that were published beside the dataset.

    The folder of late rows is one of them, however the job handles late rows now.
    """
    return (quarantine_dir(spec), refused_dir(spec), late_dir(spec))


def refused_dir(spec: PublishingSpec) -> str:
    """Return the folder of payload rows that the receiver refused; they are not in the dataset."""
    return join(dataset_dir(spec), REFUSED)


def dump_path(spec: PublishingSpec, name: str) -> str:
    """Return the path of a dumped file with this name."""
    return join(spec.final_dir, name)


def audit_dir(spec: PublishingSpec) -> str:
    """Return the folder for records of requests, if the job names no other folder."""
    return join(dataset_dir(spec), AUDIT)


def output_dir(spec: PublishingSpec, *, now: int, full: bool, taken: frozenset[str]) -> str:
    """Return the folder for a run's files.

    For path type default this is a new folder, named by the run's extract id: ``now`` (epoch ms
    UTC) in the configured zone and the load style; a second run in the same second adds one second
    (rule U2). ``taken`` are the names of the folders that exist.
    """
    base = dataset_dir(spec)
    if not spec.run_folder:
        return base
    suffix = "full" if full else "append"
    local = (EPOCH + timedelta(milliseconds=now)).astimezone(ZoneInfo(spec.extract_id_zone))
    while True:
        name = f"{local:%Y%m%d%H%M%S}_{suffix}"
        if name not in taken:
            return join(base, name)
        local += timedelta(seconds=1)


def final_name(
    run_id: str,
    unit_hash: str,
    number: int,
    *,
    rows: int | None,
    extension: str,
    prefix: str = "part",
) -> str:
    """Return a published file's name; ``rows``, if given, comes before the extension."""
    count = "" if rows is None else f".{rows}"
    return f"{prefix}-{run_id}-{unit_hash}-{number}{count}.{extension}"


def unit_hash_in(path: str) -> str:
    """Return the work unit's hash that ``final_name`` put into the name of a published file.

    A file with rows of several work units has another text there.
    """
    return path.rpartition("/")[2].rpartition("-")[0].rpartition("-")[2]


def run_ids_in(path: str) -> frozenset[str]:
    """Return the texts of which ``final_name`` put one, the run id, into a published file's name.

    Prefixes and run ids may contain hyphens, so the name does not show where the run id begins.
    """
    _, *words = path.rpartition("/")[2].split("-")[:-2]
    return frozenset("-".join(words[first:]) for first in range(len(words)))


def join(*parts: str) -> str:
    """Return one path from parts, of which some may be empty."""
    return "/".join([parts[0].rstrip("/"), *(part.strip("/") for part in parts[1:] if part)])


def folders_above(path: str, root: str = "") -> Iterator[str]:
    """Yield the folders of a path, the innermost first; if ``root`` is given, only those below."""
    begin, folder = f"{root}/" if root else "", path.rpartition("/")[0]
    while folder and folder.startswith(begin):
        yield folder
        folder = folder.rpartition("/")[0]
