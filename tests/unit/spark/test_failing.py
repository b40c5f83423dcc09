"""Errors of a query, as Spark shows them: the whole traceback as text."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from dil import config
from dil.errors import SourceError
from dil.spark.failing import DilQueryError, loaded_job
from dil.spark.options import SourceOptions
from tests.jobs import write_job


def test_neither_an_error_nor_its_cause_shows_a_secret_of_the_job(tmp_path: Path) -> None:
    secret = "s3cret-of-job"
    path = write_job(tmp_path, "http://h", source__conn__password=secret)
    job = config.load(path, environ={}).job
    options = SourceOptions.of({"conf": str(path)})

    with pytest.raises(DilQueryError) as caught, loaded_job(lambda _: job, options):
        raise SourceError(f"{secret} was refused") from ValueError(secret)

    shown = "".join(traceback.format_exception(caught.value))
    assert "was refused  [DIL-SRC]" in shown
    assert secret not in shown
