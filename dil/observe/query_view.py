"""Shows the plan of a derived dataset's run to people and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dil.model.derived import InputSlice
from dil.observe.progress import counted
from dil.text.zones import iso


@dataclass(frozen=True, slots=True)
class InputLine:
    """The slice of one input: blocks ``(first, last]``, and how many rows the query reads.

    ``path`` is the job file of the input, empty if the file is not known.
    """

    view: str
    path: str
    slice: InputSlice
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class QueryPlanView:
    """The plan of a derived dataset; ``waits`` say which inputs have nothing new.

    ``is_due`` says whether a run would commit anything, ``runs`` whether it would run the query.
    """

    job: str
    now: int
    mode: str
    is_due: bool
    runs: bool
    inputs: Sequence[InputLine]
    waits: Sequence[str]
    wait_ms: int = 0

    @property
    def rows(self) -> int:
        """Return how many rows the query reads."""
        return sum(each.rows for each in self.inputs)


def query_json(view: QueryPlanView) -> dict[str, object]:
    """Return the JSON members that only a query's plan has, in addition to those of all plans."""
    return {
        "query": {
            "mode": view.mode,
            "runs": view.runs,
            "rows": view.rows,
            "inputs": [
                {
                    "dataset": line.slice.dataset_id,
                    "as": line.view,
                    "job": line.path or None,
                    "blocks": {"after": line.first, "last": line.last},
                    "offsets": {"after": line.slice.prev_offset, "last": line.slice.last_offset},
                    "new_rows": line.slice.rows,
                    "rows": line.rows,
                }
                for line in view.inputs
            ],
            "waits": list(view.waits),
        }
    }


def query_text(view: QueryPlanView) -> str:
    """Return the plan for people: the due work, and the slice of each input."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: QueryPlanView) -> Iterator[str]:
    over = {"windowed": "windows, each once, when it is closed", "append": "new rows"}
    rows = over.get(view.mode, "all rows, which replaces the dataset")
    yield f"{view.job}  plan at {iso(view.now)}, a query over {rows}"
    if not view.is_due:
        yield "  Nothing is due."
    elif not view.runs:
        new = "the new blocks, which have no rows"
        new = "the new blocks, which close no window" if view.mode == "windowed" else new
        yield f"  Due: only to record {new}; the query is not run."
    else:
        yield f"  Due: the query over {counted(view.rows, 'row')}."
    for each in view.inputs:
        yield f"  {each.slice.dataset_id} as {each.view}: {_taken(each)}"
    for text in view.waits:
        yield f"  waits for: {text}"
    if view.waits and view.wait_ms:
        yield f"  A run waits {view.wait_ms / 1000:g} s for that, at most (ms.query.wait)."


def _taken(line: InputLine) -> str:
    item, blocks = line.slice, blocks_text(line.first, line.last)
    if item.new_block_hash is None:
        taken = f"nothing since block {line.first}"
    elif item.new_offset is None:
        taken = f"{blocks}, no new rows"
    else:
        after = 0 if item.prev_offset is None else item.prev_offset + 1
        offsets = f"offsets {after:,} to {item.new_offset:,}"
        taken = f"{blocks}, {counted(item.rows, 'row')}, {offsets}"
    return taken if line.rows == item.rows else f"{taken}; read: {counted(line.rows, 'row')}"


def blocks_text(after: int, last: int) -> str:
    """Return a text that names the blocks after block ``after``, up to and including ``last``."""
    return f"block {last}" if after + 1 == last else f"blocks {after + 1} to {last}"
