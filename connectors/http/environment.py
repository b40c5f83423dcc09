"""The environment of a session: shared services, clocks, chance; tests pass their own."""

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
    """The services that all tasks share, and this machine's clocks.

    ``renewed`` reads the authentication input again; it is None if the job has none. ``wall_clock``
    and ``monotonic`` return seconds, ``chance`` a number in [0, 1). ``audit`` records sent
    requests. ``shared`` keeps pools of connections for the task's next work unit; it is None if
    each session has a pool of its own.
    """

    coordinator: Coordinator = field(default_factory=Uncoordinated)
    renewed: Callable[[], Mapping[str, Secret]] | None = None
    sleep: Callable[[float], object] = time.sleep
    chance: Callable[[], float] = random.random
    wall_clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    audit: AuditTrail = field(default_factory=NoAudit)
    shared: Shared | None = None
