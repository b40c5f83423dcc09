"""Kill -9 in the middle of an upgrade, on every backend: the old store is left or the new one."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dil.spi.state_store import StateStore
from dil.state.blocks.verification import verify_chain
from tests.contract.older_stores import KINDS, LATER, OlderStore, older_store
from tests.contract.state_stores import child
from tests.marks import some_long
from tests.torture.kills import steps

# The short form kills at this many steps of each upgrade; the long form (make torture) at all.
KILLS = max(int(os.environ.get("DIL_KILLS", "14")) // 3, 1)
# Upgrades the store of ``orders``, and kills itself at a call; tells all calls when it gets there.
UPGRADE = """
import json
from tests.torture.forks import killed_at
place.clock.now = int(sys.argv[2])
store = place.open()
# PostgreSQL's driver asks a socket until it is ready, as often as that takes.
waits = frozenset({"state/databases/postgresql_database.py:_bounded"})
with killed_at(int(sys.argv[1]), ("state/", "storage/"), uncounted=waits) as events:
    store.acquire_lease("killed", lease_s=60, upgrade=True)
print(json.dumps(events), flush=True)
"""


def upgraded(older: OlderStore, at: int) -> tuple[int, str]:
    """Upgrade in a process of its own; return its exit code and what it said."""
    with child(older.place.spec, UPGRADE, str(at), str(LATER)) as process:
        said, _ = process.communicate(timeout=120)
        return process.returncode, said


def chain_and_units(store: StateStore) -> dict[str, Any]:
    intent = store.pending_intent()
    return {
        "blocks": list(store.blocks()),
        "units": list(store.unit_entries()),
        "runs": list(store.runs()),
        "intent": None if intent is None else intent.commit.run_id,
    }


@pytest.mark.parametrize("kind", some_long(KINDS, "postgresql", "mysql"))
def test_a_killed_upgrade_leaves_the_old_store_or_the_new_one(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with older_store(kind, request, tmp_path / "whole") as older:
        with older.place.open() as store:
            expected = chain_and_units(store)
        code, said = upgraded(older, -1)
        assert code == 0
        numbers = sorted(set(steps(json.loads(said)).values()))
    formats = []
    for number in reversed(numbers[:: -math.ceil(len(numbers) / KILLS)]):
        with older_store(kind, request, tmp_path / str(number)) as older:
            code, _ = upgraded(older, number)
            assert code == -signal.SIGKILL
            for job in ("orders", "customers"):
                with older.place.open(job) as store:
                    assert verify_chain(store).problems == ()
            with older.place.open() as store:
                assert chain_and_units(store) == expected
                formats.append(older.format)
                lease = store.acquire_lease("next", lease_s=60, upgrade=True)
                assert older.format == 2
                assert chain_and_units(store) == expected
                pending = store.pending_intent()
                assert pending is not None
                store.commit(lease, pending.commit)
                assert verify_chain(store).problems == ()
                store.release_lease(lease)
            with older.place.open("customers") as store:
                store.acquire_lease("next", lease_s=60, upgrade=True)
    assert formats == sorted(formats)
    assert set(formats) == {1, 2}
