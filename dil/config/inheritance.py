"""Which ``.properties`` files a job file inherits: those of its project.

They can name code, so a file counts only where its author could have changed the job as well.
Folders are walked from the job file's own upwards, so that a job means the same wherever it is
started. The walk ends at the nearest folder that is marked as the root of a project by ``.git`` or
``.dil-project``. Without such a mark it goes on to the root of the file system, and a file counts
that belongs to an owner of the job and that nobody else may write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dil.config.findings import Findings
from dil.config.owners import Owners
from dil.errors import Origin

MARKS = (".git", ".dil-project")
_FIX = (
    "If you trust it, name it with `include`, or let it belong to the owner of the job file and be "
    f"written by that owner alone. In a project, whose root holds {MARKS[0]} or {MARKS[1]}, its "
    "group may write it too."
)


def inherited_files(path: str, findings: Findings) -> list[str]:
    """Return the ``.properties`` files above a job file, farthest first.

    Findings name each of them, and each one that was left out.
    """
    job = Path(path)
    owners = Owners(job)
    folders, in_project = _folders(job.parent, owners)
    found: list[str] = []
    for shown, folder in folders:
        if folder == job.parent.resolve() and job.suffix == ".properties":
            # The job file's neighbours are other jobs, not its project file.
            continue
        names = list(_trusted(folder, owners, findings, path, in_project=in_project))
        if len(names) > 1:
            findings.problem(
                "",
                f"holds several .properties files: {', '.join(names)}",
                "A folder may hold one, which the jobs in and below it inherit; use `include` for "
                f"others. A {MARKS[1]} in a folder below ends the search there.",
                Origin(str(shown)),
            )
        elif names:
            found.append(str(shown / names[0]))
            findings.information(f"inherits {folder / names[0]}", Origin(path))
    return found[::-1]


def normal(path: Path) -> Path:
    """Return a path without ``.`` and ``..``, relative where it was."""
    return Path(os.path.normpath(path))


def _folders(start: Path, owners: Owners) -> tuple[list[tuple[Path, Path]], bool]:
    """Return the job file's folder and those above it, nearest first; and if a mark ended them.

    Each comes as it is shown, relative where the job file was named so, and as it is.
    """
    here = start.resolve()
    found: list[tuple[Path, Path]] = []
    for steps, folder in enumerate((here, *here.parents)):
        shown = normal(start / Path(*[".."] * steps))
        # Behind a symbolic link, `..` is not the folder above.
        found.append((shown if shown.resolve() == folder else folder, folder))
        # A mark of somebody else's would only say what somebody else wants to have inherited.
        if any(owners.own(folder / mark) for mark in MARKS):
            return found, True
    return found, False


def _trusted(
    folder: Path, owners: Owners, findings: Findings, job: str, *, in_project: bool
) -> Iterator[str]:
    try:
        found = sorted(item for item in folder.glob("*.properties") if _is_visible(item))
    except PermissionError:
        return  # What may not be listed above a job is not meant for it.
    for item in found:
        if doubt := owners.doubt(item, in_project=in_project):
            findings.notice("", f"does not inherit {item}, which {doubt}", _FIX, Origin(job))
        else:
            yield item.name


def _is_visible(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")
