"""The destination of docs/writing-a-destination.md in a package: run, killed, run again."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract.example_pages import ExamplePage
from tests.few_rows_job import JOB, NOW
from tests.integration.dil_processes import dil, dil_alone, report_of
from tests.torture.kills import restore

PAGE = ExamplePage("writing-a-destination.md", "sqlite_destination")
# Dies once: the file says before or after what.
DEADLY = """
import os
import signal
from pathlib import Path

from sqlite_destination import SqliteDestination


class Deadly(SqliteDestination):
    def carry_out(self, intent):
        order = Path(os.environ["DEADLY"])
        if order.exists() and order.read_text() == "before":
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        super().carry_out(intent)
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


class NoDestination:
    pass
"""
OFFERED = """[dil.destinations]
sqlite-file = sqlite_destination:SqliteDestination
deadly = deadly:Deadly
none = deadly:NoDestination
"""
OWN = """ms.x.sqlite.path=__FOLDER__/rows.db
ms.x.sqlite.table=few
ms.destination.class=__CLASS__
"""
TWICE = sorted([*range(25), *range(25)])  # each of two days has the same rows


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """Install a package with the destination."""
    site, plugin = tmp_path / "site", PAGE.files()[0]
    info = site / "shelf-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(OFFERED)
    (site / "sqlite_destination.py").write_text(plugin, "utf-8")
    (site / "deadly.py").write_text(DEADLY, "utf-8")
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "DEADLY": str(tmp_path / "order")}


def job_file(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "job.conf"
    own = OWN.replace("__FOLDER__", str(folder)).replace("__CLASS__", name)
    path.write_text(JOB + own, "utf-8")
    return path


def ids(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "rows.db")) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'few'").fetchone():
            return []
        columns = [row[1] for row in database.execute("PRAGMA table_info(few)")]
        found = database.execute("SELECT id FROM few") if "id" in columns else ()
        return sorted(row[0] for row in found)


def run(job: Path, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the job; its tasks need the package on their import path from the start of the JVM."""
    return dil_alone("run", job, *NOW, "--json", environ=environ)


@pytest.mark.spark
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_run_is_finished_once_or_given_up(
    tmp_path: Path, environ: Mapping[str, str], moment: str
) -> None:
    job, killed = job_file(tmp_path / "shelf", "deadly"), tmp_path / "killed"
    landed = [] if moment == "before" else TWICE
    (tmp_path / "order").write_text(moment)
    assert run(job, environ).returncode == -9
    assert ids(job.parent) == landed
    shutil.copytree(job.parent, killed)

    done = run(job, environ)
    assert done.returncode == 0, done.stderr
    assert ids(job.parent) == TWICE
    again = dil("run", job, *NOW, "--json", environ=environ)
    assert report_of(again)["status"] == "nothing_due"
    assert ids(job.parent) == TWICE

    restore(killed, job.parent)
    given_up = dil("runs", "abandon", job, "--yes", environ=environ)
    assert given_up.returncode == 0, given_up.stdout + given_up.stderr
    assert ids(job.parent) == landed
    done = run(job, environ)
    assert done.returncode == 0, done.stderr
    expected = "success" if moment == "before" else "nothing_due"
    assert report_of(done)["status"] == expected
    assert ids(job.parent) == TWICE


def test_commands_that_read_nothing_know_the_class(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    job = job_file(tmp_path, "sqlite-file")
    for command in (("validate", job), ("plan", job, *NOW)):
        done = dil(*command, environ=environ)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "rows.db").exists(), "a plan asks no store"
    said = dil("explain", "ms.x.sqlite.path", "--job", job, environ=environ).stdout
    assert "File of the database." in said
    said = json.loads(dil("explain", "ms.destination.class", "--json", environ=environ).stdout)
    assert {"sqlite-file", "deadly"} <= set(said["short_names"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sqlite-fil", 'Did you mean "sqlite-file"?'),
        ("none", "dil.spi.destination.Destination"),
        ("delta", "Set ms.table.format=delta"),
        ("duckdb", "Set ms.warehouse.url"),
        ("deadly.Deadlier", "has no class Deadlier"),
    ],
)
def test_a_class_that_is_none_is_refused(
    tmp_path: Path, environ: Mapping[str, str], name: str, words: str
) -> None:
    done = dil("validate", job_file(tmp_path, name), environ=environ)
    assert done.returncode == 2
    assert "ms.destination.class" in done.stdout + done.stderr
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("ms.table.format=delta", "ms.table.format"),
        ("ms.warehouse.url=sqlite:///other.db", "ms.warehouse.url"),
        ("ms.output.file.per.work.unit=false", "ms.output.file.per.work.unit"),
        ("ms.publish.mode=merge\nextract.primary.key.fields=id", "ms.publish.mode"),
        ("ms.x.sqlite.tabel=a", "ms.x.sqlite.tabel"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    tmp_path: Path, environ: Mapping[str, str], line: str, key: str
) -> None:
    job = job_file(tmp_path, "sqlite-file")
    job.write_text(f"{job.read_text()}{line}\n")
    done = dil("validate", job, "--json", environ=environ)
    assert done.returncode == 2
    assert key in done.stdout


def test_a_check_asks_the_destination(tmp_path: Path, environ: Mapping[str, str]) -> None:
    done = dil("check", job_file(tmp_path, "sqlite-file"), *NOW, environ=environ)
    assert done.returncode == 0, done.stderr
    assert f"destination: sqlite:{tmp_path}/rows.db/few" in done.stdout
    wrong = job_file(tmp_path, "sqlite-file")
    wrong.write_text(wrong.read_text().replace("/rows.db", "/nowhere/rows.db"), "utf-8")
    done = dil("check", wrong, *NOW, environ=environ)
    assert done.returncode != 0
    assert "Make the folder." in done.stdout + done.stderr
