"""A job that merges rows by key, its source, and what its dataset holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dil import config
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.state import open_store
from tests.jobs import manifest_files, properties, visible_files
from tests.servers.day_rows import DayRows
from tests.stories import REAL_NOW, day, executor

BY_DAY = {
    "ms.watermark": json.dumps(
        [{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}}]
    ),
    "ms.parameters": json.dumps([{"name": "since", "type": "watermark", "value": "low"}]),
}
# Each run asks for everything: the rows of "day 0".
SNAPSHOT = {
    "ms.watermark": BY_DAY["ms.watermark"],
    "ms.work.unit.partition": "none",
    "ms.parameters": json.dumps([{"name": "since", "type": "primitive", "value": "0"}]),
    "ms.merge.delete.missing": "true",
}
MERGE = {
    "ms.publish.mode": "merge",
    "extract.primary.key.fields": "id",
    "extract.delta.fields": "at",
    "ms.output.schema": "",
    "ms.session.key.field": "",
}


def declared(**columns: str) -> str:
    """Return an output schema of columns that may be null, but for the key."""
    return json.dumps(
        [
            {"columnName": name, "isNullable": name != "id", "dataType": {"type": kind}}
            for name, kind in columns.items()
        ]
    )


# Rows that break the contract are put aside.
STRICT = {
    "ms.output.schema": declared(id="long", name="string", at="long"),
    "ms.schema.contract": "discard_row",
}


class Shop:
    """One job in a folder; ``given`` are its properties."""

    def __init__(self, folder: Path, source: DayRows, **given: str) -> None:
        self.folder = folder
        self.source = source
        self.given = given
        self.executor = executor()
        self._runs = 0

    def conf(self, **changes: str) -> Path:
        """Write the job file; dots in names are double underscores."""
        facts = properties(self.folder, self.source.url, **{**self.given, **changes})
        facts = {**facts, **BY_DAY, **MERGE}
        for name, value in {**self.given, **changes}.items():
            facts[name.replace("__", ".")] = value
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "orders.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))
        return path

    def run(self, days: int, flags: Mapping[str, str] = {}, **changes: str) -> RunReport:
        """Run as of the end of a day, in this process; ``flags`` are settings of ``-D``."""
        self._runs += 1
        options = RunOptions(
            now_ms=day(days),
            clock=lambda: REAL_NOW,
            executor=self.executor,
            run_id=f"run-{self._runs}",
        )
        job = config.load(self.conf(**changes), environ={}, overrides=flags).job
        return run_job(job, options)

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows by key, read by pyarrow; manifest and folder tell the same."""
        every = visible_files(self.folder)
        beside = ("_changelog", "_late")
        files = [path for path in every if not path.parent.name.endswith(beside)]
        assert manifest_files(self.folder) == files
        if not files:
            return []
        table = pa.concat_tables(map(pq.read_table, files), promote_options="default")
        return sorted(table.to_pylist(), key=lambda row: row["id"])

    def changes(self) -> list[str]:
        """Return all rows of the changelog that the chain names, as texts."""
        job = config.load(self.conf(), environ={}).job
        with open_store(job.state, job.name, clock=lambda: REAL_NOW) as store:
            events: list[Any] = [block["event"] for block in store.blocks()]
        kept = [event["changelogData"] for event in events if "changelogData" in event]
        paths = [part["path"].removeprefix("file://") for each in kept for part in each["parts"]]
        assert len(set(paths)) == len(paths)
        return sorted(repr(row) for path in paths for row in pq.read_table(path).to_pylist())

    def brief(self) -> dict[Any, Any]:
        """Return the names by key."""
        return {row["id"]: row["name"] for row in self.rows()}

    def names(self) -> set[str]:
        """Return the names of the files."""
        return {path.name for path in visible_files(self.folder)}
