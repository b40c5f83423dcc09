"""Reads the chain's record of a dataset's schema (rule U20)."""

from __future__ import annotations

from collections.abc import Mapping

from dil.spi.state_store import StateStore


def recorded_schema(store: StateStore) -> str:
    """Return the schema of the rows published so far, one line per column; empty if unknown."""
    block = next(iter(store.blocks_of_kind("SetDataSchema")), None)
    event = None if block is None else block["event"]
    schema = event.get("schema") if isinstance(event, Mapping) else None
    return schema if isinstance(schema, str) else ""
