"""A stream in memory."""

import pytest

from tests.micro_batches import Clock, FakeBatches, World


@pytest.fixture
def world(tmp_path) -> World:
    return World(FakeBatches(), Clock(), str(tmp_path / "checkpoint"))
