"""Backfills of a story's job, without Spark: begun, read, compared, published, taken back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from dil.model.interval import Interval
from dil.model.report import RunReport
from dil.operator import acts
from dil.operator.backfill import comparing, dropping, proposing, publishing, reading
from dil.operator.backfill.comparing import Difference
from dil.operator.backfill.definition import Definition, folder_of, known
from dil.operator.backfill.proposing import How, Publication
from dil.operator.backfill.standing import Standing, standing_of
from tests.jobs import published_ids, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import encode, generated_row
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day


class Backfills:
    """What operators do with the backfills of a story's job, at midnight of day ``now``."""

    def __init__(self, story: Story, now: int) -> None:
        self.story = story
        self.now_ms = day(now)

    def clock(self) -> int:
        return self.story.clock

    def begin(self, days: range, *units: str) -> Definition:
        """Decide on a backfill of some days."""
        job = self.story.job()
        window = Interval(day(days.start), day(days.stop))
        texts = tuple(json.dumps({"unit": unit}, separators=(",", ":")) for unit in units)
        with self.story.store() as store:
            plan = reading.propose(job, store, window, texts, now_ms=self.now_ms)
            self.story.clock += 1
            return reading.begin(job, store, plan, window, texts, self.story.clock)

    def read(self, definition: Definition, **pace: int) -> RunReport:
        """Read what is not read yet."""
        options = self.story.options(self.now_ms)
        return reading.read(self.story.job(), definition, options, **pace)

    def take(self, days: range, *units: str) -> Definition:
        """Begin a backfill and read it."""
        definition = self.begin(days, *units)
        assert self.read(definition).exit_code == 0
        return definition

    def propose(
        self, definition: Definition, how: How = How.UNDECIDED, *, is_partial: bool = False
    ) -> Publication:
        """Return what publishing would change."""
        with self.story.store() as store, self._desk(store, definition, is_look=True) as desk:
            return proposing.propose(desk, definition, how, is_partial=is_partial)

    def publish(
        self, definition: Definition, how: How = How.UNDECIDED, *, is_partial: bool = False
    ) -> Publication:
        """Publish a backfill."""
        with self.story.store() as store, self._desk(store, definition) as desk:
            found = proposing.propose(desk, definition, how, is_partial=is_partial)
            publishing.perform(desk, found, self.story.options(self.now_ms))
        return found

    def compare(self, definition: Definition) -> Difference:
        """Compare a backfill with what is live."""
        with self.story.store() as store, self._desk(store, definition, is_look=True) as desk:
            return comparing.compare(desk, definition)

    def undo(self, definition: Definition) -> None:
        """Take the last act back."""
        with self.story.store() as store, self._desk(store, definition, verb="undo") as desk:
            acts.perform(desk, acts.propose_undo(desk))

    def drop(self, definition: Definition) -> None:
        dropping.drop(self.story.job(), definition, self.clock)

    def standing(self, definition: Definition) -> Standing:
        return standing_of(self.story.job(), definition, self.clock)

    def known(self) -> list[Definition]:
        return list(known(self.story.job()))

    def held(self, definition: Definition) -> Counter[tuple[str, int]]:
        """Return the rows in a backfill's folder."""
        folder = Path(folder_of(self.story.job().publishing, definition.id).removeprefix("file://"))
        files = [
            path
            for path in folder.rglob("*.parquet")
            if not any(part.startswith("_") for part in path.relative_to(folder).parts)
        ]
        return published_ids(sorted(files))

    def _desk(self, store, definition, *, is_look=False, verb=""):
        return publishing.open_desk(
            self.story.job(),
            store,
            definition,
            now_ms=self.now_ms,
            clock=self.clock,
            is_look=is_look,
            verb=verb,
        )


def notes_of(story: Story) -> Counter[tuple[str, int, str | None]]:
    """Return the published rows with their note, which ``correct`` changes."""
    rows: Counter[tuple[str, int, str | None]] = Counter()
    for file in visible_files(story.folder):
        for row in pq.read_table(file, columns=["unit", "id", "note"]).to_pylist():
            rows[row["unit"], row["id"], row["note"]] += 1
    return rows


def source_notes(source: HttpServer, days: range) -> Counter[tuple[str, int, str | None]]:
    """Return what the source holds now of some days, as ``notes_of`` does."""
    rows: Counter[tuple[str, int, str | None]] = Counter()
    for held in source.dataset.units.values():
        low, high = held.window(day(days.start), day(days.stop))
        for line in held.encoded[low:high]:
            row = json.loads(line)
            rows[row["unit"], row["id"], row["note"]] += 1
    return rows


def correct(source: HttpServer, unit: str, number: int, **values: object) -> None:
    """Change members of a row of the source, its note unless others are given."""
    held = source.dataset.units[unit]
    row = json.loads(held.encoded[number]) | (values or {"note": "corrected"})
    held.encoded[number] = encode(row)


def take_away(source: HttpServer, unit: str, number: int) -> None:
    """Delete a row of the source."""
    held = source.dataset.units[unit]
    del held.encoded[number], held.times[number]


def late_row(source: HttpServer, unit: str, of_day: int, number: int) -> None:
    """Let a row of an earlier day show up."""
    at = day(of_day) + STEP_MS * (ROWS_PER_DAY - 1) + 1
    source.dataset.extend([generated_row(unit, number, at)])
