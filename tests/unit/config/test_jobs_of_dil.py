"""Job files and documented examples of DIL's own repository are valid as they stand.

Source: linkedin/data-integration-library at 0d3a641 (BSD 2-clause), the property lines of its
``.pull`` files and of its documents. Placeholders, such as ``<<primary keys>>`` or a key id of six
digits, are filled in, and braces that are missing there; an example of single properties stands on
the smallest job that it can be part of. Left out is one that reads ``{{pagesize}}``, which is the
name of no variable there, in DIL neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dil import config

FILES = sorted(Path(__file__).with_name("jobs_of_dil").glob("*.pull"))
EXAMPLES = Path(__file__).with_name("jobs_of_dil") / "documented.txt"
COMMON = {
    "job.name": "example",
    "extract.namespace": "com.abc",
    "extract.table.name": "example",
    "data.publisher.final.dir": "/data/lake",
    "state.store.dir": "/data/state",
}
# What an example leaves out, because its page is about something else.
BASES: Mapping[str, dict[str, str]] = {
    "http": {
        "source.class": "com.linkedin.cdi.source.HttpSource",
        "ms.extractor.class": "com.linkedin.cdi.extractor.JsonExtractor",
        "ms.source.uri": "https://api.abc.com/q",
    },
    "sftp": {
        "source.class": "com.linkedin.cdi.source.SftpSource",
        "ms.extractor.class": "com.linkedin.cdi.extractor.CsvExtractor",
        "ms.source.uri": "/export/data/*.csv",
        "source.conn.host": "files.abc.com",
        "source.conn.username": "lake",
        "source.conn.private.key": "id_rsa",
    },
}


def documented() -> list[str]:
    """Return each example: ``# kind page`` and its property lines."""
    return EXAMPLES.read_text(encoding="utf-8").strip().split("\n\n")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_job_file_of_dils_repository_is_valid(path):
    job = config.load(path, environ={}).job
    assert job.publishing.final_dir.startswith("/tmp/")


@pytest.mark.parametrize("example", documented(), ids=lambda text: text.partition("\n")[0][2:])
def test_an_example_of_dils_documents_is_valid(tmp_path, example):
    kind = example.removeprefix("# ").split()[0]
    base = "".join(f"{key}={text}\n" for key, text in (COMMON | BASES.get(kind, {})).items())
    path = tmp_path / "example.pull"
    path.write_text(f"{base}{example}\n", encoding="utf-8")
    config.load(path, environ={}, secrets=False)


def test_there_are_five_files_and_enough_examples():
    assert len(FILES) == 5
    assert len(documented()) >= 40
