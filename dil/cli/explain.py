"""``dil explain``: explains properties, groups and error codes; finds them by words, too."""

from __future__ import annotations

import os

import click

from dil import config
from dil.cli.completion import property_names
from dil.cli.error_codes import CODES
from dil.cli.stdout import emit, emit_json
from dil.config import explaining
from dil.config.explaining import elsewhere, search
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
        _explain_codes(name.upper(), as_json=as_json)
    elif not name:
        if as_json:
            emit_json(explaining.groups_json())
        else:
            emit(f"{explaining.groups_text()}\n")
    elif not explaining.is_known(name) and _explain_others(name, job_file, as_json=as_json):
        pass
    elif as_json:
        emit_json(explaining.explained(name))
    else:
        emit(f"{explaining.explain(name)}\n")
    return 0


def _explain_codes(prefix: str, *, as_json: bool) -> None:
    found = {code: words for code, words in CODES.items() if code.startswith(prefix)}
    if not found:
        known = ", ".join(CODES)
        raise ConfigError.single(prefix, "is no error code", f"Known codes: {known}.")
    if as_json:
        codes = [{"code": code, "means": a, "what_to_do": b} for code, (a, b) in found.items()]
        emit_json({"codes": codes})
        return
    for code, (means, to_do) in found.items():
        emit(f"{code}\n    means: {means}\n    what to do: {to_do or 'nothing'}\n")
    emit("documented in: docs/errors.md\n")


def _explain_others(name: str, job_file: str | None, *, as_json: bool) -> bool:
    """Print a property that is not in the reference, or the properties that words find.

    The classes that a job names may declare properties, too. Return False if nothing is found.
    """
    classes: tuple[type, ...] = ()
    if job_file is not None:
        job = config.load(job_file, environ=os.environ, lenient=True, secrets=False).job
        references = [job.source.connector, job.extraction.extractor, *job.conversion.converters]
        classes = tuple(load(each) for each in references)
    found = elsewhere(name, classes)
    if found is not None:
        if as_json:
            emit_json(found.json())
        else:
            emit(f"{found}\n")
        return True
    # A name with a dot and without blanks is a misspelt property.
    several = () if "." in name and " " not in name else search(name, classes)
    if several and as_json:
        emit_json({"found": [each.json() for each in several]})
    elif several:
        width = max(len(each.name) for each in several)
        for each in several:
            emit(f"{each.name:<{width}}  {each.line}\n")
        emit("\ndil explain PROPERTY shows the whole entry.\n")
    return bool(several)
