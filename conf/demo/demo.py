"""The demo: one job against a real service, twice, and the proof that every row landed once.

``make demo`` runs it. It starts the service of server.py on a free loopback port, runs
conf/demo/flights.conf as of one morning, moves the service's clock three days on, so that new and
late rows appear, runs the job again, and compares the published files with the service's records.
Two more jobs read the same flights: one marks late rows, one closes days.
The exit code is 0 only when nothing is missing, doubled, foreign or changed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from feed import Record, epoch_ms, load_flights, visible
from proof import Proof, compare, data_files, read_rows

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOME = ROOT / ".demo"
JOB = "conf/demo/flights.conf"
LATE_JOB = "conf/examples/event-time.conf"
CLOSING_JOB = "conf/examples/closing.conf"
DIL = (sys.executable, "-m", "dil.cli")
START = epoch_ms("2013-01-01T00:00:00-05:00")
MARKER = ".made-by-the-demo"


class DemoError(Exception):
    """A step of the demo did not do what it promises."""


@dataclass(frozen=True, slots=True)
class Morning:
    """One morning on which the job runs; ``midnight`` ends the days that are due."""

    now: str
    midnight: int

    @property
    def instant(self) -> int:
        """Return the moment of the run, epoch ms UTC."""
        return epoch_ms(self.now)


FIRST = Morning("2013-01-12T09:00:00-05:00", epoch_ms("2013-01-12T00:00:00-05:00"))
SECOND = Morning("2013-01-15T09:00:00-05:00", epoch_ms("2013-01-15T00:00:00-05:00"))


@dataclass(frozen=True, slots=True)
class Service:
    """The running service: its address, and the token that it wants."""

    address: str
    token: str

    def set_clock(self, now: str) -> None:
        """Move the service's clock, so that the records that have arrived by then appear."""
        body = json.dumps({"now": now}).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = Request(f"{self.address}/admin/clock", body, headers)  # noqa: S310 - loopback
        with urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            answer.read()


@contextmanager
def running_service() -> Iterator[Service]:
    """Start the service in a process of its own and end it by its pid."""
    token = secrets.token_urlsafe(16)
    command = [sys.executable, str(HERE / "server.py"), "--now", FIRST.now]
    variables = environment(DEMO_TOKEN=token)
    with subprocess.Popen(  # noqa: S603 - our own command
        command, env=variables, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Service(_address(process), token)
        finally:
            process.terminate()


def _address(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    word, _, address = line.strip().partition(" ")
    if word != "ready":
        raise DemoError(f"the service did not start: {line!r}")
    return address


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with some variables added."""
    return {**os.environ, **more}  # noqa: TID251 - a program of its own


def say(text: str = "") -> None:
    """Print one line at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def headline(text: str) -> None:
    """Print the title of a step."""
    say()
    say(f"== {text} ".ljust(96, "="))


class Stage:
    """Where the demo runs: the service, the ``dil`` command, the folder of all output."""

    def __init__(self, service: Service, home: Path) -> None:
        self.service = service
        self.home = home
        self.records = load_flights()
        self._variables = environment(DEMO_API=service.address, DEMO_TOKEN=service.token)
        # The job's own folders are below .demo; another --home needs them moved.
        places = {"data.publisher.final.dir": home / "lake", "state.store.dir": home / "state"}
        moved = [("-D", f"{name}={place}") for name, place in places.items() if home != HOME]
        self._moved = [word for pair in moved for word in pair]

    @property
    def dataset(self) -> Path:
        """Return the folder of the published files."""
        return self.home / "lake" / "flights"

    def dil(self, verb: str, *arguments: str, job: str = JOB) -> None:
        """Run one ``dil`` command on a job; its output goes to the terminal."""
        line = [*verb.split(), job, *arguments, *self._moved]
        say(f"$ dil {shlex.join(line)}")
        done = subprocess.run(  # noqa: S603 - our own command
            [*DIL, *line], cwd=ROOT, env=self._variables, check=False
        )
        if done.returncode != 0:
            raise DemoError(f"dil {verb} ended with exit code {done.returncode}")

    def run(self, morning: Morning, *arguments: str, job: str = JOB) -> dict[str, object]:
        """Run a job as of one morning and return the report that it wrote."""
        report = self.home / "report.json"
        started = time.monotonic()
        self.dil("run", "--now", morning.now, *arguments, "--report", str(report), job=job)
        say(f"(took {time.monotonic() - started:.1f} s)")
        content: dict[str, object] = json.loads(report.read_text(encoding="utf-8"))
        return content

    def expected(self, morning: Morning) -> list[Record]:
        """Return what the service holds of the due days, as of one morning."""
        return visible(self.records, low=START, high=morning.midnight, now=morning.instant)

    def prove(self, morning: Morning) -> Proof:
        """Compare the published files with the service's records and print the counts."""
        files = data_files(self.dataset)
        proof = compare(self.expected(morning), read_rows(files))
        say(f"at the service, {day(START)} to {day(morning.midnight)}: {proof.expected:>7,} rows")
        say(f"published in {len(files)} files:".ljust(41) + f"{proof.published:>7,} rows")
        say(
            f"missing {proof.missing}, doubled {proof.doubled}, "
            f"foreign {proof.foreign}, changed {proof.changed}"
        )
        if not proof.holds:
            raise DemoError("the published rows are not the service's rows")
        return proof


def day(instant: int) -> str:
    """Return the UTC date of an instant; the demo's midnights are 05:00 UTC of the same date."""
    return time.strftime("%Y-%m-%d", time.gmtime(instant / 1000))


def first_run(stage: Stage) -> None:
    """Check, plan and run the job as of the first morning."""
    headline("1. Check the job file")
    stage.dil("validate")
    headline(f"2. What is due on {day(FIRST.midnight)}")
    stage.dil("plan", "--now", FIRST.now)
    headline("3. The first run")
    stage.run(FIRST)
    headline("4. Proof: source against files")
    stage.prove(FIRST)


def second_run(stage: Stage) -> None:
    """Run the job again three days later, with new and late rows at the service."""
    before = {record.key for record in stage.expected(FIRST)}
    stage.service.set_clock(SECOND.now)
    after = stage.expected(SECOND)
    late = [one for one in after if one.event < FIRST.midnight and one.key not in before]
    headline(f"5. Three days later, {day(SECOND.midnight)}: what is due now")
    say(f"new at the service: {len(after) - len(before) - len(late):,} rows of three more days,")
    say(f"and {len(late)} late rows of days that were read already.")
    stage.dil("plan", "--now", SECOND.now)
    headline("6. The second run")
    stage.run(SECOND)
    headline("7. Proof: source against files")
    stage.prove(SECOND)
    if not late:
        raise DemoError("no row was late, the demo shows nothing")
    say(f"late rows picked up: {len(late)}")


def third_run(stage: Stage) -> None:
    """Run the job once more, without its grace period: nothing is due, so nothing starts."""
    headline("8. A third run, without the grace period: nothing is due, no Spark starts")
    report = stage.run(SECOND, "-D", "ms.grace.period.days=0")
    if report["status"] != "nothing_due":
        raise DemoError(f"expected nothing_due, the run says {report['status']}")
    stage.prove(SECOND)


def remembered(stage: Stage) -> None:
    """Show what the state store remembers."""
    headline("9. What the state store remembers: the chain of commits, newest first")
    stage.dil("state log")


def late_rows(stage: Stage) -> None:
    """Read flights by the day of their arrival, twice: what comes late is marked."""
    headline("10. Late rows: the same flights, read by the day on which they arrived")
    say("A run is judged by the watermark of the run before, so the first one marks none.")
    stage.run(FIRST, job=LATE_JOB)
    stage.run(SECOND, job=LATE_JOB)
    rows = read_rows(data_files(stage.home / "lake" / "flights_by_arrival"))
    late = sorted((row for row in rows if row["_late"]), key=lambda row: str(row["id"]))
    if not late:
        raise DemoError("no row was marked late")
    say(f"marked in the files: {len(late)} of {len(rows):,} rows, such as")
    for row in late[:: len(late) // 3][:3]:
        hours = int(str(row["_lateness_ms"])) / 3_600_000
        say(f"  {row['id']}: scheduled {row['scheduled']}, {hours:.0f} h below the watermark")
    say("How late rows come is measured by each commit, and says which grace period fits:")
    stage.dil("lateness", job=LATE_JOB)


def closed_days(stage: Stage) -> None:
    """Show which days are closed: read whole, and not to be read again."""
    headline("11. Closed days: nothing of them is to come any more")
    stage.run(SECOND, job=CLOSING_JOB)
    stage.dil("timelabels", job=CLOSING_JOB)


def farewell(stage: Stage) -> None:
    """Say where everything is."""
    headline("Done: every row landed once")
    say(f"files:   {stage.dataset}")
    say(f"state:   {stage.home / 'state'}")
    say(f"report:  {stage.home / 'report.json'}")
    say("job:     conf/demo/flights.conf (conf/demo/flights-append.conf appends instead)")
    say("each recorded work unit:")
    say(f"         DEMO_API=http://localhost DEMO_TOKEN=none .venv/bin/dil state show {JOB}")


def emptied(home: Path) -> Path:
    """Return the folder of all output, empty; only .demo or an earlier demo's folder is emptied.

    Raises:
        DemoError: the folder holds something else.
    """
    marker = home / MARKER
    is_ours = home == HOME or marker.exists() or not home.exists()
    if not is_ours and any(home.iterdir()):
        raise DemoError(f"{home} is not empty and not of an earlier demo; name another folder")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    marker.touch()
    return home


def main(arguments: list[str]) -> int:
    """Run the demo; return 0 when the proof holds."""
    parser = argparse.ArgumentParser(description="Run the demo from an empty folder.")
    parser.add_argument("--home", type=Path, default=HOME, help="folder of all output, emptied")
    home: Path = parser.parse_args(arguments).home.resolve()
    try:
        emptied(home)
        with running_service() as service:
            stage = Stage(service, home)
            first_run(stage)
            second_run(stage)
            third_run(stage)
            remembered(stage)
            late_rows(stage)
            closed_days(stage)
            farewell(stage)
    except DemoError as error:
        say(f"\nThe demo failed: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
