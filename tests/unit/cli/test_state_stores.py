"""``dil state upgrade``, ``backup``, ``restore``, ``copy``: each is shown, and done with --yes."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dil.cli.main import main
from tests.contract.older_stores import GOLDEN
from tests.jobs import write_job


class Verbs:
    """Calls ``dil state`` about a job whose store has format 1."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self._job = write_job(folder, "http://127.0.0.1:1")
        self.store = folder / "state" / "state.db"
        self.store.parent.mkdir()
        with closing(sqlite3.connect(self.store)) as connection:
            connection.executescript((GOLDEN / "sqlite.sql").read_text(encoding="utf-8"))

    def __call__(self, verb: str, *options: object, code: int = 0) -> str:
        self._capsys.readouterr()
        assert main(["state", verb, str(self._job), *map(str, options)]) == code
        told = self._capsys.readouterr()
        return told.err if code else told.out

    def json(self, verb: str, *options: object) -> dict:
        return json.loads(self(verb, *options, "--json"))

    @property
    def format(self) -> int:
        with closing(sqlite3.connect(self.store)) as connection:
            return connection.execute("SELECT format FROM state_format").fetchone()[0]


@pytest.fixture
def verbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verbs:
    return Verbs(tmp_path, capsys)


def test_an_upgrade_says_what_it_would_do_and_does_it_with_yes(verbs: Verbs) -> None:
    copy = verbs.folder / "state" / "state.format-1.db"
    shown = verbs("upgrade")
    assert shown == (
        f"orders  upgrade  {verbs.store} from format 1 to 2\n"
        "  2 jobs in it: customers, orders\n"
        f"  kept as it is: {copy}\n"
        "  earlier releases refuse it from then on\n"
        "nothing was changed; --yes does it\n"
    )
    assert verbs.json("upgrade") == {
        "job": "orders", "verb": "upgrade", "applied": False, "place": str(verbs.store),
        "format": 1, "to": 2, "jobs": ["customers", "orders"], "copy": str(copy),
    }  # fmt: skip
    assert not copy.exists()
    assert verbs.format == 1
    assert verbs("upgrade", "--yes").endswith(f"done: {verbs.store} has format 2\n")
    assert copy.exists()
    assert verbs.format == 2
    assert verbs("upgrade", "--yes") == (
        f"orders  upgrade: {verbs.store} has format 2, nothing to change\n"
    )


def test_looking_at_a_job_leaves_its_older_store_alone(verbs: Verbs) -> None:
    assert verbs.json("show")["head"]["sequenceNumber"] == 4
    verbs("log")
    assert verbs.format == 1


def test_a_backup_is_written_with_yes_and_never_over_another_file(verbs: Verbs) -> None:
    file = verbs.folder / "backup.db"
    shown = verbs("backup", file)
    assert f"orders  backup  from {verbs.store}\n" in shown
    assert f"to   {file}\n" in shown
    assert "blocks up to 4, 5 work units, 3 runs, the unfinished publish of r3" in shown
    assert shown.endswith("nothing was changed; --yes does it\n")
    assert not file.exists()
    assert verbs.json("backup", file, "--yes")["applied"] is True
    assert file.exists()
    assert "exists already" in verbs("backup", file, "--yes", code=2)


def test_a_restore_tells_what_is_forgotten_and_keeps_it(verbs: Verbs) -> None:
    file = verbs.folder / "backup.db"
    verbs("backup", file, "--yes")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE mc_head SET seq = 3")
    shown = verbs("restore", file)
    assert "  to be written: blocks up to 3, 5 work units" in shown
    assert "  to be replaced: blocks up to 4, 5 work units" in shown
    assert "later runs than that block are forgotten" in shown
    done = verbs.json("restore", file, "--yes")
    assert done["replaced"]["head"] == 4
    assert verbs.json("restore", done["kept"], "--yes")["applied"] is True
    assert verbs.json("show")["head"]["sequenceNumber"] == 4


def test_a_copy_goes_to_the_store_that_the_properties_name(verbs: Verbs) -> None:
    target = ("--to", "state.store.type=filelog", "--to", f"state.store.dir={verbs.folder}/log")
    shown = verbs("copy", *target)
    assert f"orders  copy  from {verbs.store}\n" in shown
    assert "to be replaced" not in shown
    assert not (verbs.folder / "log").exists()
    assert "read back and compared\n" in verbs("copy", *target, "--yes")
    there = ("-D", "state.store.type=filelog", "-D", f"state.store.dir={verbs.folder}/log")
    assert verbs.json("show", *there) == verbs.json("show")
    assert "already has state of" in verbs("copy", *target, "--yes", code=2)


def test_a_copy_takes_properties_of_the_state_store_alone(verbs: Verbs) -> None:
    error = verbs("copy", "--to", "ms.work.unit.partition=daily", code=2)
    assert "is no state.store property" in error
    assert "is off" in verbs("upgrade", "-D", "state.store.enabled=false", code=2)


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0cut"])
def test_a_file_that_is_no_backup_is_said_to_be_the_wrong_file(
    verbs: Verbs, content: bytes
) -> None:
    file = verbs.folder / "notes.txt"
    file.write_bytes(content)

    error = verbs("restore", file, "--yes", code=2)

    assert f"{file} cannot be read: file is not a database" in error
    assert "the store of the job is unchanged" in error
