"""Tables of timelabels: a table for each label, a view of all of them, and the registry."""

from dil.publishing.timeseries.destination import TimeseriesDestination

__all__ = ["TimeseriesDestination"]
