"""The rows that a work unit sends: its payload input, read in the task (behaviour.md B16.2)."""

from __future__ import annotations

from dil.extraction.page_values import initial_values
from dil.extraction.parameters import Scope, evaluate
from dil.extraction.payload_rows import PayloadRows
from dil.model.job import Job
from dil.model.work_unit import WorkUnit
from dil.secondary_access import access, has_input


def payload_rows(job: Job, unit: WorkUnit, scope: Scope) -> PayloadRows | None:
    """Return the rows to send, None where the job has no payload input.

    Its paths may use the variables of the first request.

    Raises:
        SourceError: a file is not there or cannot be read.
        SourceContractError: a variable of a path has no value, or the data is unfit.
    """
    if not has_input(job, "payload"):
        return None
    # Imported here: most jobs send nothing.
    from dil.extraction.secondary import read_payload

    spec = job.extraction
    first = evaluate(spec.parameters, scope, initial_values(spec))
    rows = read_payload(job.properties, access(job), first.variables)
    return PayloadRows(rows, job.name, unit.signature)
