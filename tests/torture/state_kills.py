"""Kills a process that commits, and sometimes the server, and checks the store afterwards."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dil.model.job import StateSpec
from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from tests.contract.state_stores import Place, child, commit_of, file, moves, outcome

# Commits work units until it is killed; prints each run whose commit returned. The numbers of runs
# go on from writer to writer. A writer first finishes the publish of the last writer, as runs do.
WRITER = """
import itertools

lease = store.acquire_lease(sys.argv[1], lease_s=3600)
pending = store.pending_intent()
if pending is not None:
    store.commit(lease, pending.commit)
    print(pending.commit.run_id, flush=True)
print("started", flush=True)
for number in itertools.count(int(sys.argv[2])):
    day = number % 40
    commit = commit_of(f"r{number}", outcome(day), outcome(day, unit="b", ok=day % 3 > 0),
                       moves=moves(file(f"f{number}", day=day)), schema="s")
    store.begin_run(lease, run_record(f"r{number}"))
    store.record_intent(lease, Intent(commit, lease.token, "/data", number))
    store.commit(lease, commit)
    print(f"r{number}", flush=True)
    store.heartbeat(lease)
"""


@dataclass
class StateKills:
    """Rounds of writing and killing on one store.

    ``kill_server`` kills the server and starts it again; it is None if the store has no server.
    ``acknowledged`` are the runs of all rounds whose commit returned.
    """

    spec: StateSpec
    chance: random.Random
    kill_server: Callable[[], None] | None = None
    acknowledged: list[str] = field(default_factory=list)
    _started: int = 0

    def round(self, number: int, *, server: bool = False) -> None:
        """Let a new process write for a random time, then kill it; if asked, kill the server first.

        In even rounds the process has committed before; in odd rounds it may be killed at its
        start.
        """
        with child(self.spec, WRITER, f"writer-{number}", str(self._started)) as writer:
            assert writer.stdout is not None
            lines = self._until(writer, "started" if number % 2 else "r")
            time.sleep(self.chance.uniform(0, 0.4))
            if server and self.kill_server is not None:
                self.kill_server()
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.read().split("\n")[:-1]
        self.acknowledged += [line for line in lines if line.startswith("r")]
        # Beyond the number that any writer can have reached, so that no run id is used again.
        self._started += 2 * len(lines) + 2

    def _until(self, writer: subprocess.Popen[str], begin: str) -> list[str]:
        """Return the lines of the writer, up to a line that begins with ``begin``."""
        lines: list[str] = []
        while not lines or not lines[-1].startswith(begin):
            line = writer.stdout.readline()
            assert line, f"the writer ended by itself: {writer.wait()}"
            lines.append(line.strip())
        return lines

    def require_sound(self, number: int) -> None:
        """Check that the chain is sound, no acknowledged commit is missing, and commits go on."""
        with Place(self.spec).open() as store:
            lease = store.acquire_lease(f"check-{number}", lease_s=3600)
            pending = store.pending_intent()
            if pending is not None:
                store.commit(lease, pending.commit)
            problems = verify_chain(store).problems
            assert not problems, problems
            added = published(store)
            assert len(added) == len(set(added)), "a file was added twice"
            missing = {f"file:///data/f{run[1:]}" for run in self.acknowledged} - set(added)
            assert missing == set(), "a commit that returned is not in the store"
            run = f"check-{number}"
            commit = commit_of(run, outcome(100 + number), moves=moves(file(run)), schema="s")
            assert store.commit(lease, commit) is not None
            store.release_lease(lease)


def published(store: StateStore) -> list[str]:
    """Return the files that the blocks added."""
    return [
        part["path"]
        for block in store.blocks()
        for part in (block["event"].get("newData") or {}).get("parts") or ()
    ]
