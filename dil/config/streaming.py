"""``ms.stream.*``: a job that runs as a stream of micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge

from dil.config.findings import Findings
from dil.config.identity import JobSection
from dil.config.merging import MISSING
from dil.config.parts import JobParts
from dil.config.property import names_of
from dil.config.read_context import path_of
from dil.config.values import ValueProblem, duration_ms
from dil.model.job import PublishMode, QueryMode
from dil.model.messages import suggestion
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Int, Long, PathText, Section, ValueType, Written, prop
from dil.model.stream import StreamMode, StreamSpec
from dil.sections.query import INPUTS, MAX_BLOCKS, MAX_ROWS, QUERY_MODE, WAIT
from dil.sections.reading import ReadContext
from dil.sections.secondary import SecondarySection

STREAM_MODE, TRIGGER = "ms.stream.mode", "ms.stream.trigger"
MOST_ROWS, MOST_FILES, MOST_BYTES = (
    "ms.stream.max.rows",
    "ms.stream.max.files",
    "ms.stream.max.bytes",
)
CHECKPOINT, STOP_FILE = "ms.stream.checkpoint", "ms.stream.stop.file"
AVAILABLE_NOW = "available_now"
_CHECKPOINTS = "_checkpoint"
# Milliseconds between two looks for new work; None for available_now.
Trigger: TypeAlias = int | None


def _trigger(value: str, _around: ReadContext) -> Trigger:
    text = value.strip()
    if text.lower() == AVAILABLE_NOW:
        return None
    fix = f"Write {AVAILABLE_NOW}, or an ISO duration such as PT30S for a service."
    fix = f"{suggestion(text, [AVAILABLE_NOW])} {fix}".strip()
    try:
        length = duration_ms(text)
    except ValueProblem as problem:
        raise ValueProblem(problem.what, fix) from problem
    if not length:
        raise ValueProblem("is no time at all", fix)
    return length


@dataclass(frozen=True, slots=True)
class StreamSection(Section):
    """How a job runs as a stream of micro-batches."""

    mode: Annotated[Literal["none", "ingest", "stateful"], ONE_OF] = prop(
        STREAM_MODE,
        "`ingest`: `dil run` reads the due work units in micro-batches, each published by one "
        "commit. "
        "`stateful`: the same for a job with `ms.query.inputs`, whose micro-batches take the new "
        "rows of the inputs. `none`: one run is one commit.",
        default="none",
        identity=False,
    )
    every_ms: Annotated[Trigger, Written(ValueType.STRING, read=_trigger)] = prop(
        TRIGGER,
        "`available_now`: `dil run` ends as soon as all work that was due at its start is "
        "published; start it from cron. An ISO duration: `dil run` is a service that looks for new "
        "work at this interval.",
        default=None,
        shown=AVAILABLE_NOW,
        example="PT30S",
        identity=False,
    )
    max_rows: Annotated[Long, Ge(1)] | None = prop(
        MOST_ROWS,
        "About how many rows a micro-batch has. It takes whole work units, at least one; earlier "
        "micro-batches give the estimate of their rows. Unset: no limit. "
        "`ms.query.input.max.blocks` and `ms.query.input.max.rows` limit the micro-batches of "
        "`stateful`.",
        default=None,
        example="1000000",
        identity=False,
    )
    max_files: Annotated[Int, Ge(1)] | None = prop(
        MOST_FILES,
        "Most work units of a micro-batch; each file of a source of files is one. "
        "`ms.work.unit.parallelism.max` applies, too. Unset: no limit.",
        default=None,
        example="100",
        identity=False,
    )
    max_bytes: Annotated[Long, Ge(1)] | None = prop(
        MOST_BYTES,
        "About how many bytes a micro-batch writes, estimated like its rows. Unset: no limit.",
        default=None,
        example="1000000000",
        identity=False,
    )
    checkpoint: PathText = prop(
        CHECKPOINT,
        "Folder of the stream's checkpoint: its epoch, and the range of each of its last "
        "micro-batches. It may be deleted. A relative path starts at the folder of the job file. "
        "Unset: `_checkpoint/<job.name>` below `data.publisher.final.dir`.",
        default="",
        example="/var/lib/dil/checkpoints/orders",
        identity=False,
    )
    stop_file: PathText = prop(
        STOP_FILE,
        "A local file: once it exists, the stream stops between two micro-batches and deletes the "
        "file. A relative path starts at the folder of the job file. Unset: none.",
        default="",
        example="orders.stop",
        identity=False,
    )


def stream_spec(
    parts: JobParts,
    query: QueryMode | None,
    values: Properties,
    folder: Path,
    findings: Findings,
) -> StreamSpec | None:
    """Return the stream part of a job, None for a batch; problems become findings.

    ``query`` is None for a job that reads a source.
    """
    section = values.section(StreamSection)
    if section.mode == "none":
        if STREAM_MODE not in values.explicit:
            names, what = names_of(StreamSection), "has no effect: the job is no stream"
            findings.unused(names, what, f"Set {STREAM_MODE}=ingest.")
        return None
    if section.mode == "stateful":
        _refuse_stateful(query, section, findings)
    planning, publishing = parts.planning, parts.publishing
    if named := section.checkpoint.strip():
        checkpoint = path_of(named, CHECKPOINT, folder, findings, system="")
    else:
        name = values.section(JobSection).name
        checkpoint = f"{publishing.final_dir.rstrip('/')}/{_CHECKPOINTS}/{name}"
    for is_refused, what, fix in (
        (not parts.state.enabled, "state.store.enabled is false: no run records what it read",
         "Keep the state."),
        (planning.backfill, "ms.backfill is true, and a backfill is read once",
         f"Run the backfill with -D {STREAM_MODE}=none."),
        (publishing.mode is PublishMode.REPLACE and query is None,
         "each micro-batch would replace the dataset, which only a run of all work units can",
         f"Set ms.publish.mode=append, merge or window_replace, or {STREAM_MODE}=none."),
        (publishing.merge is not None and publishing.merge.deletes_missing,
         f"{MISSING} deletes rows that a run does not find, and a micro-batch finds only a part",
         f"Leave {MISSING} out, or set {STREAM_MODE}=none."),
        (query is not None and section.mode == "ingest",
         f"the job has {INPUTS}, and no source to ingest",
         f"Set {STREAM_MODE}=stateful: its micro-batches take the new rows of the inputs."),
        (parts.is_dump, "the job copies whole files, and reads no rows",
         f"Set {STREAM_MODE}=none: a run copies the files that are new."),
        (values.section(SecondarySection).has_payload,
         "the job sends rows, and a stream sends none",
         f"Set {STREAM_MODE}=none."),
        (planning.min_units > 0,
         "ms.work.unit.min.units refuses a run that finds too few work units, and a stream looks "
         "for them all the time",
         "Leave ms.work.unit.min.units out."),
    ):  # fmt: skip
        if is_refused:
            findings.problem(STREAM_MODE, f"is {section.mode}, and {what}", fix)
    return StreamSpec(
        section.every_ms,
        section.max_files,
        section.max_rows,
        section.max_bytes,
        checkpoint,
        path_of(section.stop_file.strip(), STOP_FILE, folder, findings),
        StreamMode(section.mode),
    )


def _refuse_stateful(query: QueryMode | None, section: StreamSection, findings: Findings) -> None:
    """Report the settings that contradict a stream over datasets."""
    if query is None:
        if not findings.is_sound(INPUTS):  # the job has inputs, which cannot be read
            return
        findings.problem(
            STREAM_MODE,
            f"is {section.mode}, which is for jobs with {INPUTS}, and this one reads a source",
            f"Set {STREAM_MODE}=ingest; let a job of its own with {INPUTS} read this one's "
            "dataset.",
        )
        return
    if query is QueryMode.FULL:
        findings.problem(
            STREAM_MODE,
            f"is {section.mode}, and {QUERY_MODE}=full: each micro-batch would rebuild the dataset "
            "from all rows",
            f"Set {QUERY_MODE}=append or windowed. To rebuild it once, add -D {STREAM_MODE}=none.",
        )
    findings.misplaced(
        (WAIT,),
        "has no effect in a stream, which never waits for rows",
        f"Leave it out: {TRIGGER} says how often the stream looks for rows.",
    )
    findings.misplaced(
        (MOST_ROWS, MOST_FILES, MOST_BYTES),
        f"has no effect with {INPUTS}",
        f"Set {MAX_BLOCKS} or {MAX_ROWS}, which limit a micro-batch.",
    )
