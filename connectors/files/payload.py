"""Whole files to send, by a payload entry of format binary (docs/object-stores.md)."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dil.errors import Problem, SourceContractError, SourceError
from dil.model.json import JsonObject, as_text
from dil.model.properties import Properties
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.spi.connector import RequestValues, Response
from dil.text.origins import refuse_other_path, refuse_way_out
from dil.text.variables import substitute

_NAME = "uploadS3Key"


@dataclass(frozen=True, slots=True)
class PayloadFile:
    """A file of this machine to send, and its name at the receiver."""

    path: str
    name: str

    @contextmanager
    def opened(self) -> Iterator[OpenPayload]:
        """Yield the open file; close it afterwards.

        Raises:
            SourceError: the file is missing or cannot be read.
        """
        try:
            with Path(self.path).open("rb") as stream:
                yield OpenPayload(self.path, stream)
        except OSError as error:
            raise SourceError(
                f"the file to send, {self.path}, cannot be read: {error.strerror or error}",
                f"Check the path in {SECONDARY}; every executor must have the file.",
            ) from None


class OpenPayload:
    """An open file to send; ``size`` is its length in bytes when it was opened."""

    def __init__(self, path: str, stream: BinaryIO) -> None:
        self._path = path
        self._stream = stream
        self._state = self._status()
        self.size = self._state[0]
        self.digest = hashlib.md5(usedforsecurity=False)

    def blocks(self, size: int) -> Iterator[bytes]:
        """Yield the content in blocks of ``size`` bytes; the last block may be shorter.

        Raises:
            SourceContractError: the file changed meanwhile; the receiver must not keep the part
                that was sent.
        """
        left = self.size
        while left:
            block = self._stream.read(min(size, left))
            if not block:
                break
            left -= len(block)
            self.digest.update(block)
            yield block
        if left or self._status() != self._state:
            raise SourceContractError(
                f"the file to send, {self._path}, changed while it was read",
                "Let writers write under another name and rename.",
            )

    def _status(self) -> tuple[int, int]:
        status = os.fstat(self._stream.fileno())
        return status.st_size, status.st_mtime_ns


def sends_file(properties: Properties) -> bool:
    """Return whether a job sends a file."""
    return any(each.format == "binary" for each in properties.section(SecondarySection).payload)


def sending_problem(properties: Properties) -> Problem | None:
    """Return a problem if a preview of the source would send a file, else None."""
    if not sends_file(properties):
        return None
    return Problem(
        properties.origin(SECONDARY),
        SECONDARY,
        "has a file to send, which the preview would send too",
        "Add --send if that does no harm.",
    )


def payload_file(properties: Properties, values: RequestValues) -> PayloadFile | None:
    """Return the file that a request sends, None if the job sends no file.

    Raises:
        SourceContractError: a variable in the file's path has no value.
    """
    payload = properties.section(SecondarySection).payload
    entries = [each for each in payload if each.format == "binary"]
    if not entries:
        return None
    path = substitute(entries[0].path, values.variables)
    if path.missing:
        names = ", ".join(f"{{{{{name}}}}}" for name in sorted(path.missing))
        raise SourceContractError(
            f"the payload path {entries[0].path} uses {names}, which nothing gives a value",
            "Declare it in ms.parameters, or as a unit.",
        )
    refuse_other_path(entries[0].path, path.text, values.variables)
    given = values.variables.get(_NAME)
    name = "" if given is None else as_text(given)
    refuse_way_out(f"{{{{{_NAME}}}}}", values.variables, SECONDARY)
    return PayloadFile(path.text, name or path.text.rstrip("/").rpartition("/")[2])


def payload_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the problems of files to send, before any I/O."""
    entries = properties.section(SecondarySection).payload
    if entries and not all(each.format == "binary" for each in entries):
        yield Problem(
            properties.origin(SECONDARY),
            SECONDARY,
            "has rows to send, but this source takes whole files",
            'Add "format": "binary" to send the file that the path names.',
        )
    elif len(entries) > 1:
        what = f"has {len(entries)} files to send, and a work unit sends one"
        fix = "Let a unit or an activation entry name the files, so that each work unit sends one."
        yield Problem(properties.origin(SECONDARY), SECONDARY, what, fix)


def sent_response(facts: JsonObject, location: str) -> Response:
    """Return an answer with one row, ``facts``, that describes the sent file."""
    body = io.BytesIO(json.dumps(facts).encode())
    return Response(body, content_type="application/json", location=location, status=200)
