"""Jobs that derive datasets from others, in one folder, and runs of them without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from dil import config
from dil.model.job import Job
from dil.model.report import RunReport
from dil.model.stream import STREAM
from dil.operator.compaction import CompactionRequest, compact
from dil.operator.replaying import ReplayedBlock, replay
from dil.operator.streaming import run_stream
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.queries.slices import input_chains
from dil.state import open_store
from dil.state.blocks.verification import ChainReport, verify_chain
from dil.testing.in_process import InProcessExecutor

NOW = 1_704_067_200_000  # 2024-01-01T00:00:00Z
MINUTE = 60_000
_OUTPUT = {
    "extract.namespace": "shop",
    "ms.timezone": "UTC",
    "writer.output.format": "PARQUET",
    "writer.file.path.type": "namespace_table",
}
SCHEMA = [
    {"columnName": "id", "dataType": {"type": "long"}},
    {"columnName": "amount", "dataType": {"type": "long"}},
]

TIMED = [
    {"columnName": "id", "dataType": {"type": "long"}},
    {"columnName": "at", "dataType": {"type": "long"}},
    {"columnName": "site", "dataType": {"type": "string"}},
]
AGGS = {"rows": "count(*)", "total": "sum(id)", "first": "min(at)"}


class Lake:
    """A folder with a root job ``orders``, whose source are files, and with jobs derived from it.

    The clock goes on by a minute with each run.
    """

    def __init__(self, folder: Path, schema: Sequence[object] = SCHEMA) -> None:
        self.folder = folder
        (folder / "in").mkdir(parents=True)
        self.now = NOW
        self._files = 0
        self.orders = self.of_files("orders", schema)

    def of_files(
        self, name: str, schema: Sequence[object], properties: Mapping[str, str] | None = None
    ) -> Path:
        """Write the job file of a root, whose source are the files of the folder ``in``."""
        read = {
            "source.class": "file",
            "ms.extractor.class": "json",
            "ms.source.uri": str(self.folder / "in"),
            "ms.source.files.once": "path",
            "ms.output.schema": json.dumps(schema),
        }
        return self.write(name, {**read, **(properties or {})})

    def write(self, name: str, properties: dict[str, str]) -> Path:
        """Write a job file; an empty text leaves a property out."""
        found = {
            "job.name": name,
            "extract.table.name": name,
            **_OUTPUT,
            "data.publisher.final.dir": str(self.folder / "lake"),
            "state.store.dir": str(self.folder / "state"),
            **properties,
        }
        path = self.folder / f"{name}.conf"
        path.write_text("".join(f"{key}={text}\n" for key, text in found.items() if text))
        return path

    def derive(self, name: str, sql: str, *inputs: str, **changes: str) -> Path:
        """Write the job file of a derived dataset; dots in names are double underscores here."""
        read = [{"job": f"{each}.conf", "as": each} for each in inputs or ("orders",)]
        properties = {"ms.query.inputs": json.dumps(read), "ms.query.sql": sql}
        given = {key.replace("__", "."): text for key, text in changes.items()}
        return self.write(name, {**properties, **given})

    def add(self, *ids: int) -> None:
        """Let the source have a file more, with these rows; amounts are ten times the id."""
        self.put_rows([{"id": each, "amount": each * 10} for each in ids])

    def put_rows(self, rows: Sequence[dict[str, object]]) -> None:
        """Let the source have a file more, with these rows."""
        self._files += 1
        (self.folder / "in" / f"{self._files:04}.json").write_text(json.dumps(rows))

    def job(self, path: Path) -> Job:
        return config.load(path, environ={}).job

    def options(self, **changes: object) -> RunOptions:
        self.now += 60_000
        now = self.now
        options = RunOptions(now_ms=now, clock=lambda: now, executor=InProcessExecutor())
        return replace(options, **changes)  # type: ignore[arg-type]

    def run(self, path: Path, **changes: object) -> RunReport:
        """Run a job."""
        return run_job(self.job(path), self.options(**changes))

    def compact(self, path: Path) -> None:
        """Put the small files of a job's dataset together."""
        self.now += 60_000
        found = compact(self.job(path), CompactionRequest(clock=lambda: self.now))
        assert found.removed > len(found.added)

    def run_as_printed(self, path: Path, advice: str) -> RunReport:
        """Run a job with the settings of the command in an advice."""
        command = advice.partition("dil run JOB.conf ")[2].partition(" (")[0]
        given = dict(word.split("=", 1) for word in command.split() if word != "-D")
        assert given
        return run_job(config.load(path, overrides=given, environ={}).job, self.options())

    def stream(
        self,
        path: Path,
        *,
        stops: Callable[[], bool] = lambda: False,
        forces_new_epoch: bool = False,
        **changes: object,
    ) -> RunReport:
        """Run a job as a stream until it ends; its service waits for nothing."""
        given = {"sleep": lambda _seconds: None, **changes}
        return run_stream(
            self.job(path), self.options(**given), stops=stops, forces_new_epoch=forces_new_epoch
        )

    def newest(self, path: Path) -> dict[str, object]:
        """Return what state keeps of the newest micro-batch of a stream."""
        job = self.job(path)
        with open_store(job.state, job.name, clock=lambda: self.now) as store:
            return dict(store.checkpoint(STREAM))

    def feed(self, *ids: int) -> None:
        """Let the source have these rows, and run the root."""
        self.add(*ids)
        report = self.run(self.orders)
        assert report.exit_code == 0, report.failures

    def ids(self, name: str) -> Counter[int]:
        """Count the rows of a dataset by id, as a reader of its folder finds them."""
        found: Counter[int] = Counter()
        for file in sorted((self.folder / "lake" / "shop" / name).rglob("part-*.parquet")):
            found.update(pq.read_table(file, columns=["id"])["id"].to_pylist())
        return found

    def blocks(self, path: Path) -> list[dict]:
        """Return the blocks of a job's chain, oldest first."""
        job = self.job(path)
        with open_store(job.state, job.name, clock=lambda: self.now) as store:
            return list(store.blocks())[::-1]

    def data(self, path: Path) -> list[dict]:
        """Return the data events of a job's chain, oldest first."""
        events = [block["event"] for block in self.blocks(path)]
        return [event for event in events if event["kind"] in {"AddData", "ExecuteQuery"}]

    def replayed(self, path: Path, first: int = 0, **changes: object) -> list[ReplayedBlock]:
        """Return what replays of the queries of a job's blocks find, from ``first`` on."""
        job = self.job(path)
        with open_store(job.state, job.name, clock=lambda: self.now) as store:
            return list(replay(job, job.query, store, self.options(**changes), first=first))

    def verify(self, path: Path) -> ChainReport:
        job = self.job(path)
        with open_store(job.state, job.name, clock=lambda: self.now) as store:
            if job.query is None:
                return verify_chain(store)
            with input_chains(job.query, lambda: self.now) as chains:
                return verify_chain(store, chains=chains)


class Shop(Lake):
    """A lake whose root job merges orders by id, and records which rows change."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.merged = self.merge()

    def merge(self, **changes: str) -> Path:
        """Write the job file of the root; dots in names are double underscores here."""
        given = {key.replace("__", "."): text for key, text in changes.items()}
        schema = [*SCHEMA, {"columnName": "what", "dataType": {"type": "string"}}]
        merge = {
            "ms.publish.mode": "merge",
            "extract.primary.key.fields": "id",
            "ms.merge.op.field": "what",
            "ms.publish.changelog": "true",
        }
        return self.of_files("merged", schema, {**merge, **given})

    def put(
        self,
        amounts: Mapping[int, int],
        *,
        deleted: Iterable[int] = (),
        changes: Mapping[str, str] | None = None,
    ) -> None:
        """Let the source give rows, and merge them."""
        rows = [{"id": key, "amount": amount, "what": "u"} for key, amount in amounts.items()]
        rows += [{"id": key, "amount": 0, "what": "d"} for key in deleted]
        self.put_rows(rows)
        job = config.load(self.merged, overrides=changes or {}, environ={}).job
        report = run_job(job, self.options())
        assert report.exit_code == 0, report.failures

    def rows(self, name: str, *columns: str) -> Counter[tuple[object, ...]]:
        """Return the rows of a dataset, without their order."""
        files = sorted((self.folder / "lake" / "shop" / name).glob("part-*.parquet"))
        tables = (pq.read_table(file, columns=list(columns)) for file in files)
        return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


class Readings(Lake):
    """A root with event times, whose watermark is ten minutes behind its newest row."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rows: list[dict[str, object]] = []
        lines = self.orders.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("ms.output.schema=")]
        more = {
            "ms.output.schema": json.dumps(TIMED),
            "ms.event.column": "at",
            "ms.event.watermark": "bounded",
            "ms.event.delay": "PT10M",
        }
        self.orders.write_text("\n".join([*kept, *(f"{k}={v}" for k, v in more.items())]) + "\n")

    def put(self, *minutes: int) -> None:
        """Let rows of these minutes arrive, and run the root."""
        self._files += 1
        start = len(self.rows)
        new = [
            {"id": start + n, "at": NOW - 600 * MINUTE + at * MINUTE, "site": "ab"[at % 2]}
            for n, at in enumerate(minutes)
        ]
        self.rows += new
        (self.folder / "in" / f"{self._files:04}.json").write_text(json.dumps(new))
        report = self.run(self.orders)
        assert report.exit_code == 0, report.failures

    def windows(self, name: str, **changes: str) -> Path:
        """Write the job file of windows of half an hour."""
        properties = {
            "ms.query.inputs": json.dumps([{"job": "orders.conf", "as": "orders"}]),
            "ms.query.mode": "windowed",
            "ms.window.column": "at",
            "ms.window.size": "PT30M",
            "ms.window.aggs": json.dumps(AGGS),
            **{key.replace("__", "."): text for key, text in changes.items()},
        }
        return self.write(name, properties)

    def published(self, name: str) -> list[tuple[object, ...]]:
        """Return the rows of a dataset, as a reader of its folder finds them."""
        folder = self.folder / "lake" / "shop" / name
        found = [
            tuple(row.values())
            for path in sorted(folder.rglob("part-*.parquet"))
            for row in pq.read_table(path).to_pylist()
        ]
        return sorted(found)
