"""Event-time watermarks; pure."""

from dil.eventtime.watermark import EventWatermark, JudgedBatch

__all__ = ["EventWatermark", "JudgedBatch"]
