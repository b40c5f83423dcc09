"""The limit that a job's event watermark sets to the watermark of its dataset."""

from __future__ import annotations

from dil.model.dataset import Commit
from dil.model.event_tally import EVENT_TIME
from dil.text.zones import iso


def event_limits(commit: Commit) -> tuple[int | None, ...]:
    """Return the event watermark that limits the dataset's watermark, as the only item.

    The item is epoch ms UTC, None while the event watermark is unset. The result is empty for a job
    without an event watermark.
    """
    events = commit.checkpoints.get(EVENT_TIME)
    if events is None or events.get("strategy") == "none":
        return ()
    watermark = events.get("watermark")
    # A watermark before the calendar's first year cannot be written down.
    return (watermark if isinstance(watermark, int) and iso(watermark) else None,)
