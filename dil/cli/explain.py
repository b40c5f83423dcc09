"""``dil explain``: explains properties, groups and error codes; finds them by words, too."""

from __future__ import annotations

import os

import click

from dil import config
from dil.cli.completion import property_names
from dil.cli.error_codes import CODES
from dil.cli.stdout import emit, emit_json
from dil.config import explaining
from dil.errors import ConfigError
from dil.spi.registry import load

_CODE = "DIL-"


@click.command()
@click.argument(
    "names",
    metavar="[PROPERTY|GROUP|CODE|WORDS...]",
    nargs=-1,
    shell_complete=property_names,
)
@click.option(
    "--job",
    "job_file",
    metavar="JOB.conf",
    help="Include the properties that this job's own classes declare.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def explain(names: tuple[str, ...], *, job_file: str | None, as_json: bool) -> int:
    """Explain what a property means; without a name, list the groups of properties.

    Given a code such as DIL-SRC-AUTH, explain the error; given its beginning, list the codes. Other
    words are searched in the texts of all properties.
    """
    name = " ".join(names)
    if name.upper().startswith(_CODE):
        document, text = _codes(name.upper())
    elif not name:
        document, text = explaining.groups_json(), f"{explaining.groups_text()}\n"
    else:
        document, text = _properties(name, job_file)
    if as_json:
        emit_json(document)
    else:
        emit(text)
    return 0


def _codes(prefix: str) -> tuple[object, str]:
    """Return the error codes with this beginning, as JSON and as text."""
    found = {code: words for code, words in CODES.items() if code.startswith(prefix)}
    if not found:
        known = ", ".join(CODES)
        raise ConfigError.single(prefix, "is no error code", f"Known codes: {known}.")
    codes = [{"code": code, "means": a, "what_to_do": b} for code, (a, b) in found.items()]
    text = "".join(
        f"{code}\n    means: {means}\n    what to do: {to_do or 'nothing'}\n"
        for code, (means, to_do) in found.items()
    )
    return {"codes": codes}, f"{text}documented in: docs/errors.md\n"


def _properties(name: str, job_file: str | None) -> tuple[object, str]:
    """Return the property of this name, or all that have these words, as JSON and as text.

    The classes that a job names may declare properties, too.
    """
    if not explaining.is_known(name):
        classes: tuple[type, ...] = ()
        if job_file is not None:
            job = config.load(job_file, environ=os.environ, lenient=True, secrets=False).job
            plugins = [job.source.connector, job.extraction.extractor, *job.conversion.converters]
            classes = tuple(map(load, plugins))
        declared = explaining.elsewhere(name, classes)
        if declared is not None:
            return declared.json(), f"{declared}\n"
        is_misspelt = "." in name and " " not in name
        several = () if is_misspelt else explaining.search(name, classes)
        if several:
            width = max(len(each.name) for each in several)
            lines = "".join(f"{each.name:<{width}}  {each.line}\n" for each in several)
            hint = "\ndil explain PROPERTY shows the whole entry.\n"
            return {"found": [each.json() for each in several]}, f"{lines}{hint}"
    return explaining.explained(name), f"{explaining.explain(name)}\n"
