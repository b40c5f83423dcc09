"""Structured Streaming over scripted batches: which rows Spark itself keeps, and its watermarks.

``python spark_events.py FOLDER JVM_OPTIONS < SCRIPTS`` reads one script per line, a JSON object,
and prints one line with Spark's answer. It imports nothing of DIL, so that the Python of any Spark
can run it.

A script is ``{"kind", "policy", "delays_ms", "window_ms", "batches", "stops"}``. ``batches[b][s]``
has the rows of stream s in batch b as ``[id, time in ms or null]``. The streams are united. Then
the kind ``dedupe`` drops late rows one by one, and the kind ``windows`` collects the ids of each
window. The query is stopped after each number of batches in ``stops``, and goes on from its
checkpoint.

The answer is ``{"batches", "emitted"}``. ``batches`` has, for each batch of Spark (also without
data), its watermark in ms, and how many scripted batches were read by its end. ``emitted`` has, for
each batch that emitted rows, its number and the rows, ``[id]`` or ``[start of the window in ms,
ids]``.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - Spark 4.0 runs on Python 3.9
MILLISECOND = timedelta(milliseconds=1)
FIRST_S = 1_700_000_000  # when the file of the first batch was written
# How many queries run at once; a batch of a few rows waits longer than it computes.
AT_ONCE = 3

RENAMING = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


class Player:
    """Plays one script in a folder of its own."""

    def __init__(self, spark: SparkSession, folder: Path, script: dict[str, Any]) -> None:
        self.spark = spark
        self.folder = folder
        self.script = script
        self.emitted: list[tuple[int, list[Any]]] = []
        self.batches: dict[int, tuple[int, int]] = {}

    def play(self) -> dict[str, Any]:
        self.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", self.script["policy"])
        self.folder.mkdir()
        for stop in (*self.script["stops"], len(self.script["batches"])):
            self._offer(stop)
            query = self._start()
            try:
                query.processAllAvailable()
                self._note(query)
            finally:
                query.stop()
        batches = [self.batches[number] for number in sorted(self.batches)]
        return {"batches": batches, "emitted": self.emitted}

    def _offer(self, count: int) -> None:
        """Give the streams the first batches, one file each; earlier batches get older files."""
        for number, batch in enumerate(self.script["batches"][:count]):
            for stream, rows in enumerate(batch):
                path = self.folder / f"stream-{stream}" / f"{number}.json"
                if path.exists():
                    continue
                path.parent.mkdir(exist_ok=True)
                lines = [json.dumps({"id": ident, "at": ms}) + "\n" for ident, ms in rows]
                hidden = path.with_name(f"_{path.name}")
                hidden.write_text("".join(lines))
                os.utime(hidden, (FIRST_S + number, FIRST_S + number))
                hidden.rename(path)

    def _start(self) -> StreamingQuery:
        writer = self._query().writeStream.foreachBatch(self._take).outputMode("append")
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def _query(self) -> DataFrame:
        streams = [
            self.spark.readStream.schema("id int, at long")
            .option("maxFilesPerTrigger", 1)
            .json(str(self.folder / f"stream-{stream}"))
            .select("id", f.timestamp_millis("at").alias("at"))
            .withWatermark("at", f"{delay} milliseconds")
            for stream, delay in enumerate(self.script["delays_ms"])
        ]
        rows = streams[0]
        for other in streams[1:]:
            rows = rows.union(other)
        if self.script["kind"] == "dedupe":
            return rows.dropDuplicates(["id", "at"]).select("id")
        window = f.window("at", f"{self.script['window_ms']} milliseconds")
        grouped = rows.groupBy(window).agg(f.sort_array(f.collect_list("id")).alias("ids"))
        return grouped.select(f.unix_millis("window.start").alias("start"), "ids")

    def _take(self, rows: DataFrame, batch: int) -> None:
        found = [list(row) for row in rows.collect()]
        if found:
            self.emitted.append((batch, found))

    def _note(self, query: StreamingQuery) -> None:
        for each in query.recentProgress:
            progress = json.loads(each.json)
            if "addBatch" in progress["durationMs"]:  # else the trigger ran no batch
                mark = progress["eventTime"].get("watermark", "1970-01-01T00:00:00.000Z")
                at = datetime.strptime(mark, "%Y-%m-%dT%H:%M:%S.%f%z")
                mark_ms = (at - EPOCH) // MILLISECOND
                read = max(source["endOffset"]["logOffset"] for source in progress["sources"])
                self.batches[progress["batchId"]] = (mark_ms, read + 1)


def session(java_options: str) -> SparkSession:
    """Start a Spark for queries of a few rows."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": java_options,
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    if not pyspark.__version__.startswith("4.0."):  # which has it in another package
        # The default manager starts a program, readlink, for each path that it renames.
        settings["spark.sql.streaming.checkpointFileManagerClass"] = RENAMING
    builder = SparkSession.builder.master(f"local[{AT_ONCE}]").appName("scripted")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(folder: Path, java_options: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session(java_options)

    def answer(numbered: tuple[int, str]) -> str:
        number, script = numbered
        return json.dumps(
            Player(spark.newSession(), folder / str(number), json.loads(script)).play()
        )

    try:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for line in threads.map(answer, enumerate(sys.stdin)):
                print(line, flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
