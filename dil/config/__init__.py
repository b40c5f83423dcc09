"""Job files: from text to a checked job, and the table of all properties."""

from dil.config.loading import Loaded, event_time_spec, load, peek_name, planning_spec

__all__ = ["Loaded", "event_time_spec", "load", "peek_name", "planning_spec"]
