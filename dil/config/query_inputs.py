"""The datasets that the inputs of a query name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.publishing import CHANGELOG
from dil.config.publishing import MODE as PUBLISH_MODE
from dil.config.read_context import JobReadContext
from dil.config.state import ENABLED, KIND, SERVER_KINDS, StateSection, state_section
from dil.config.timelabels import CLOSE
from dil.errors import ConfigError
from dil.model.job import DatasetInput, Job, PublishingSpec, PublishMode, QueryMode, StateSpec
from dil.model.properties import Properties
from dil.sections.query import INPUTS, MODE, InputStore, QueryInput, QuerySection
from dil.sections.reading import ShapeError
from dil.storage.locations import PathError, local_path

# Loads the job of another job file; ``dil.config.loading`` passes it in.
LoadInput = Callable[[Path], Job]


@dataclass(frozen=True, slots=True)
class QueryParts:
    """The other parts of a query's job, the path of the job file, and the SQL.

    ``has_events`` says that the job has an event column.
    """

    job: str
    path: Path
    publishing: PublishingSpec
    state: StateSpec
    around: JobReadContext
    load: LoadInput | None
    sql: Entry | None
    has_events: bool

    @property
    def folder(self) -> Path:
        """Return the folder of the job file, where relative paths start."""
        return self.path.resolve().parent


def found_inputs(
    section: QuerySection, parts: QueryParts, mode: QueryMode, findings: Findings
) -> Iterator[DatasetInput]:
    """Yield the datasets that the inputs name; none if the job itself is loaded as an input."""
    seen: dict[str, int] = {}
    for number, item in enumerate(section.inputs):
        where = f"[{number}]"
        found = (
            _of_store(item, item.store, where, parts, findings)
            if item.store is not None
            else _of_job_file(item, where, parts, mode, findings)
        )
        if found is None:
            continue
        if found.dataset == parts.job:
            findings.problem(
                INPUTS, f"{where} is the dataset of this job itself", "Name another job."
            )
        elif found.dataset in seen:
            findings.problem(
                INPUTS,
                f"{where} is the dataset {found.dataset}, which [{seen[found.dataset]}] names, too",
                "Name it once; a query may use a view several times.",
            )
        seen.setdefault(found.dataset, number)
        yield found


def _of_job_file(
    item: QueryInput, where: str, parts: QueryParts, mode: QueryMode, findings: Findings
) -> DatasetInput | None:
    """Return the dataset of a job file; None after a problem, or if inputs are not looked up."""
    if parts.load is None:
        return None
    try:
        path = local_path(item.job, parts.folder)
    except PathError as error:
        findings.problem(INPUTS, f"{where}.job {error}", error.fix)
        return None
    if not path.is_file():
        findings.problem(
            INPUTS,
            f"{where}.job names {path}, which does not exist",
            "A relative path starts at the folder of the job file.",
        )
        return None
    try:
        job = parts.load(path)
    except ConfigError as error:
        first, count = error.problems[0], len(error.problems)
        more = f", and {count - 1} more" if count > 1 else ""
        findings.problem(
            INPUTS,
            f"{where}.job names {path}, which is wrong: {first.key} {first.what}{more}",
            f"dil validate {item.job} lists it all.",
        )
        return None
    problem = _unfit(job, mode, item)
    if problem is not None:
        findings.problem(INPUTS, f"{where}.job names {path}, which {problem[0]}", problem[1])
    return DatasetInput(
        job.name,
        item.view,
        job.state,
        str(path),
        job.writing,
        reads_late=item.late,
        keeps_changelog=job.publishing.keeps_changelog,
        reads_closed=item.closed,
    )


def _own_classes(job: Job) -> tuple[str, str] | None:
    """Return why no query can read the output of a job's own classes, and what to do; else None."""
    destination, writer = job.publishing.destination, job.writing.own
    if destination is not None:
        return (
            f"publishes by {destination.ref}, and not into files",
            "A query reads files: let that job publish files.",
        )
    if writer is not None:
        return (
            f"writes files by {writer.ref}, which are not read here",
            "Let that job write files of a built-in format.",
        )
    return None


def _unfit(job: Job, mode: QueryMode, item: QueryInput) -> tuple[str, str] | None:
    """Return why a query cannot read a job's dataset by its chain, and what to do; else None."""
    if (classes := _own_classes(job)) is not None:
        return classes
    if job.publishing.warehouse is not None:
        return (
            f"publishes into a database, as {job.publishing.relation}",
            "A query reads files: let that job publish files, or write the query as a view there.",
        )
    if job.writing.file_name:
        return "publishes files as they are, and not rows", "Read them with a job of their own."
    if not job.state.enabled:
        return "keeps no state, so no query knows which rows are new", f"Set {ENABLED}=true there."
    return _unfit_mode(job, mode, item)


def _unfit_mode(job: Job, mode: QueryMode, item: QueryInput) -> tuple[str, str] | None:
    """Return why a query cannot read a job with this publish mode, and what to do; else None."""
    how = job.publishing.mode
    if item.closed:
        return _unfit_labels(job, how)
    is_recorded = job.publishing.keeps_changelog and mode is QueryMode.APPEND
    if how is PublishMode.APPEND or mode is QueryMode.FULL or is_recorded:
        return None
    other = ""
    if how is PublishMode.MERGE and mode is QueryMode.APPEND:
        other = f" Or set {CHANGELOG}=true there: {MODE}=append reads the rows that merges change."
    return (
        f"publishes by {PUBLISH_MODE}={how}: later runs remove rows that were read, and "
        f"{MODE}={mode} cannot remove its results of them",
        f"Set {MODE}=full, which reads the whole input again and replaces the dataset.{other}",
    )


def _unfit_labels(job: Job, how: PublishMode) -> tuple[str, str] | None:
    """Return why the closed timelabels of a dataset are unknown, and what to do; else None."""
    labels = job.planning.timelabel
    if labels is None or not labels.closes:
        return "closes no timelabels", f"Set {CLOSE} there, or leave closed out."
    if how is PublishMode.MERGE:
        return (
            f"publishes by {PUBLISH_MODE}={how}: its files have rows of several timelabels",
            "Leave closed out.",
        )
    return None


def _of_store(
    item: QueryInput, store: InputStore, where: str, parts: QueryParts, findings: Findings
) -> DatasetInput | None:
    """Return the dataset of an input that names a state store; None after a problem."""
    origins = {KIND: findings.origins[INPUTS]}
    own = Findings(origins=origins)
    is_server = store.type in SERVER_KINDS
    url = None
    if is_server and store.url:
        around = replace(parts.around, key=INPUTS)
        try:
            url = around.secret(store.url, f"{where}.state.store.url", is_always_read=True)
        except ShapeError as error:
            for what, fix in error.findings:
                findings.problem(INPUTS, what, fix)
            return None
    section = StateSection(kind=store.type, directory=store.dir, url=url)
    if not is_server and not store.dir:
        findings.problem(
            INPUTS, f"{where}.state.store has no dir", "Name the folder of that job's state."
        )
        return None
    values = Properties({}, origins, [section])
    state = state_section(values, parts.folder, own)
    for found in own.problems:
        findings.problem(INPUTS, f"{where}: {found.key} {found.what}", found.fix)
    if own.problems:
        return None
    return DatasetInput(
        item.dataset, item.view, state, reads_late=item.late, reads_closed=item.closed
    )
