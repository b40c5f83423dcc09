"""What earlier runs of a job measured of how late rows come, from its checkpoint."""

from __future__ import annotations

from dil.eventtime.lateness import LATENESS, LatenessMeter
from dil.model.grace import GraceMeasure
from dil.model.job import Job
from dil.spi.state_store import StateStore


def lateness_meter(store: StateStore) -> LatenessMeter:
    """Return what the commits of a job measured, an empty meter before the first one.

    Raises:
        ConfigError: a newer release wrote it.
    """
    members = store.checkpoint(LATENESS)
    return LatenessMeter.of(members) if members else LatenessMeter()


def grace_measure(job: Job, store: StateStore) -> GraceMeasure:
    """Return what the planner goes by."""
    meter = lateness_meter(store)
    return GraceMeasure(meter.recommended_ms(job.planning.grace), meter.runs_since_probe)
