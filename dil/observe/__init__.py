"""Events, progress, logs, reports."""
