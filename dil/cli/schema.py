"""``dil schema``: a JSON Schema of job files, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dil.cli.stdout import emit
from dil.config.json_schema import json_schema
from dil.errors import ConfigError


@click.command()
@click.option(
    "--output", "-o", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write it to a file in place of standard output.",
)  # fmt: skip
def schema(output: Path | None) -> int:
    """Print the JSON Schema of .yaml job files, with every property, for an editor."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    if output is None:
        emit(text)
        return 0
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError.single(
            "--output", f"{output} cannot be written: {error.strerror}", "Name another file."
        ) from error
    emit(f"{output}: written\n")
    return 0
