"""Sends a job's own plug-in modules to the tasks (rule F13)."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any

from dil.errors import ExecutionError
from dil.model.job import Job

_OURS = frozenset({"dil", "connectors"})


def plugin_modules(job: Job) -> tuple[str, ...]:
    """Return the top-level modules of classes that the job names and that dil does not have.

    The module of a destination is not included: tasks publish nothing, and need only the properties
    of the destination.
    """
    destination = job.publishing.destination
    own = set() if destination is None else {destination.ref.module.partition(".")[0]}
    return tuple(sorted({*task_modules(job), *own} - _OURS))


def task_modules(job: Job) -> tuple[str, ...]:
    """Return the modules among ``plugin_modules`` whose classes run in tasks."""
    filters = (each.filter for each in job.extraction.preprocessors)
    own = () if job.writing.own is None else (job.writing.own.ref,)
    rows = (*job.conversion.converters, *filters, *own)
    function = None if job.query is None else job.query.function
    classes = [job.source.connector, job.extraction.extractor, *rows]
    classes += [] if function is None else [function]
    names = {reference.module.partition(".")[0] for reference in classes}
    return tuple(sorted(names - _OURS))


def ship(context: Any, modules: Sequence[str]) -> None:  # a SparkContext
    """Add the modules to the import path of all executors.

    Raises:
        ExecutionError: a module has no source file that could be sent.
    """
    for name in modules:
        spec = util.find_spec(name)
        if spec is not None and spec.origin and not Path(spec.origin).exists():
            continue  # inside a zip that spark-submit ships already
        if spec is None or (spec.origin is None and not spec.submodule_search_locations):
            raise ExecutionError(
                f"the module {name} has no file to ship to the executors",
                "Install it on them, or put it beside the job file.",
            )
        if spec.submodule_search_locations:
            target = Path(tempfile.mkdtemp(prefix="dil-ship-")) / f"{name}.zip"
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                for folder in map(Path, spec.submodule_search_locations):
                    for path in sorted(folder.rglob("*.py")):
                        archive.write(path, f"{name}/{path.relative_to(folder).as_posix()}")
            context.addPyFile(str(target))
        else:
            context.addPyFile(spec.origin)
