"""Our own file writers under the contract of file writers, as those of others.

JSON and CSV have no types, so that no reader gives the values back; tests/property has theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from dil.testing.writer_contract import WriterContract, WriterHarness
from dil.writing.orc_writer import OrcFileWriter
from dil.writing.parquet_writer import ParquetFileWriter


class ParquetHarness(WriterHarness):
    kind = ParquetFileWriter

    def properties(self) -> Mapping[str, str]:
        return {"writer.output.format": "PARQUET"}

    def read(self, path: Path) -> Sequence[Mapping[str, object]]:
        return pq.ParquetFile(path).read().to_pylist()


class OrcHarness(WriterHarness):
    kind = OrcFileWriter
    ends_early = False
    needs_rows = True

    def properties(self) -> Mapping[str, str]:
        return {"writer.output.format": "ORC"}

    def read(self, path: Path) -> Sequence[Mapping[str, object]]:
        return orc.read_table(path).to_pylist()


@pytest.mark.parametrize("form", [ParquetHarness, OrcHarness], indirect=True)
class TestFileWriters(WriterContract):
    @pytest.fixture
    def form(self, request: pytest.FixtureRequest, tmp_path: Path) -> WriterHarness:
        return request.param(tmp_path)
