"""The kill server, which loads the libraries of table formats before any fork."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import deltalake  # noqa: F401 - loaded once, before any fork
import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow  # noqa: F401

from tests.torture import kill_server
from tests.torture.forks import serve

if __name__ == "__main__":
    serve(kill_server._run, {"exit": None, "events": []})
