"""Checks that files are in the job's own folders: no other file is moved or deleted.

Records of runs, intents, results in staging and manifests name files by absolute paths, and each of
these records can be edited, damaged, or copied from another place. So before the first file is
touched, links in the paths are resolved, and the paths are compared with the folders in which the
job stages and publishes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from dil.errors import CommitUnknownError, WriteError
from dil.model.dataset import Commit, Intent, Move, PublishedFile, RunRecord
from dil.model.job import PublishingSpec
from dil.publishing.late_files import is_other_dataset
from dil.publishing.layout import (
    META,
    STAGING,
    aside_dirs,
    backfills_dir,
    changelog_dir,
    dataset_dir,
    join,
    late_dir,
    run_staging_dir,
)
from dil.storage import FileInfo, Filesystem
from dil.storage.side_by_side import call_each


@dataclass(frozen=True, slots=True)
class OutsideFile:
    """A file in a commit that the job must not touch; ``why`` follows ``uri`` in a message."""

    uri: str
    why: str

    def __str__(self) -> str:
        return f"{self.uri} {self.why}"


def split_runs(
    runs: Iterable[RunRecord], spec: PublishingSpec, job_name: str, filesystem: Filesystem
) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return the runs that staged in the job's staging, and the runs that staged elsewhere.

    If a run staged elsewhere, its record was edited, or the job published elsewhere before. The
    files there are left alone.
    """
    runs = list(runs)
    if not runs:
        return [], []
    root = run_staging_dir(spec, job_name, "").rstrip("/")
    own: list[RunRecord] = []
    strange: list[RunRecord] = []
    for run in runs:
        folder = f"{root}/{run.run_id}"
        is_name = run.run_id not in {"", ".", ".."} and not {"/", "\0"} & set(run.run_id)
        is_own = (
            is_name
            and "\0" not in run.staging_dir
            and _is_where_it_says(folder, spec.final_dir, filesystem)
            and filesystem.real_path(run.staging_dir) == filesystem.real_path(folder)
        )
        (own if is_own else strange).append(run)
    return own, strange


def own_runs(
    runs: Iterable[RunRecord], spec: PublishingSpec, job_name: str, filesystem: Filesystem
) -> list[RunRecord]:
    """Return the runs that staged in the job's staging folder."""
    return split_runs(runs, spec, job_name, filesystem)[0]


def outside_files(
    commit: Commit, spec: PublishingSpec, job_name: str, filesystem: Filesystem
) -> Iterator[OutsideFile]:
    """Yield the files that a commit would move, write or delete outside of the job's folders."""
    limits = _Limits(spec, job_name, filesystem)
    for move in commit.all_moves:
        yield from limits.source(move)
    if spec.keeps_files:  # Rows of a database are in no file.
        yield from limits.targets([move.target for move in commit.moves], is_new=True)
        yield from limits.targets(commit.removes)
    yield from limits.asides([move.target.uri for move in commit.quarantine])
    yield from limits.asides(commit.quarantine_removes)


def refuse_outside_files(
    commit: Commit, spec: PublishingSpec, job_name: str, filesystem: Filesystem
) -> None:
    """Raise if an undecided commit touches a file outside of the job's folders.

    Raises:
        WriteError: the commit touches such a file; the message names the first one. Nothing was
            changed.
    """
    found = next(outside_files(commit, spec, job_name, filesystem), None)
    if found is not None:
        raise WriteError(
            f"{found}: DIL moves and deletes no file there",
            "A result in staging or the dataset's manifest was changed, or the dataset was moved."
            f" Restore {dataset_dir(spec)}/{META} from a copy, or remove the file from the newest"
            " manifest there; `dil runs clean` gives up the staged files.",
        )


def refuse_outside_intent(
    intent: Intent, spec: PublishingSpec, job_name: str, filesystem: Filesystem
) -> None:
    """Raise if finishing a publish would touch files outside of the job's folders.

    Raises:
        CommitUnknownError: the publish's record was changed; nothing was touched.
    """
    folder = dataset_dir(spec)
    places = outside_files(intent.commit, spec, job_name, filesystem)
    found = str(next(places, ""))
    if "\0" in intent.dataset_dir or (
        filesystem.real_path(intent.dataset_dir) != filesystem.real_path(folder)
    ):
        found = f"{intent.dataset_dir} is not {folder}, the job's dataset"
    if found:
        raise CommitUnknownError(
            f"run {intent.commit.run_id} began to publish, but its record was changed since:"
            f" {found}",
            "Nothing was moved or deleted. Restore the state store from a copy. Or give this"
            " publish up: dil runs abandon JOB.conf",
        )


def outside_files_of(
    files: Sequence[PublishedFile], spec: PublishingSpec, job_name: str, filesystem: Filesystem
) -> tuple[OutsideFile, ...]:
    """Return the published files that are outside of the job's dataset."""
    return tuple(_Limits(spec, job_name, filesystem).targets(files))


def is_inside(path: str, folder: str, filesystem: Filesystem) -> bool:
    """Return whether a path is below a folder after resolving links and ``..``.

    The file itself may be a link: then the link is moved or deleted, not its target.
    """
    if "\0" in path or ".." in path.split("/"):
        return False
    parent = filesystem.real_path(path.rpartition("/")[0])
    real = filesystem.real_path(folder)
    return parent == real or parent.startswith(f"{real}/")


def without_links(files: Iterable[FileInfo], base: str, filesystem: Filesystem) -> list[FileInfo]:
    """Return the files that can be reached from a base folder without following a link."""
    is_here = link_check(base, filesystem)
    by_folder: dict[str, list[FileInfo]] = defaultdict(list)
    for file in files:
        by_folder[file.path.rpartition("/")[0]].append(file)
    return [file for folder, inside in by_folder.items() if is_here(folder) for file in inside]


def link_check(base: str, filesystem: Filesystem) -> Callable[[str], bool]:
    """Return a check whether a folder can be reached from a base folder without following a link.

    Each folder is looked up once.
    """
    root = filesystem.real_path(base)
    return cache(lambda folder: filesystem.real_path(folder) == f"{root}{folder[len(base) :]}")


class _Limits:
    """The folders in which one job's files may be; each is looked up once."""

    def __init__(self, spec: PublishingSpec, job_name: str, filesystem: Filesystem) -> None:
        self._spec = spec
        self._filesystem = filesystem
        self._dataset = dataset_dir(spec)
        self._staging = run_staging_dir(spec, job_name, "").rstrip("/")
        self._beside = (late_dir(spec), changelog_dir(spec))
        self._asides = (*aside_dirs(spec), self._beside[1], f"{self._dataset}/{META}/aside")
        # An act takes back files that another act withdrew, and a backfill has its own folder.
        self._sources = (
            self._staging,
            f"{self._dataset}/{META}/withdrawn",
            backfills_dir(spec),
            *self._asides,
        )
        self._real: dict[str, str] = {}
        self._staged: dict[str, bool] = {}

    def source(self, move: Move) -> Iterator[OutsideFile]:
        """Yield the move's staged file if it is not below the job's staging, or is a link."""
        folder, _, name = move.source.rpartition("/")
        if name in {"", ".", ".."} or "\0" in name or not self._is_staging(folder):
            yield OutsideFile(move.source, f"is not in {self._staging}, where the job stages")
        elif self._filesystem.is_link(move.source):
            yield OutsideFile(move.source, "is a link")

    def targets(
        self, files: Sequence[PublishedFile], *, is_new: bool = False
    ) -> Iterator[OutsideFile]:
        """Yield published files outside of the dataset; dumped files may be beside its folder."""
        inside: dict[str, list[PublishedFile]] = {}
        for file in files:
            root = self._spec.final_dir.rstrip("/") if file.is_dump else self._dataset
            path = self._path(file.uri)
            if path is None or not self._is_below(path, root):
                yield OutsideFile(file.uri, f"is not in {root}, where the job publishes")
            elif {META, STAGING} & set(path[len(root) :].split("/")):
                yield OutsideFile(
                    file.uri, f"is in a folder {META} or {STAGING}, which holds no data"
                )
            else:
                inside.setdefault(path.rpartition("/")[0], []).append(file)
        if is_new:
            return  # DIL itself made these names; dumped files are checked elsewhere.
        roots = {self._dataset, self._spec.final_dir.rstrip("/")}
        between = sorted({above for folder in inside for above in _up_to(folder, roots)})
        metas = [f"{folder}/{META}" for folder in between]
        exist = call_each(self._filesystem, self._filesystem.exists, metas)
        is_other = dict(zip(between, exist, strict=True))
        for folder, found in inside.items():
            if any(is_other[above] for above in _up_to(folder, roots)):
                for file in found:
                    yield OutsideFile(file.uri, "is in the folder of another dataset")

    def asides(self, uris: Iterable[str]) -> Iterator[OutsideFile]:
        """Yield files of put-aside rows outside of the folders for such rows."""
        for uri in uris:
            path = self._path(uri)
            if path is None or not any(self._is_below(path, folder) for folder in self._asides):
                yield OutsideFile(uri, f"is not in {self._asides[0]} or {self._asides[1]}")
            elif any(self._is_below(path, folder) for folder in self._of_others):
                yield OutsideFile(uri, "is in the folder of another dataset")

    @cached_property
    def _of_others(self) -> tuple[str, ...]:
        """Return the folders beside the dataset that, by their names, belong to another dataset."""
        return tuple(each for each in self._beside if is_other_dataset(each, self._filesystem))

    def _path(self, uri: str) -> str | None:
        """Return the path of a URI, None if it belongs to another store or is not a URI."""
        try:
            return self._filesystem.path_of(uri)
        except (ValueError, WriteError):
            return None

    def _is_below(self, path: str, root: str) -> bool:
        """Return whether a file is below a folder, as ``is_inside`` does."""
        if "\0" in path or ".." in path.split("/"):
            return False
        parent, real = self._resolved(path.rpartition("/")[0]), self._resolved(root)
        return parent == real or parent.startswith(f"{real}/")

    def _is_staging(self, folder: str) -> bool:
        """Return whether a folder may hold files to publish, and no link leads to it."""
        if folder not in self._staged:
            file = f"{folder}/file"
            root = next((root for root in self._sources if self._is_below(file, root)), None)
            self._staged[folder] = root is not None and _is_where_it_says(
                root, self._spec.final_dir, self._filesystem
            )
        return self._staged[folder]

    def _resolved(self, folder: str) -> str:
        if folder not in self._real:
            self._real[folder] = self._filesystem.real_path(folder)
        return self._real[folder]


def _is_where_it_says(folder: str, base: str, filesystem: Filesystem) -> bool:
    """Return whether no link below ``base`` leads to another folder."""
    below = folder[len(base.rstrip("/")) :]
    return filesystem.real_path(folder) == join(filesystem.real_path(base), below)


def _up_to(folder: str, roots: set[str]) -> Iterator[str]:
    """Yield a folder and the folders above it, up to but not including a root."""
    while folder and folder not in roots:
        yield folder
        folder = folder.rpartition("/")[0]
