"""Streams in this process: a folder of files that is read in micro-batches, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dil.model.report import RunReport
from dil.model.stream import STREAM
from dil.operator.streaming import run_stream
from dil.run.options import RunOptions
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from tests.event_feed import MINUTE, Feed
from tests.integration.local_jobs import NOW
from tests.stories import executor

INGEST = {"ms.stream.mode": "ingest", "ms.stream.max.files": "2"}


class StreamFeed(Feed):
    """The feed as a stream; its service waits for nothing, and ends after so many looks."""

    def stream(
        self,
        *,
        at: int = 0,
        stops: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = lambda _s: None,
        forces_new_epoch: bool = False,
        **changes: str,
    ) -> RunReport:
        """Run the stream until it ends, in minutes after now."""
        self.runs += 1
        now = NOW + at * MINUTE
        options = RunOptions(now_ms=now, clock=lambda: now, executor=executor(), sleep=sleep)
        job = self.job(**{**INGEST, **changes})
        return run_stream(job, options, stops=stops, forces_new_epoch=forces_new_epoch)

    def ids(self) -> Counter[object]:
        """Return the ids of the rows that readers see, how often each."""
        return Counter(row["id"] for row in self.rows())

    def expected(self) -> Counter[object]:
        """Return the ids of the rows that were put, each once."""
        return Counter(self.put_ids)

    def newest(self) -> dict[str, object]:
        """Return what state keeps of the newest micro-batch."""
        job = self.job(**INGEST)
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            return dict(store.checkpoint(STREAM))

    def blocks(self) -> list[dict[str, object]]:
        """Return the events of data, oldest first; the chain is whole."""
        job = self.job(**INGEST)
        with open_store(job.state, job.name, clock=lambda: NOW) as store:
            assert verify_chain(store).is_sound
            found = [dict(block["event"]) for block in store.blocks()]  # type: ignore[arg-type]
        return [event for event in reversed(found) if event["kind"] == "AddData"]

    @property
    def checkpoint_dir(self):
        return self.folder / "lake" / "_checkpoint" / "feed"

    @property
    def put_ids(self) -> list[int]:
        import json

        lines = [
            line
            for path in sorted((self.folder / "in").iterdir())
            for line in path.read_text().splitlines()
        ]
        return [json.loads(line)["id"] for line in lines]
