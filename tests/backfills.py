"""Backfills of a story's job, without Spark: begun, read, compared, published, taken back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from dil.model.interval import Interval
from dil.model.report import RunReport
from dil.operator import amendments
from dil.operator.backfill import comparing, publication, publishing, reading
from dil.operator.backfill.comparing import Difference
from dil.operator.backfill.definition import BackfillDefinition, folder_of, list_backfills
from dil.operator.backfill.publication import Publication, RowDecision
from dil.operator.backfill.status import BackfillStatus, read_status
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

    def begin(self, days: range, *units: str) -> BackfillDefinition:
        """Decide on a backfill of some days, up to now at most."""
        job = self.story.job()
        window = Interval(day(days.start), min(day(days.stop), self.now_ms))
        texts = tuple(json.dumps({"unit": unit}, separators=(",", ":")) for unit in units)
        with self.story.store() as store:
            plan = reading.plan_backfill(job, store, window, texts, now_ms=self.now_ms)
            self.story.clock += 1
            return reading.begin(job, store, plan, window, texts, self.story.clock)

    def read(self, definition: BackfillDefinition, **pace: int) -> RunReport:
        """Read what is not read yet."""
        options = self.story.options(self.now_ms)
        return reading.read(self.story.job(), definition, options, **pace)

    def take(self, days: range, *units: str) -> BackfillDefinition:
        """Begin a backfill and read it."""
        definition = self.begin(days, *units)
        assert self.read(definition).exit_code == 0
        return definition

    def propose(
        self,
        definition: BackfillDefinition,
        how: RowDecision = RowDecision.UNDECIDED,
        *,
        is_partial: bool = False,
    ) -> Publication:
        """Return what publishing would change."""
        with (
            self.story.store() as store,
            self._session(store, definition, is_dry_run=True) as session,
        ):
            return publication.propose_publication(session, definition, how, is_partial=is_partial)

    def publish(
        self,
        definition: BackfillDefinition,
        how: RowDecision = RowDecision.UNDECIDED,
        *,
        is_partial: bool = False,
    ) -> Publication:
        """Publish a backfill."""
        with self.story.store() as store, self._session(store, definition) as session:
            found = publication.propose_publication(session, definition, how, is_partial=is_partial)
            publishing.publish(session, found, self.story.options(self.now_ms))
        return found

    def compare(self, definition: BackfillDefinition) -> Difference:
        """Compare a backfill with what is live."""
        with (
            self.story.store() as store,
            self._session(store, definition, is_dry_run=True) as session,
        ):
            return comparing.compare(session, definition)

    def undo(self, definition: BackfillDefinition) -> None:
        """Take the last act back."""
        with self.story.store() as store, self._session(store, definition, verb="undo") as session:
            amendments.apply(session, amendments.propose_undo(session))

    def drop(self, definition: BackfillDefinition) -> None:
        publishing.drop(self.story.job(), definition, self.clock)

    def status(self, definition: BackfillDefinition) -> BackfillStatus:
        return read_status(self.story.job(), definition, self.clock)

    def known(self) -> list[BackfillDefinition]:
        return list(list_backfills(self.story.job()))

    def held(self, definition: BackfillDefinition) -> Counter[tuple[str, int]]:
        """Return the rows in a backfill's folder."""
        folder = Path(folder_of(self.story.job().publishing, definition.id).removeprefix("file://"))
        files = [
            path
            for path in folder.rglob("*.parquet")
            if not any(part.startswith("_") for part in path.relative_to(folder).parts)
        ]
        return published_ids(sorted(files))

    def _session(self, store, definition, *, is_dry_run=False, verb=""):
        return publishing.open_session(
            self.story.job(),
            store,
            definition,
            now_ms=self.now_ms,
            clock=self.clock,
            is_dry_run=is_dry_run,
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
