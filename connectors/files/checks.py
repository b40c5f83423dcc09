"""Finds problems of jobs that list, read or send files, before any I/O."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.files.listing import listing_problems
from connectors.files.names import reads_one_file
from connectors.files.once import once_problems
from connectors.files.payload import payload_problems, sends_file
from dil.errors import Problem
from dil.model.properties import Properties


def file_problems(properties: Properties, *, lists: bool) -> Iterator[Problem]:
    """Yield problems that prevent reading files once, or listing names.

    ``lists`` says whether the job asks for names instead of contents.
    """
    yield from once_problems(properties, lists=lists)
    if lists:
        yield from listing_problems(properties)


def remote_file_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the problems of ``file_problems``, and the problems of files that the job sends."""
    yield from payload_problems(properties)
    lists = not reads_one_file(properties) and not sends_file(properties)
    yield from file_problems(properties, lists=lists)
