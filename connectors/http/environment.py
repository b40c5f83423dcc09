"""The environment of a session: other tasks, clocks, chance; tests pass their own."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dil.model.secret import Secret
from dil.spi.audit import AuditTrail, NoAudit
from dil.spi.coordination import Coordinator, Uncoordinated
from dil.spi.shared import Shared


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """What all tasks share, and this machine's time.

    ``renewed`` reads the authentication input again, None where the job has none. ``wall_clock``
    and ``monotonic`` are in seconds, ``chance`` is in [0, 1). ``audit`` records what is sent.
    ``shared`` keeps pools of connections for the next work unit of the task, None where each
    session has a pool of its own.
    """

    coordinator: Coordinator = field(default_factory=Uncoordinated)
    renewed: Callable[[], Mapping[str, Secret]] | None = None
    sleep: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    wall_clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    audit: AuditTrail = field(default_factory=NoAudit)
    shared: Shared | None = None
