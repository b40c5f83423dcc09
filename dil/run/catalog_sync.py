"""After a publish: the job's catalog gets the dataset's table and partitions.

The rows are published by then. If something cannot be registered, the run reports it, and the next
run registers it, even if nothing is due.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from dataclasses import replace

from dil import catalog
from dil.catalog.glue import open_glue
from dil.errors import DilError, RunInterruptedError
from dil.execution.stages import Executors
from dil.model.destination import CatalogSpec, CatalogType
from dil.model.job import Job
from dil.model.report import ReportedFailure, RunReport, RunStatus
from dil.publishing.destination import destination_for
from dil.publishing.run_commit import recorded_schema
from dil.spi.state_store import StateStore
from dil.storage import filesystem_for

log = logging.getLogger(__name__)


def sync_catalog(job: Job, store: StateStore, report: RunReport, executors: Executors) -> RunReport:
    """Register missing tables and partitions in the catalog; return the report with the outcome.

    If nothing is missing, the catalog is not asked and no session is started. If the catalog
    refuses, the run fails, although its rows are published.
    """
    spec = job.publishing.catalog
    if spec is None or report.forced_exit_code is not None:
        return report
    try:
        notes = _register(job, spec, store, executors)
    except RunInterruptedError:
        raise
    except DilError as error:
        log.warning("the catalog is behind the published data: %s", error.message)
        failure = ReportedFailure(
            None,
            error.code,
            f"the rows are published, and the catalog does not show all of them: {error.message}",
            error.fix,
        )
        status = RunStatus.PARTIAL if report.status is RunStatus.PARTIAL else RunStatus.FAILED
        return replace(report, status=status, failures=(*report.failures, failure))
    return replace(report, notes=(*report.notes, *notes))


def _register(
    job: Job, spec: CatalogSpec, store: StateStore, executors: Executors
) -> tuple[str, ...]:
    filesystem = filesystem_for(job.publishing.final_dir)
    destination = destination_for(job.publishing, filesystem)
    schema = recorded_schema(store)
    due = catalog.is_due(job, filesystem, destination.live, schema)
    if due is None:
        return ()

    def metastore() -> AbstractContextManager[catalog.Metastore]:
        if spec.type is CatalogType.GLUE:
            return open_glue(spec)
        # Imported here: most runs have nothing to register.
        from dil.execution.hive import open_hive

        return open_hive(spec, executors.settings(1))

    return catalog.register(job, due, metastore, filesystem)
