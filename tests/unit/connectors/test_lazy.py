"""Planning reads the sections of all connectors, and none of their code."""

from __future__ import annotations

import subprocess
import sys

import pytest

import connectors.sftp


def test_reading_a_job_file_imports_no_connector() -> None:
    code = (
        "import sys, dil.config.table\n"
        "found = [name for name in sys.modules if name.startswith('connectors.')]\n"
        "assert 'connectors.sftp.section' in found, found\n"
        "sys.exit(any(name.endswith('.connector') for name in found))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_package_has_its_connector_and_nothing_that_is_misspelled() -> None:
    assert connectors.sftp.SftpConnector.__module__ == "connectors.sftp.connector"
    with pytest.raises(AttributeError, match=r"'connectors.sftp' has no attribute 'SftpConector'"):
        _ = connectors.sftp.SftpConector
