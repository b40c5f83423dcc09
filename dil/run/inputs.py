"""How the driver reads secondary inputs: in no more memory than a worker may take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dil.errors import SourceContractError
from dil.execution.worker import memory_limited
from dil.extraction.secondary import read_activation, read_secondary_inputs
from dil.extraction.sizes import memory_words
from dil.model.job import Job
from dil.model.secondary import SecondaryRows
from dil.model.work_unit import WorkUnit
from dil.task.memory import ran_out_of_memory
from dil.task.secondary_inputs import secondary_access


def read_inputs(
    job: Job, wait: Callable[[float], None] | None = None, planned: Iterable[WorkUnit] = ()
) -> SecondaryRows:
    """Return the rows of activation and authentication inputs; see ``read_secondary_inputs``.

    Raises:
        SourceError: as ``read_secondary_inputs``, or the rows need more memory than a worker may
            take.
    """
    with _limited(job) as limited:
        units = (unit.unit_json for unit in planned if unit.unit_json)
        return read_secondary_inputs(limited.secondary, secondary_access(limited), wait, units)


def read_units(job: Job) -> tuple[str, ...] | None:
    """Return the units that the activation input gives; see ``read_activation``.

    Raises:
        SourceError: as ``read_activation``, or the units need more memory than a worker may take.
    """
    with _limited(job) as limited:
        return read_activation(limited.secondary, secondary_access(limited))


@contextmanager
def _limited(job: Job) -> Iterator[Job]:
    if not job.secondary.inputs:
        yield job
        return
    limited = job
    try:
        with memory_limited(job) as limited:
            yield limited
    except Exception as error:
        if not ran_out_of_memory(error) or isinstance(error, SourceContractError):
            raise
        given = memory_words(limited.extraction.memory_bytes, "their reader")
        raise SourceContractError(
            f"the rows of the secondary input need more than {given}",
            "Name fewer fields, choose fewer rows by filters, or raise ms.task.memory.max.bytes.",
        ) from error
