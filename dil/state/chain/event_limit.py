"""How far the event watermark of a job lets the watermark of its dataset go."""

from __future__ import annotations

from dil.model.dataset import Commit
from dil.model.event_tally import EVENT_TIME
from dil.text.zones import iso


def event_limits(commit: Commit) -> tuple[int | None, ...]:
    """Return the event watermark that holds the other one back; None for one that is not there.

    Nothing comes back for a job without one. It is epoch ms UTC.
    """
    events = commit.checkpoints.get(EVENT_TIME)
    if events is None or events.get("strategy") == "none":
        return ()
    watermark = events.get("watermark")
    # Before the calendar there is none that can be written down.
    return (watermark if isinstance(watermark, int) and iso(watermark) else None,)
