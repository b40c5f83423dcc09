"""The errors of work units that need more memory than their worker may take."""

from __future__ import annotations

import errno

from dil.errors import SourceContractError, lasting
from dil.extraction.sizes import memory_words
from dil.model.job import Job


def ran_out_of_memory(error: BaseException) -> bool:
    """Return whether a lack of memory caused an error, which may wrap a MemoryError."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        if isinstance(found, MemoryError) or getattr(found, "errno", None) == errno.ENOMEM:
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False


def out_of_memory(job: Job) -> SourceContractError:
    """Return the error of a work unit that needs too much memory; a retry would not help."""
    given = memory_words(job.extraction.memory_bytes, "a worker")
    source = job.source.uri or job.source.connector.qualname
    error = SourceContractError(
        f"{source}: the data that the source sent needs more than {given}",
        "An untrusted source may have sent such data on purpose. Otherwise ask for smaller pages,"
        " files or rows, or raise ms.task.memory.max.bytes as far as the machine has memory"
        " for taskexecutor.threadpool.size work units.",
    )
    return lasting(error)
