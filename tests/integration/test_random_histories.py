"""Random histories of one job: whatever happens in whatever order, each row is published once.

A history is a sequence of runs and of what operators do, of which any may be killed at any step,
while the source gets rows late, loses rows within grace, and the job file changes. At the end the
job runs to its end on three more days; then the dataset has every row of the source once, and state
and dataset fit each other. Meanwhile somebody reads by the manifest, and sees whole work units,
each row once. Runs may also be stopped until their lease is over and somebody else ran. A seed
gives the same history again, up to the clock: a seed that once found something belongs into
``KEPT``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from tests.integration.killed_jobs import kill_server
from tests.integration.places import on_place
from tests.integration.s3_places import Bucket, OrderlyMoto, use
from tests.jobs import write_job
from tests.marks import some_long
from tests.servers.databases import new_database
from tests.servers.http_server import HttpServer
from tests.servers.postgresql import PASSWORD, PostgresqlServer
from tests.servers.rows import DAY_MS, START_MS, Dataset, UnitRows, generated_row
from tests.torture.kills import KillServer
from tests.torture.lakes import BucketLake, Lake, LocalLake
from tests.torture.manifest_reader import ManifestReader

HISTORY_SERVER = Path(__file__).parents[1] / "torture" / "history_server.py"
STORES = ("sqlite", "filelog", "postgresql")
# The short form; `make torture` plays more and longer ones.
HISTORIES = int(os.environ.get("DIL_HISTORIES", "1"))
STEPS = int(os.environ.get("DIL_HISTORY_STEPS", "10"))
# 3 appends from an older copy of the state.
KEPT: dict[str, tuple[int, ...]] = {"sqlite": (3,), "filelog": (), "postgresql": ()}
ROWS_PER_DAY = 3
STEP_MS = DAY_MS // ROWS_PER_DAY
LAST_DAY = 40
# How many histories that append begin with files that work units share, and how often that changes.
SHARING, CHANGED = 0.7, 0.1
GRACE_DAYS = 2
MODES = {
    "append": {"ms__publish__mode": "append"},
    "window_replace": {
        "ms__publish__mode": "window_replace",
        "ms__grace__period__days": str(GRACE_DAYS),
    },
}
# By names of their own, because kept seeds choose among those above.
FURTHER_MODES = {
    "merge": {
        "ms__publish__mode": "merge",
        "extract__primary__key__fields": "id,unit",
        "extract__delta__fields": "updated_ms",
        "ms__grace__period__days": str(GRACE_DAYS),
    },
    "replace": {"ms__publish__mode": "replace", "extract__table__type": "SNAPSHOT_ONLY"},
}
SLEEPS = 0.08
REPLACED = 0.1
# By then the lease of a process that sleeps is over.
LATER_S = 3600


class History:
    """One job, its source and its operators; ``now`` is a midnight."""

    def __init__(
        self,
        folder: Path,
        lake: Lake,
        source: HttpServer,
        kills: KillServer,
        store: dict[str, str],
        seed: int,
        mode: str = "",
    ) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.lake = lake
        self.source = source
        self.kills = kills
        self.now = START_MS + 2 * DAY_MS
        chosen = self.random.choice(sorted(MODES))
        self.mode = mode or chosen
        self.policy = self.random.choice(("full", "successful"))
        # A choice of its own, so that a kept seed still gives the history that it was kept for.
        may_share = self.mode in {"append", "replace"}
        self.sharing = Random(f"sharing {seed}") if may_share else None
        is_kept = any(seed in seeds for seeds in KEPT.values())
        self.sleeping = None if is_kept else Random(f"sleeping {seed}")
        replaces_always = self.mode == "replace"
        self.replacing = None if is_kept or replaces_always else Random(f"replacing {seed}")
        self.ahead = 0
        self.shares = self.sharing is not None and self.sharing.random() < SHARING
        self.store = store
        self.told: list[str] = [f"seed {seed}, {self.mode}{', shared' if self.shares else ''}"]
        self.calls = 2000
        self.late = 0
        self.backups = 0

    @property
    def job(self) -> Path:
        """Write the job file anew and return its path."""
        given = {
            **(MODES | FURTHER_MODES)[self.mode],
            **self.store,
            "job__commit__policy": self.policy,
        }
        if self.shares:
            given["ms__output__file__per__work__unit"] = "false"
        return write_job(self.folder, self.source.url, **given)

    def play(self, steps: int) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (4, self.kill_run),
            (3, self.run),
            (3, self.next_day),
            (2, self.withdraw),
            (1, self.rewind),
            (1, self.undo),
            (1, self.compact),
            (1, self.clean),
            (1, self.change_policy),
            (1, self.restore_older),
        ]
        if self.mode == "window_replace":
            acts += [(2, self.add_late), (2, self.delete), (1, self.backfill)]
        elif self.mode == "merge":
            acts += [(2, self.add_late), (2, self.change)]
        elif self.mode == "replace":
            acts += [(2, self.add_late), (2, self.delete), (2, self.change)]
        weights, choices = zip(*acts, strict=True)
        for _ in range(steps):
            (act,) = self.random.choices(choices, weights)
            act()
            if self.sleeping is not None and self.sleeping.random() < SLEEPS:
                self.sleep_and_wake(self.sleeping.randrange(self.calls // 4))
            if self.replacing is not None and self.replacing.random() < REPLACED:
                self.replace_once(self.replacing)
            if self.sharing is not None and self.sharing.random() < CHANGED:
                self.shares = not self.shares
                self.told.append("files shared" if self.shares else "a file per work unit")

    # The job

    def run(self, **changes: str) -> None:
        answer = self._order(f"run {changes}", job=str(self.job), now=self.now, changes=changes)
        assert answer["exit"] == 0, self.story(answer)
        self.calls = max(answer["calls"], 200)

    def kill_run(self) -> None:
        self._order("run", job=str(self.job), now=self.now, at=self._any_call())

    def sleep_and_wake(self, at: int) -> None:
        """Stop a run until its lease is over and another one ran, then let it go on."""
        order = {"job": str(self.job), "now": self.now}
        answer = self._order("run that may sleep", at=at, stops=True, **order)
        if not answer.get("stopped"):
            return
        self.ahead += LATER_S
        self.run()
        before = self.rows()
        # It fails, finds nothing to do, or had done it all: whatever it says, it changes nothing.
        woken = self._order("woken", wake=True)
        assert self.rows() == before, self.story(woken)

    def backfill(self) -> None:
        """Read everything again, rows in place of those that are there."""
        changes = {"ms.backfill": "true"}
        at = self.random.choice((-1, self._any_call()))
        answer = self._order("backfill", job=str(self.job), now=self.now, changes=changes, at=at)
        assert at >= 0 or answer["exit"] == 0, self.story(answer)

    def replace_once(self, chance: Random) -> None:
        """Let one run replace the dataset with rows of a narrower range; repeat it after a kill."""
        self.run()  # a publish that was begun under the job's own mode is finished under that mode
        days = (self.now - START_MS) // DAY_MS
        begin = chance.randrange(days)
        end = chance.randrange(begin + 1, days + 1)
        dates = {"from": _date(begin), "to": _date(end)}
        units = chance.choice(("a", "b", "a,b"))
        watermark = [
            {"name": "system", "type": "datetime", "range": dates},
            {"name": "unit", "type": "unit", "units": units},
        ]
        changes = {"ms.publish.mode": "replace", "ms.watermark": json.dumps(watermark)}
        order = {"job": str(self.job), "now": self.now, "changes": changes}
        name = f"replace once {units} {begin} to {end}"
        at = chance.choice((-1, chance.randrange(self.calls)))
        answer = self._order(name, at=at, **order)
        if answer["killed"]:
            answer = self._order(name, **order)
        assert answer["exit"] == 0, self.story(answer)

    def change_policy(self) -> None:
        self.policy = "full" if self.policy == "successful" else "successful"
        self.told.append(f"policy {self.policy}")

    def next_day(self) -> None:
        self.now += DAY_MS * self.random.choice((1, 1, 2))
        self.told.append(f"day {(self.now - START_MS) // DAY_MS}")

    # The source

    def add_late(self) -> None:
        self.late += 1
        time = self.now - self.random.randrange(1, GRACE_DAYS * DAY_MS)
        unit = self.random.choice("ab")
        self.source.dataset.extend([generated_row(unit, 100_000 + self.late, time)])
        self.told.append(f"late row {self.late} in {unit}, day {(time - START_MS) / DAY_MS:.2f}")

    def change(self) -> None:
        """Change a row at the source, which gives it a later time."""
        unit = self.random.choice("ab")
        held = self.source.dataset.units[unit]
        low, high = held.window(self.now - DAY_MS, self.now)
        if low == high:
            return
        place = self.random.randrange(low, high)
        row = json.loads(held.encoded[place])
        row["updated_ms"] = self.random.randrange(held.times[place], self.now)
        self.source.dataset.units[unit] = UnitRows(
            held.times[:place] + held.times[place + 1 :],
            held.encoded[:place] + held.encoded[place + 1 :],
        )
        self.source.dataset.extend([row])
        self.told.append(f"row {row['id']} of {unit} changed")

    def delete(self) -> None:
        unit = self.random.choice("ab")
        held = self.source.dataset.units[unit]
        low, high = held.window(self.now - DAY_MS, self.now)
        if low < high:
            gone = self.random.randrange(low, high)
            self.source.dataset.units[unit] = UnitRows(
                held.times[:gone] + held.times[gone + 1 :],
                held.encoded[:gone] + held.encoded[gone + 1 :],
            )
            self.told.append(f"row {gone} of {unit} deleted")

    # Operators

    def withdraw(self) -> None:
        day = self.random.randrange((self.now - START_MS) // DAY_MS)
        unit = json.dumps({"unit": self.random.choice("ab")}, separators=(",", ":"))
        which = f"[watermark.system.{START_MS + day * DAY_MS}, watermark.unit.{unit}]"
        self._command("state", "forget", "--signature", which, "--withdraw-files", "--yes")

    def rewind(self) -> None:
        day = self.random.randrange((self.now - START_MS) // DAY_MS)
        to = _iso(START_MS + day * DAY_MS)
        self._command("state", "rewind", "--to", to, "--withdraw-files", "--yes")

    def undo(self) -> None:
        self._command("state", "undo", "--yes")

    def compact(self) -> None:
        self._command("compact", has_now=False)

    def clean(self) -> None:
        self._command("runs", "clean", "--yes", has_now=False)

    def restore_older(self) -> None:
        """Restore a state from before a run: nothing is appended until the newest is back."""
        self.backups += 1
        older = self.folder / f"older-{self.backups}.db"
        self._command("state", "backup", str(older), "--yes", has_now=False, may_die=False)
        self.now += DAY_MS
        self.run()
        newest = self.folder / f"newest-{self.backups}.db"
        self._command("state", "backup", str(newest), "--yes", has_now=False, may_die=False)
        if not older.exists():
            return
        before = self.rows()
        self._command("state", "restore", str(older), "--yes", has_now=False, may_die=False)
        if self.mode == "append":
            self._order("run on older state", job=str(self.job), now=self.now)
            assert self.rows() == before, self.story()
        self._command("state", "restore", str(newest), "--yes", has_now=False, may_die=False)

    # The end

    def finish(self) -> None:
        for _ in range(GRACE_DAYS + 1):
            self.run()
            self.run()
            self.now += DAY_MS
        self.run()
        expected, found = self.source.dataset.ids(self.now), self.rows()
        assert found - expected == Counter(), f"doubled: {self.story()}"
        assert expected - found == Counter(), f"lost: {self.story()}"
        answer = self._command("state", "verify", has_now=False, may_die=False)
        assert answer["exit"] == 0, self.story(answer)
        assert self.lake.staged() == [], self.story()

    def rows(self) -> Counter[tuple[str, int]]:
        newest = self.lake.newest()
        return Counter() if newest is None else self.lake.rows_of(newest[1])

    def story(self, answer: dict[str, object] | None = None) -> str:
        return "\n".join([*self.told, *([] if answer is None else [str(answer["error"])])])

    def _command(
        self, *words: str, has_now: bool = True, may_die: bool = True
    ) -> dict[str, object]:
        group = 2 if words[0] in {"state", "runs"} else 1
        now = ("--now", _iso(self.now)) if has_now else ()
        arguments = [*words[:group], str(self.job), *words[group:], *now]
        at = self._any_call() if may_die and self.random.random() < 0.4 else -1
        return self._order(" ".join(words), arguments=arguments, at=at)

    def _any_call(self) -> int:
        return self.random.randrange(self.calls)

    def _order(self, name: str, at: int = -1, **order: object) -> dict[str, object]:
        answer = self.kills.order(at=at, ahead=self.ahead, **order)
        if answer.get("stopped"):
            self.told.append(f"{name}: asleep at {at}")
            return answer
        how = "killed" if answer["killed"] else f"exit {answer['exit']}"
        self.told.append(f"{name}: {how} at {at}" if at >= 0 else f"{name}: {how}")
        return answer


def _iso(now: int) -> str:
    return f"{datetime.fromtimestamp(now / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _date(day: int) -> str:
    return _iso(START_MS + day * DAY_MS)[:10]


@pytest.fixture(scope="module")
def kills() -> Iterator[KillServer]:
    with KillServer(HISTORY_SERVER) as server:
        yield server


@pytest.mark.parametrize("kind", some_long(STORES, "postgresql"))
def test_each_row_is_published_once_whatever_happens(
    kind: str, tmp_path: Path, kills: KillServer, request: pytest.FixtureRequest
) -> None:
    first = 1000 * STORES.index(kind)
    for seed in {*KEPT[kind], *range(first, first + HISTORIES)}:
        folder = tmp_path / str(seed)
        with _store(kind, request) as store:
            _play(store, "", folder, LocalLake(folder), kills, seed)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("merge", "sqlite"),
        pytest.param("merge", "filelog", marks=pytest.mark.long),
        pytest.param("replace", "postgresql", marks=pytest.mark.long),
    ],
)
def test_each_row_is_published_once_where_runs_read_again(
    mode: str, kind: str, tmp_path: Path, kills: KillServer, request: pytest.FixtureRequest
) -> None:
    first = 10_000 + 1000 * STORES.index(kind)
    for seed in range(first, first + HISTORIES):
        folder = tmp_path / str(seed)
        with _store(kind, request) as store:
            _play(store, mode, folder, LocalLake(folder), kills, seed)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["", "merge"])
def test_each_row_is_published_once_with_dataset_and_state_on_s3(
    mode: str, tmp_path: Path, moto: OrderlyMoto
) -> None:
    first = 20_000 + 1000 * bool(mode)
    with kill_server(lambda patch: use(moto.url, patch), HISTORY_SERVER) as kills:
        for seed in range(first, first + HISTORIES):
            bucket = Bucket(moto)
            lake = BucketLake(bucket)
            _play(on_place(bucket), mode, tmp_path / str(seed), lake, kills, seed, steps=STEPS // 2)


@contextmanager
def _store(kind: str, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Yield the properties of a store."""
    if kind != "postgresql":
        yield {"state__store__type": kind}
        return
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    with new_database(server) as url:
        yield {
            "state__store__type": kind,
            "state__store__db__url": url,
            "state__store__db__user": "admin",
            "state__store__db__password": PASSWORD,
            "state__store__dir": "",
        }


def _play(
    store: dict[str, str],
    mode: str,
    folder: Path,
    lake: Lake,
    kills: KillServer,
    seed: int,
    steps: int = STEPS,
) -> None:
    rows = Dataset.generate(LAST_DAY * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    days = {} if mode else _days(rows)
    with HttpServer(rows) as source:
        history = History(folder, lake, source, kills, store, seed, mode)
        with ManifestReader(lake, days if history.mode == "append" else {}, seed) as reader:
            history.play(steps)
            history.finish()
        reader.look()
        assert reader.problems == [], history.story()
        assert reader.looks > 1
        assert lake.listed() == lake.visible(), history.story()


def _days(rows: Dataset) -> dict[tuple[str, int], object]:
    """Return the unit and the day of each row, which are those of its work unit."""
    return {
        (unit, json.loads(line)["id"]): (unit, (time - START_MS) // DAY_MS)
        for unit, held in rows.units.items()
        for time, line in zip(held.times, held.encoded, strict=True)
    }
