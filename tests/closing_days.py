"""A job that closes the timelabels of its days: what it published, and what its chain says."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq

from dil import config
from dil.model.closed_labels import CLOSED_LABELS, ClosedLabels
from dil.model.job import Job
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from tests.jobs import manifest_files, write_job
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS
from tests.stories import executor


def label(number: int) -> str:
    """Return the timelabel of a day; the first day of the source is day 0."""
    return f"202001{number + 1:02}000000"


class ClosingDays:
    """A job with a work unit a day whose labels are closed; ``now`` is in days since the first."""

    def __init__(self, folder: Path, source: DayRows, **changes: str) -> None:
        self.folder, self.source = folder, source
        facts = {
            "ms__timelabel__schedule": "@daily",
            "ms__timelabel__close": "auto",
            "ms__late__after__close": "reject",
            "ms__publish__mode": "window_replace",
            "ms__watermark": '[{"name": "system", "type": "datetime", '
            '"range": {"from": "2020-01-01", "to": "P0D"}}]',
            "ms__parameters": '[{"name": "since", "type": "watermark", "value": "low"}]',
            "ms__session__key__field": "",
            "ms__output__schema": "",
        }
        self.path = write_job(folder, source.url, **{**facts, **changes})
        self.job: Job = config.load(self.path, environ={}).job

    def fill(self, *days: int, rows: int = 3, first: int = 0) -> None:
        """Give days of the source rows, in place of those they have."""
        for day in days:
            ids = range(first + day * 100, first + day * 100 + rows)
            self.source.days[START_MS + day * DAY_MS] = [{"id": each, "unit": "a"} for each in ids]

    def run(self, day: float) -> RunReport:
        """Run the job some days after the first one of its source began."""
        now = START_MS + int(day * DAY_MS)
        options = RunOptions(now_ms=now, clock=lambda: now, executor=executor())
        return run_job(self.job, options)

    def events(self) -> list[str]:
        """Return the blocks of the chain behind its beginning, oldest first, in short."""
        with open_store(self.job.state, self.job.name, clock=lambda: 0) as store:
            events = [block["event"] for block in store.blocks()]
        kinds = ("AddData", "CloseBooks", "ReopenBooks", "ResetState")
        return [
            " ".join(filter(None, (each["kind"], each.get("timelabel"), each.get("act"))))
            for each in reversed(events)
            if each["kind"] in kinds
        ]

    def closed_labels(self) -> ClosedLabels:
        """Return what is closed."""
        with open_store(self.job.state, self.job.name, clock=lambda: 0) as store:
            return ClosedLabels.of(store.checkpoint(CLOSED_LABELS))

    def closed(self, days: int) -> list[int]:
        """Return which of the first days are closed."""
        closed = self.closed_labels()
        return [
            day
            for day in range(days)
            if any(
                each.low <= START_MS + day * DAY_MS and START_MS + (day + 1) * DAY_MS <= each.high
                for each in closed.stretches
            )
        ]

    def ids(self) -> list[int]:
        """Return the ids of all published rows."""
        files = [unquote(str(file)) for file in manifest_files(self.folder)]
        tables = [pq.ParquetFile(file).read(columns=["id"]) for file in files]
        return sorted(id_ for table in tables for id_ in table["id"].to_pylist())

    def beside(self) -> list[dict[str, object]]:
        """Return the rows beside the dataset, without the id of the run that read them."""
        folder = self.folder / "lake" / self.job.publishing.dataset_path.strip("/")
        files = sorted(folder.with_name(f"{folder.name}_late").glob("*"))
        found = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert all(row.pop("_batch") for row in found)
        return sorted(found, key=lambda row: (row["id"], row["_timelabel"]))

    def problems(self) -> tuple[str, ...]:
        """Return what ``dil state verify`` finds."""
        with open_store(self.job.state, self.job.name, clock=lambda: 0) as store:
            return verify_chain(store).problems
