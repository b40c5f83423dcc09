from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pyarrow as pa
import pytest

from dil.errors import PluginError, PluginFailureError
from dil.model.job import ClassRef
from dil.spi.converter import Converter, PageFacts
from tests.unit.conversion.conversion_jobs import chain, derived, facts


class Doubled(Converter):
    """Yields every batch twice."""

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        yield batch
        yield batch


class Held(Converter):
    """Holds every batch back until the end."""

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        self.held = [*getattr(self, "held", []), batch]
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield from self.held


class Broken(Converter):
    """Fails with something that is not ours, not even inside its generator."""

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        raise KeyError("column")


class Plain:
    """Is no converter at all."""

    def __init__(self, context: object) -> None:
        self.context = context


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("acme_converters")
    for kind in (Doubled, Held, Broken, Plain):
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "acme_converters", module)


def refs(*names: str) -> list[ClassRef]:
    return [ClassRef("acme_converters", name) for name in names]


BATCH = pa.record_batch({"a": pa.array([1], pa.int8())})


def test_batches_pass_the_converters_in_the_order_of_the_job() -> None:
    job = chain(converters=refs("Doubled", "Doubled"))
    assert sum(batch.num_rows for batch in job.convert(BATCH, facts())) == 4


def test_what_a_converter_holds_back_goes_through_the_later_ones_at_the_end() -> None:
    job = chain(converters=refs("Held", "Doubled"))
    assert list(job.convert(BATCH, facts())) == []
    rest = list(job.finish())
    assert [batch.schema.field("a").type for batch in rest] == [pa.int32()] * 2


def test_a_converter_sees_derived_fields_and_typing_comes_last() -> None:
    job = chain(converters=refs("Held"), derived_fields=[derived("x", type="string", value="v")])
    assert list(job.convert(BATCH, facts())) == []
    (batch,) = job.finish()
    assert batch.to_pylist() == [{"a": 1, "x": "v"}]


def test_an_unexpected_exception_carries_the_converters_name() -> None:
    job = chain(converters=refs("Broken"))
    with pytest.raises(PluginFailureError) as caught:
        list(job.convert(BATCH, facts()))
    assert caught.value.code == "DIL-PLUGIN"
    assert "Broken" in caught.value.message


def test_a_class_that_is_no_converter_is_refused() -> None:
    with pytest.raises(PluginFailureError):
        chain(converters=refs("Plain"))
    with pytest.raises(PluginError):
        chain(converters=refs("Missing"))


def test_a_batch_without_rows_yields_nothing() -> None:
    assert list(chain().convert(BATCH.slice(0, 0), facts())) == []


def test_rows_that_are_all_dropped_leave_no_batch_of_rows() -> None:
    job = chain()
    assert list(job.finish()) == []
    assert (job.dropped, job.warnings) == (0, 0)


class Telling(Converter):
    """Has something to say in the end."""

    @property
    def notes(self) -> tuple[str, ...]:
        return ("told",)

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        yield batch


def test_what_converters_have_to_say_is_told_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["acme_converters"], "Telling", Telling, raising=False)
    job = chain(converters=refs("Telling", "Doubled", "Telling"))
    assert job.notes == ("told", "told")
