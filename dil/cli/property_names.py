"""Completes the names of properties in a shell."""

from __future__ import annotations

import click

from dil.config.table import TABLE


def property_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the properties that begin with a text, followed by ``=`` if they are for -D."""
    del context
    end = "=" if "definitions" in (parameter.name or "") else ""
    return [f"{name}{end}" for name in sorted(TABLE) if name.startswith(incomplete)]
