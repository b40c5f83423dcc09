"""``dil runs abandon`` at each kind of destination: no row is lost or doubled, whatever landed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import CommitUnknownError
from dil.model.report import RunStatus
from dil.publishing import files, table_destination, withdrawal
from tests.jobs import published_ids, visible_files
from tests.killed import KilledError, killed
from tests.marks import some_long
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day, ids_of
from tests.table_readers import delta_table, ids, rows_of
from tests.torture.kills import KillServer, restore
from tests.warehouses import Warehouse, new_warehouse

HISTORY_SERVER = Path(__file__).parents[1] / "torture" / "history_server.py"
# The short form kills at this many steps of each path; the long form (make torture) at more.
KILLS = int(os.environ.get("DIL_KILLS", "5"))
PLACES = ("files", "delta", "iceberg", "sqlite", "duckdb", "postgresql", "mysql")
MODES = {
    "append": {},
    "window_replace": {"ms__publish__mode": "window_replace", "ms__grace__period__days": "1"},
}


@pytest.fixture(scope="module")
def source() -> Iterator[HttpServer]:
    rows = Dataset.generate(6 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as server:
        yield server


class Place(Story):
    """A story whose rows are in a place of some kind."""

    def __init__(
        self, folder: Path, source: HttpServer, kind: str, warehouse: Warehouse | None, **given: str
    ) -> None:
        if warehouse is not None:
            given["ms__warehouse__url"] = warehouse.url
        elif kind != "files":
            given["ms__table__format"] = kind
        super().__init__(folder, source, **given)
        self.kind, self._warehouse = kind, warehouse

    @property
    def conf(self) -> str:
        return str(self.folder / "orders.conf")

    def found(self) -> Counter[tuple[str, int]]:
        """Return what a reader of the place finds."""
        if self._warehouse is not None:
            return Counter(
                self._warehouse.rows(f"SELECT unit, id FROM {self._warehouse.prefix}orders")
            )
        if self.kind == "files":
            return published_ids(visible_files(self.folder))
        return ids(rows_of(self.kind, self.folder))

    def edit_intent(self, change: Callable[[str], str]) -> None:
        """Change the record of the publish that was begun."""
        (path,) = (self.folder / "state").glob("state.db")
        with closing(sqlite3.connect(path)) as connection, connection:
            ((text,),) = connection.execute("SELECT payload FROM intent").fetchall()
            connection.execute("UPDATE intent SET payload = ?", (change(text),))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, source: HttpServer) -> Iterator[Place]:
    kind, mode = request.param
    if kind in {"files", "delta", "iceberg"}:
        yield Place(tmp_path, source, kind, None, **MODES[mode])
        return
    with new_warehouse(kind, tmp_path, request) as warehouse:
        yield Place(tmp_path, source, kind, warehouse, **MODES[mode])


def cut_off(place: Place, now: int, monkeypatch: pytest.MonkeyPatch, *, has_landed: bool) -> None:
    """Run until the intent is recorded, or until it is carried out and not committed."""

    cut = "dil.run.commit.append" if has_landed else "dil.publishing.publisher.Publisher.carry_out"
    with monkeypatch.context() as patch:
        patch.setattr(cut, killed)
        with pytest.raises(KilledError):
            place.run(now)


def move_elsewhere(text: str) -> str:
    """Let the record name another file for one of the moves."""
    told = json.loads(text)
    move = told["intent"]["commit"]["moves"][0]
    move["source"] = "/etc/passwd"
    return json.dumps(told)


def all_elsewhere(text: str) -> str:
    told = json.loads(text)
    for number, move in enumerate(told["intent"]["commit"]["moves"]):
        move["source"] = f"/etc/{number}"
    return json.dumps(told)


def newer(text: str) -> str:
    return json.dumps({**json.loads(text), "format": 99})


def damaged(text: str) -> str:
    return text[: len(text) // 2]


EDITS: dict[str, Callable[[str], str] | None] = {
    "as it was": None,
    "one move of another file": move_elsewhere,
    "all moves of other files": all_elsewhere,
    "of a newer release": newer,
    "damaged": damaged,
}
CASES = [
    *(("files", "append", edit, landed) for edit in EDITS for landed in (False, True)),
    ("files", "window_replace", "all moves of other files", True),
    ("files", "window_replace", "damaged", False),
    *((kind, "append", "all moves of other files", True) for kind in ("delta", "iceberg")),
    *((kind, "append", "damaged", True) for kind in PLACES if kind != "files"),
    ("sqlite", "append", "all moves of other files", True),
    ("delta", "append", "damaged", False),
    ("postgresql", "append", "as it was", False),
    *((kind, "window_replace", "damaged", True) for kind in ("files", "iceberg", "duckdb")),
]
if os.environ.get("DIL_KILLS"):  # make torture
    CASES = [*itertools.product(PLACES, MODES, EDITS, (False, True))]


@pytest.mark.parametrize(
    ("place", "edit", "has_landed"),
    [
        pytest.param(
            (kind, mode), EDITS[edit], landed,
            id=f"{kind}-{mode}-{edit}-{'landed' if landed else 'decided'}",
            marks=pytest.mark.long if kind == "duckdb" else (),
        )
        for kind, mode, edit, landed in CASES
    ],
    indirect=["place"],
)  # fmt: skip
def test_a_publish_that_is_given_up_loses_and_doubles_nothing(
    place: Place,
    edit: Callable[[str], str] | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    has_landed: bool,
) -> None:
    place.run(day(1))
    cut_off(place, day(3), monkeypatch, has_landed=has_landed)
    if edit is not None:
        place.edit_intent(edit)
    capsys.readouterr()

    assert main(["runs", "abandon", place.conf]) == 0
    shown = capsys.readouterr().out
    assert ("readers see its rows" in shown) is has_landed
    assert main(["runs", "abandon", place.conf, "--yes"]) == 0

    assert place.found() == ids_of("a", "b", days=range(3 if has_landed else 1))
    assert place.run(day(4)).status is RunStatus.SUCCESS
    assert place.found() == ids_of("a", "b", days=range(4))
    is_strange = edit in (move_elsewhere, all_elsewhere) and has_landed
    if is_strange and place.kind in {"files", "delta", "iceberg"}:
        assert main(["state", "relist", place.conf, "--yes"]) == 0
    assert main(["state", "verify", place.conf]) == 0


def test_a_table_that_another_program_rewrote_still_has_the_rows_of_a_publish(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, source, "delta", None)
    place.run(day(1))
    cut_off(place, day(3), monkeypatch, has_landed=True)
    delta_table(tmp_path).optimize.compact()

    assert main(["runs", "abandon", place.conf, "--yes"]) == 0

    place.run(day(4))
    assert place.found() == ids_of("a", "b", days=range(4))


@pytest.mark.parametrize("edit", [newer, damaged])
def test_rows_that_would_be_appended_twice_are_not_given_up(
    tmp_path: Path,
    source: HttpServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[str], str],
) -> None:
    """Neither record nor staging say which work units the visible rows are of."""
    place = Place(tmp_path, source, "files", None)
    cut_off(place, day(2), monkeypatch, has_landed=True)
    place.edit_intent(edit)
    for plan in (tmp_path / "lake" / "_staging").rglob("plan.json"):
        plan.unlink()

    assert main(["runs", "abandon", place.conf, "--yes"]) == 1

    assert "restore the state store" in capsys.readouterr().err
    assert place.found() == ids_of("a", "b", days=range(2))


FORGET = ("--from", "2020-01-02", "--withdraw-files", "--yes")


def act(place: Place, verb: str, *options: str) -> int:
    now = datetime.fromtimestamp(day(3) / 1000, UTC).isoformat()
    return main(["state", verb, place.conf, "--now", now, *options])


@pytest.mark.parametrize("is_moved", [False, True], ids=["decided", "moved"])
@pytest.mark.parametrize("kind", ["files", "delta", "iceberg"])
def test_an_undo_that_is_given_up_can_be_asked_again(
    tmp_path: Path,
    source: HttpServer,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    *,
    is_moved: bool,
) -> None:
    place = Place(tmp_path, source, kind, None)
    place.run(day(3))
    whole, rest = (ids_of("a", "b", days=range(days)) for days in (3, 1))
    assert act(place, "forget", *FORGET) == 0
    where = files if kind == "files" else table_destination
    name = "place_files" if kind == "files" else "put_in_place"
    put = getattr(where, name)

    def die(*arguments: object) -> None:
        if is_moved:
            put(*arguments)
        raise KilledError

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, die)
            assert act(place, "undo", "--yes") == 1
        assert main(["runs", "abandon", place.conf, "--yes"]) == 0
        assert place.found() == rest
        assert main(["state", "verify", place.conf]) == 0

    assert act(place, "undo", "--yes") == 0
    assert place.found() == whole
    assert place.run(day(4)).status is RunStatus.SUCCESS
    assert place.found() == ids_of("a", "b", days=range(4))
    assert main(["state", "verify", place.conf]) == 0


@pytest.mark.parametrize("kind", some_long(["files", "delta", "iceberg"], "delta"))
def test_a_publish_that_is_given_up_in_part_is_not_finished_by_a_run(
    tmp_path: Path,
    source: HttpServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    place = Place(tmp_path, source, kind, None)
    place.run(day(1))
    cut_off(place, day(3), monkeypatch, has_landed=False)

    with monkeypatch.context() as patch:
        patch.setattr(withdrawal, "keep_copies", killed)
        assert main(["runs", "abandon", place.conf, "--yes"]) == 1
    with pytest.raises(CommitUnknownError, match="was being given up") as refused:
        place.run(day(4))
    assert "dil runs abandon" in refused.value.fix
    assert main(["runs", "finish", place.conf, "--yes"]) == 1
    assert "was being given up" in capsys.readouterr().err
    assert place.found() == ids_of("a", "b", days=range(1))

    assert main(["runs", "abandon", place.conf, "--yes"]) == 0
    assert place.run(day(4)).status is RunStatus.SUCCESS
    assert place.found() == ids_of("a", "b", days=range(4))


def test_after_an_undo_was_given_up_a_run_reads_the_rows_again(
    tmp_path: Path, source: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, source, "files", None)
    place.run(day(3))
    act(place, "forget", *FORGET)

    with monkeypatch.context() as patch:
        patch.setattr(files, "place_files", killed)
        assert act(place, "undo", "--yes") == 1
    assert main(["runs", "abandon", place.conf, "--yes"]) == 0

    assert place.run(day(3)).status is RunStatus.SUCCESS
    assert place.found() == ids_of("a", "b", days=range(3))
    assert act(place, "undo", "--yes") == 1
    assert place.found() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("kind", some_long(["files", "delta"], "delta"))
def test_an_undo_given_up_and_killed_at_any_step_loses_no_copy(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    base, live = tmp_path / "before", tmp_path / "job"
    place = Place(live, source, kind, None)
    place.run(day(3))
    whole, rest = (ids_of("a", "b", days=range(days)) for days in (3, 1))
    assert act(place, "forget", *FORGET) == 0
    undo = ["state", "undo", place.conf, "--yes"]
    abandon = ["runs", "abandon", place.conf, "--yes"]
    shutil.copytree(live, base)
    with KillServer(HISTORY_SERVER) as kills:
        calls = kills.order(arguments=undo, at=-1)["calls"]
        for at in range(calls // 4, calls, max(1, calls // (2 * KILLS))):
            restore(base, live)
            assert kills.order(arguments=undo, at=at)["killed"]
            shutil.copytree(live, tmp_path / f"undo-{at}")
            steps = kills.order(arguments=abandon, at=-1)["calls"]
            for step in range(steps // 4, steps, max(1, steps // KILLS)):
                restore(tmp_path / f"undo-{at}", live)
                when = f"undo killed at {at} of {calls}, abandon at {step} of {steps}"
                assert kills.order(arguments=abandon, at=step)["killed"], when
                done = kills.order(arguments=abandon, at=-1)
                assert done["exit"] == 0, (when, done["error"])
                assert place.found() in (whole, rest), when
                if place.found() == rest:
                    again = kills.order(arguments=undo, at=-1)
                    assert again["exit"] == 0, (when, again["error"])
                assert place.found() == whole, when
                assert kills.order(arguments=["state", "verify", place.conf], at=-1)["exit"] == 0
