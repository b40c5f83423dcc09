"""The query of a derived dataset: its properties, its windows, and the rows that it leaves out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.model.derived import DEDUPE_COLUMN, DEDUPE_KEYS, DEDUPE_WITHIN
from dil.model.json import JsonValue
from dil.model.members import Setting, member
from dil.model.section import (
    ONE_OF,
    Bool,
    ClassName,
    Duration,
    Int,
    Long,
    PathText,
    Section,
    Text,
    Texts,
    ValueType,
    Written,
    prop,
)
from dil.sections.reading import Finding, ReadContext, ShapeError, as_array, as_object, build, each

INPUTS = "ms.query.inputs"
SQL, FILE, FUNCTION = "ms.query.sql", "ms.query.file", "ms.query.function"
QUERY_MODE, WAIT = "ms.query.mode", "ms.query.wait"
MAX_BLOCKS, MAX_ROWS = "ms.query.input.max.blocks", "ms.query.input.max.rows"
LOGICAL_HASH = "ms.query.logical.hash"
SIZE, SLIDE, WINDOW_KEYS = "ms.window.size", "ms.window.slide", "ms.window.keys"
AGGS, WINDOW_COLUMN = "ms.window.aggs", "ms.window.column"
# Sections of jobs that read a source; jobs that read datasets must not have them.
SOURCE_KEYS = frozenset({"source.class", "ms.source.uri", "ms.extractor.class"})
_NAMED = {True: "both job and dataset", False: "neither job nor dataset"}
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class InputStore(Setting):
    """The state store of an input whose job file is elsewhere."""

    type: Literal["sqlite", "fs", "filelog", "postgresql", "mysql"] = member(
        "Kind of store, as `state.store.type`.", default="sqlite"
    )
    dir: str = member(
        "Folder of the store, as `state.store.dir`. A relative path starts at the folder of the "
        "job file.",
        default="",
    )
    url: str = member(
        "Database of the store, as `state.store.db.url`; `env:NAME` and other references to"
        " secrets are read.",
        default="",
    )


@dataclass(frozen=True, slots=True)
class QueryInput(Setting):
    """One entry of ``ms.query.inputs``: a dataset, by its job file or by name and store."""

    view: str = member("Name of the view that the query reads.", name="as")
    job: str = member(
        "Job file that publishes the dataset. A relative path starts at the folder of this job "
        "file.",
        default="",
    )
    dataset: str = member(
        "`job.name` of the job that publishes the dataset, if its job file is not here.", default=""
    )
    store: InputStore | None = member(
        "With `dataset`: the state store of that job.", name="state.store", default=None
    )
    late: bool = member(
        "Whether the late rows beside the dataset, in `<dataset>_late`, are read, too.",
        default=False,
    )
    closed: bool = member(
        "Whether only rows of closed timelabels are read, each label once, after it is closed.",
        default=False,
    )


def _inputs(value: JsonValue, _around: ReadContext) -> tuple[QueryInput, ...]:
    found = each(as_array(value), _input)
    counts = Counter(item.view.lower() for item in found)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise ShapeError(
            (
                f'names the view "{twice[0]}" more than once',
                'Give each input an "as" of its own; upper and lower case do not differ in SQL.',
            )
        )
    return found


def _input(item: JsonValue, where: str) -> QueryInput:
    found = build(QueryInput, as_object(item, where), where)
    findings = []
    if not _VIEW.fullmatch(found.view):
        findings.append(
            (
                f'{where}.as is "{found.view}", which cannot name a view',
                "Write letters, digits and underscores, no digit first.",
            )
        )
    if bool(found.job) == bool(found.dataset):
        findings.append(
            (
                f"{where} names {_NAMED[bool(found.job)]}",
                f'Write {{"job": "orders.conf", "as": "{found.view}"}}, or "dataset" with '
                '"state.store" if the job file is not here.',
            )
        )
    elif found.dataset and found.store is None:
        findings.append(
            (
                f'{where} lacks the member "state.store"',
                'Name the state store of that job: {"type": "sqlite", "dir": "/data/state"}.',
            )
        )
    elif found.job and found.store is not None:
        findings.append(
            (f"{where} has state.store and job", "Leave it out: the job file names the store.")
        )
    if found.late and found.closed:
        findings.append(
            (
                f"{where} has late and closed",
                "Leave one of them out: late rows come after their label is closed, and a closed "
                "label is read once.",
            )
        )
    if findings:
        raise ShapeError(*findings)
    return found


_Inputs = Annotated[tuple[QueryInput, ...], Written(ValueType.JSON_ARRAY, read=_inputs)]
_Mode = Annotated[Literal["append", "full", "windowed"], ONE_OF]
_EXAMPLE = """\
[{"job": "orders.conf", "as": "orders"},
 {"dataset": "customers", "as": "customers",
  "state.store": {"type": "postgresql", "url": "env:CUSTOMERS_STATE"}}]"""


@dataclass(frozen=True, slots=True)
class QuerySection(Section):
    """A dataset that a query derives from other datasets."""

    inputs: _Inputs = prop(
        INPUTS,
        "Datasets that the job reads in place of a source, each as a view of its query. Such a job "
        "has no `source.class` and no other property of a source.",
        default=(),
        example=_EXAMPLE,
        hidden_members="`url` of `state.store`",
    )
    sql: Text = prop(
        SQL,
        "The query, in Spark SQL over the views of the inputs. A job needs one of `ms.query.sql`, "
        "`ms.query.file` and `ms.query.function`.",
        default="",
        example="SELECT id, amount FROM orders WHERE amount > 100",
    )
    file: PathText = prop(
        FILE,
        "File with the query. A relative path starts at the folder of the job file.",
        default="",
        example="big_orders.sql",
    )
    function: ClassName = prop(
        FUNCTION,
        "Python function that gets the inputs as DataFrames by the names of their views and gives "
        "a DataFrame: `def big(inputs): return inputs['orders'].where('amount > 100')`. It is "
        "looked up like classes of your own, see `ms.plugin.path`.",
        default="",
        example="queries:big",
    )
    mode: _Mode = prop(
        QUERY_MODE,
        "append runs the query over only the new rows of the inputs and appends the result, so the "
        "query may only map and filter rows; full runs the query over the whole inputs again and "
        "replaces the dataset; windowed computes the windows of `ms.window.*`, each once.",
        default="append",
    )
    max_blocks: Annotated[Int, Ge(1)] | None = prop(
        MAX_BLOCKS,
        "Most blocks of each input that a run takes; the next run takes more.",
        default=None,
        example="100",
        identity=False,
    )
    max_rows: Annotated[Long, Ge(1)] | None = prop(
        MAX_ROWS,
        "Most rows of each input that a run takes. A block is never split: a block with more rows "
        "is taken alone.",
        default=None,
        example="10000000",
        identity=False,
    )
    hashes_rows: Bool = prop(
        LOGICAL_HASH,
        "Whether each block gets a hash of its rows that does not depend on files: `dil state "
        "verify "
        "--replay` compares it. It costs a pass over the new rows.",
        default=True,
        identity=False,
    )
    wait_ms: Annotated[Duration, Ge(0)] = prop(
        WAIT,
        "How long `dil run` waits for each input to have new rows. After that time it takes the "
        "new rows of the inputs that have some.",
        default=0,
        shown="PT0S",
        example="PT10M",
        identity=False,
    )


def _aggs(value: JsonValue, _around: ReadContext) -> Mapping[str, str]:
    found: dict[str, str] = {}
    wrong: list[Finding] = []
    for name, text in as_object(value).items():
        if isinstance(text, str) and text.strip():
            found[name] = text.strip()
        else:
            fix = f'Write an aggregate in Spark SQL: {{"{name}": "sum(amount)"}}.'
            wrong.append((f'has no aggregate for "{name}"', fix))
    if wrong:
        raise ShapeError(*wrong)
    return found


_Aggs = Annotated[
    Mapping[str, str],
    Written(
        ValueType.JSON_OBJECT,
        read=_aggs,
        members=(("(a column's name)", "text", "Aggregate in Spark SQL."),),
    ),
]


@dataclass(frozen=True, slots=True)
class WindowSection(Section):
    """Windows of event time over the input of a derived dataset."""

    column: Text = prop(
        WINDOW_COLUMN,
        "Column of the input with the time at which a row happened: a timestamp, a date, or whole "
        "epoch milliseconds.",
        default="",
        example="seen_at",
    )
    size_ms: Annotated[Duration, Ge(1)] | None = prop(
        SIZE,
        "Length of a window, an ISO duration. Windows begin at multiples of the slide since "
        "1970-01-01T00:00:00Z.",
        default=None,
        example="PT1H",
    )
    slide_ms: Annotated[Duration, Ge(1)] | None = prop(
        SLIDE,
        "Time between the starts of two windows; if it is shorter than the size, windows overlap. "
        "Unset: the size.",
        default=None,
        example="PT15M",
    )
    keys: Texts = prop(
        WINDOW_KEYS,
        "Columns by which the rows of a window are grouped.",
        default=(),
        example="site,sensor",
    )
    aggs: _Aggs = prop(
        AGGS,
        "Columns to compute for each window and key: their names, each with an aggregate in Spark "
        "SQL.",
        default_factory=dict,
        shown="{}",
        example='{"total": "sum(amount)", "rows": "count(*)"}',
    )


@dataclass(frozen=True, slots=True)
class DedupeSection(Section):
    """The rule by which a query's rows are left out because they repeat published rows."""

    keys: Texts = prop(
        DEDUPE_KEYS,
        "Columns of the query's result. If rows are equal in all these columns and their times are "
        "at most `ms.dedupe.within` apart, only the first of them is published.",
        default=(),
        example="sensor,reading_id",
    )
    column: Text = prop(
        DEDUPE_COLUMN,
        "Column of the query's result with the time at which a row happened: a timestamp, a date, "
        "or whole epoch milliseconds.",
        default="",
        example="seen_at",
    )
    within_ms: Annotated[Duration, Ge(0)] | None = prop(
        DEDUPE_WITHIN,
        "Most time between a row and its repeat, an ISO duration.",
        default=None,
        example="PT1H",
    )
