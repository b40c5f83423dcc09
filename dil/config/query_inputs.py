"""The datasets that the inputs of a query name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.publishing import CHANGELOG, PUBLISH_MODE
from dil.config.read_context import JobReadContext
from dil.config.state import ENABLED, KIND, SERVER_KINDS, StateSection, state_section
from dil.config.timelabels import CLOSE
from dil.errors import ConfigError
from dil.model.job import DatasetInput, Job, PublishingSpec, PublishMode, QueryMode, StateSpec
from dil.model.properties import Properties
from dil.sections.query import INPUTS, QUERY_MODE, InputStore, QueryInput, QuerySection
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
    if obstacle := next(_obstacles(job, mode, item), None):
        what, fix = obstacle
        findings.problem(INPUTS, f"{where}.job names {path}, which {what}", fix)
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


def _obstacles(job: Job, mode: QueryMode, item: QueryInput) -> Iterator[tuple[str, str]]:
    """Yield why a query cannot read a job's dataset by its chain, each with what to do."""
    publishing, writer, labels = job.publishing, job.writing.own, job.planning.timelabel
    how = publishing.mode
    if publishing.destination is not None:
        what = f"publishes by {publishing.destination.ref}, and not into files"
        yield what, "A query reads files: let that job publish files."
    if writer is not None:
        what = f"writes files by {writer.ref}, which are not read here"
        yield what, "Let that job write files of a built-in format."
    if publishing.warehouse is not None:
        fix = "let that job publish files, or write the query as a view there."
        yield f"publishes into a database, as {publishing.relation}", f"A query reads files: {fix}"
    if job.writing.file_name:
        yield "publishes files as they are, and not rows", "Read them with a job of their own."
    if not job.state.enabled:
        what = "keeps no state, so no query knows which rows are new"
        yield what, f"Set {ENABLED}=true there."
    if item.closed and (labels is None or not labels.closes):
        yield "closes no timelabels", f"Set {CLOSE} there, or leave closed out."
    if item.closed and how is PublishMode.MERGE:
        what = f"publishes by {PUBLISH_MODE}={how}: its files have rows of several timelabels"
        yield what, "Leave closed out."
    is_recorded = publishing.keeps_changelog and mode is QueryMode.APPEND
    is_kept = how is PublishMode.APPEND or mode is QueryMode.FULL or is_recorded
    if not item.closed and not is_kept:
        fix = f"Set {QUERY_MODE}=full, which reads the whole input again and replaces the dataset."
        if how is PublishMode.MERGE and mode is QueryMode.APPEND:
            fix += f" Or set {CHANGELOG}=true there: {QUERY_MODE}=append reads the rows that merges"
            fix += " change."
        yield (
            f"publishes by {PUBLISH_MODE}={how}: later runs remove rows that were read, and "
            f"{QUERY_MODE}={mode} cannot remove its results of them",
            fix,
        )


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
