"""The file writer of docs/writing-a-file-writer.md beside its job file, run by ``dil``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.contract.example_pages import ExamplePage
from tests.few_rows_job import JOB, NOW
from tests.integration.dil_processes import dil, report_of

PAGE = ExamplePage("writing-a-file-writer.md", "arrow_writer")
OWN = """
writer.file.path.type=namespace_table
ms.writer.class=arrow_writer.ArrowWriter
ms.x.arrow.compression=zstd
"""


@pytest.mark.spark
def test_its_files_are_published_as_others(tmp_path: Path) -> None:
    job = tmp_path / "job.conf"
    job.write_text(JOB + OWN, "utf-8")
    (tmp_path / "arrow_writer.py").write_text(PAGE.files()[0], "utf-8")
    done = dil("run", job, *NOW, "--json")
    assert done.returncode == 0, done.stderr
    assert report_of(done)["rows"] == 50
    files = sorted((tmp_path / "lake" / "shop" / "few").glob("*.arrow"))
    assert [pa.ipc.open_stream(path.read_bytes()).read_all().num_rows for path in files] == [25, 25]
    assert report_of(dil("run", job, *NOW, "--json"))["status"] == "nothing_due"
    verified = dil("state", "verify", job, "--full")
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.parametrize(
    ("command", "options"),
    [("compact", ()), ("backfill", ("--from", "2024-12-30", "--to", "2024-12-31"))],
)
def test_what_reads_files_again_is_refused(
    tmp_path: Path, command: str, options: tuple[str, ...]
) -> None:
    job = tmp_path / "job.conf"
    job.write_text(JOB + OWN, "utf-8")
    (tmp_path / "arrow_writer.py").write_text(PAGE.files()[0], "utf-8")
    done = dil(command, job, *options)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "ms.writer.class" in done.stderr + done.stdout
