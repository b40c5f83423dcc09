"""Shows our errors in Spark: the message, its code and what to do, without secrets.

Python workers pass an error on as the text of its traceback. If the error has a cause, the text
begins with the cause, which may have secrets of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dil.errors import DilError
from dil.model.job import Job
from dil.observe.redaction import redactor, secrets_of


class DilQueryError(Exception):
    """A query over ``format("dil")`` failed; the text is for people."""


@contextmanager
def shown_errors(job: Job | None = None) -> Iterator[None]:
    """Raise our errors as DilQueryError without a cause; the secrets of a job are masked.

    Raises:
        DilQueryError: the block raised one of our errors.
    """
    try:
        yield
    except DilError as error:
        text = str(error) if error.code in str(error) else f"{error}  [{error.code}]"
        clean = redactor(() if job is None else secrets_of(job))
        raise DilQueryError(clean(text)) from None
