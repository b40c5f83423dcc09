"""Errors of ours as Spark shows them: the message, its code and what to do, without secrets.

Python workers pass an error on as the text of its traceback. If the error has a cause, the text
of the cause stands above it, and may hold secrets of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dil.errors import DilError
from dil.model.job import Job
from dil.observe.redaction import redactor, secrets_of


class DilQueryError(Exception):
    """Why a query over ``format("dil")`` failed; its text is what a person is to read."""


@contextmanager
def shown_errors(job: Job | None = None) -> Iterator[None]:
    """Let an error of ours leave as text alone, with the secrets of a job masked.

    Raises:
        DilQueryError: there was one.
    """
    try:
        yield
    except DilError as error:
        text = str(error) if error.code in str(error) else f"{error}  [{error.code}]"
        clean = redactor(() if job is None else secrets_of(job))
        raise DilQueryError(clean(text)) from None
