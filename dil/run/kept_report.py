"""The report of a run, kept beside its row in the state store, so that it can be read later."""

from __future__ import annotations

import json
import logging
from typing import cast

from dil.errors import DilError
from dil.model.json import JsonObject
from dil.model.report import RunReport, RunStatus
from dil.observe.redaction import redactor, secrets_of
from dil.observe.report import redacted, report_json
from dil.run.active_run import ActiveRun
from dil.spi.state_store import StateStore
from dil.state.databases.outage import without_waiting

KIND = "report"

log = logging.getLogger(__name__)


def keep_report(run: ActiveRun, report: RunReport) -> None:
    """Keep a report without its files, which the chain names; secrets in its texts are masked.

    A run that found nothing due has no row, and keeps none. What the run did is done: a store that
    refuses is a warning.
    """
    if report.status is RunStatus.NOTHING_DUE:
        return
    clean = redacted(report, redactor(secrets_of(run.job)))
    members = {name: value for name, value in report_json(clean).items() if name != "files"}
    document = cast("JsonObject", json.loads(json.dumps(members)))
    try:
        with without_waiting():
            run.store.keep_run_detail(run.lease, run.run_id, KIND, document)
    except DilError as error:
        log.warning("the report was not kept in the state store: %s", error.message)


def kept_report(store: StateStore, run_id: str) -> JsonObject | None:
    """Return the report of a run, None where none was kept."""
    return store.run_detail(run_id, KIND)
