"""A job that loads without a file, and a run whose end each test decides."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

import dil.config
from dil.errors import Origin, Problem
from dil.model.job import ClassRef, Job, PlanningSpec, SourceSpec
from dil.model.report import RunReport, RunStatus, UnitCounts
from dil.model.secret import Secret
from dil.run.options import RunOptions
from tests.jobs import bare_job

SECRET = "s3cret/canary+"


@pytest.fixture
def job() -> Job:
    source = SourceSpec(ClassRef("m", "C"), "http://x", password=Secret(SECRET))
    return bare_job(planning=PlanningSpec(zone="UTC"), source=source)


class Loads:
    """Stands in for the job file: remembers the overrides, returns the job or raises."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.overrides: dict[str, str] = {}
        self.lenient = False
        self.secrets = True
        self.error: Exception | None = None
        self.notices = (Problem(Origin("orders.conf", 3), "ms.timezone", "is not set", "Set it."),)

    def __call__(
        self,
        path: str,
        *,
        overrides: dict[str, str],
        environ: object,
        lenient: bool,
        secrets: bool,
    ) -> SimpleNamespace:
        self.overrides = overrides
        self.lenient = lenient
        self.secrets = secrets
        if self.error is not None:
            raise self.error
        return SimpleNamespace(job=self.job, notices=self.notices, infos=())


@pytest.fixture
def loads(job: Job, monkeypatch: pytest.MonkeyPatch) -> Loads:
    stand_in = Loads(job)
    monkeypatch.setattr(dil.config, "load", stand_in)
    return stand_in


class Runs:
    """Stands in for the run: remembers its options, calls ``act`` or returns ``report``."""

    def __init__(self) -> None:
        self.options: RunOptions | None = None
        self.act: Callable[[], None] = lambda: None
        self.report = RunReport(
            job="orders",
            run_id="r1",
            status=RunStatus.SUCCESS,
            units=UnitCounts(planned=1, succeeded=1),
            rows=7,
            bytes=70,
            files=("file:///out/orders/part-1.avro",),
            dataset_dir="file:///out/orders",
            seconds=1.25,
        )

    def __call__(self, job: Job, options: RunOptions) -> RunReport:
        self.options = options
        self.act()
        return self.report

    def raises(self, error: BaseException) -> None:
        def act() -> None:
            raise error

        self.act = act


@pytest.fixture
def runs(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> Runs:
    stand_in = Runs()
    monkeypatch.setattr("dil.cli.run.run_job", stand_in)
    return stand_in
