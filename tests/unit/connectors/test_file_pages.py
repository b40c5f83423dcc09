"""The jobs that the pages about files show are read as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dil import config
from tests.jobs import ROOT

BLOCK = re.compile(r"^```properties\n(job\.name.*?)^```", re.MULTILINE | re.DOTALL)
JOBS = [
    pytest.param(text, id=f"{page}-{number}")
    for page in ("object-stores", "sftp")
    for number, text in enumerate(BLOCK.findall((ROOT / f"docs/{page}.md").read_text("utf-8")))
]


@pytest.mark.parametrize("text", JOBS)
def test_a_job_of_the_docs_is_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.conf"
    path.write_text(text)
    loaded = config.load(path, environ={"S3_KEY": "k", "S3_SECRET": "s"})
    assert loaded.job.name in text
