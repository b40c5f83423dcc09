"""The failures of work units that no later run has read successfully, for operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dil.model.job import CommitPolicy
from dil.run.kept_report import REPORT, WORK_UNITS, KeptReport, KeptUnitRuns
from dil.spi.state_store import StateStore
from dil.state.blocks.source_state import PENDING

# A failure that is older than these runs is no news, even if no success followed.
_RUNS_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class UnresolvedFailure:
    """The failure of a work unit that no kept run has read successfully since.

    ``attempts`` and ``seconds`` are what the work unit took in the run that failed.
    """

    signature: str
    run_id: str
    code: str
    error: str
    fix: str
    attempts: int
    seconds: float


def unresolved_failures(store: StateStore) -> tuple[UnresolvedFailure, ...]:
    """Return the last failure of each work unit that no later run has read successfully.

    The failures are in the order of signatures; only recent runs count.
    """
    reports = {
        run_id: KeptReport.from_document(document)
        for run_id, document in store.run_details(REPORT, limit=_RUNS_LOOKED_AT)
    }
    found: dict[str, UnresolvedFailure] = {}
    settled: set[str] = set()
    for run_id, document in store.run_details(WORK_UNITS, limit=_RUNS_LOOKED_AT):
        for each in reports[run_id].failures if run_id in reports else ():
            name = each.signature
            if name is not None and name not in settled and name not in found:
                found[name] = UnresolvedFailure(
                    name, run_id, each.code, each.error, each.fix, each.attempts, each.seconds
                )
        kept = KeptUnitRuns.from_document(document)
        settled |= {each.signature for each in kept.units}
        if kept.left_out:
            break  # the ends of the other work units are unknown, so earlier runs prove nothing
    return tuple(found[signature] for signature in sorted(found.keys() - _forgotten(store, found)))


def _forgotten(store: StateStore, found: Mapping[str, UnresolvedFailure]) -> set[str]:
    """Return the work units whose failure an operator forgot.

    A run with the policy ``successful`` records failures. If such a record is pending now, an
    operator made it so. A run with the policy ``full`` leaves the record unchanged.
    """
    if not found:
        return set()
    recording = {
        run.run_id
        for run in store.runs(limit=_RUNS_LOOKED_AT)
        if run.policy == CommitPolicy.SUCCESSFUL.value
    }
    return {
        each.signature
        for each in store.unit_states()
        if each.status == PENDING
        and each.signature in found
        and found[each.signature].run_id in recording
    }
