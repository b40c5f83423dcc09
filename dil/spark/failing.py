"""Shows our errors in Spark: the message, its code and what to do, without secrets.

Python workers pass an error on as the text of its traceback. If the error has a cause, the text
begins with the cause, which may have secrets of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dil.errors import DilError
from dil.model.job import Job
from dil.observe.redaction import redactor, secrets_of

if TYPE_CHECKING:
    from dil.spark.options import SourceOptions  # only the driver reads them


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


@contextmanager
def loaded_job(load: Callable[[SourceOptions], Job], options: SourceOptions) -> Iterator[Job]:
    """Load the job of a query, and show the errors of the loading and of the block.

    Raises:
        DilQueryError: the loading or the block raised one of our errors.
    """
    with shown_errors():
        job = load(options)
    with shown_errors(job):
        yield job
