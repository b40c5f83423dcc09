"""The process behind a message: it has to take all of it, and it ends with its stream."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path

import pytest

from dil.errors import SourceContractError
from dil.extraction.preprocessing.gpg_process import GpgStream

MESSAGE = bytes(1 << 20)


def stream(folder: Path, *lines: str, source: io.BytesIO | None = None) -> GpgStream:
    """Return the output of a program that stands for GnuPG; it is given the file of its status."""
    program = folder / "program"
    program.write_text("\n".join([f"#!{sys.executable}", "import os, sys, time", *lines]))
    program.chmod(0o700)
    return GpgStream(source or io.BytesIO(MESSAGE), [str(program)], "", "DONE")


@pytest.mark.parametrize("takes_all", [True, False])
def test_success_counts_only_for_the_whole_message(tmp_path: Path, takes_all: bool) -> None:
    take = f"sys.stdin.buffer.read({-1 if takes_all else 9})"
    done = "os.write(int(sys.argv[2]), b'[GNUPG:] DONE \\n')"
    with stream(tmp_path, take, done, "print('rows')") as output:
        if takes_all:
            assert output.read() == b"rows\n"
        else:
            with pytest.raises(SourceContractError):
                output.read()


def test_a_stream_that_is_closed_early_leaves_no_process_and_nothing_open(tmp_path: Path) -> None:
    source = io.BytesIO(MESSAGE)
    before = sorted(Path("/dev/fd").iterdir())
    output = stream(tmp_path, "time.sleep(600)", source=source)
    output.close()
    assert output._process.returncode == -signal.SIGKILL
    assert source.closed
    assert sorted(Path("/dev/fd").iterdir()) == before
