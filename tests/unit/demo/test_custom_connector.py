"""The example connector, without Spark: its class is loaded the way a job loads it."""

import json
from pathlib import Path

import pytest

from dil.config import load
from dil.errors import ConfigError, SourceError
from dil.model.interval import Interval
from dil.model.job import Job
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.connector import ByteSession, RequestValues, SessionContext
from dil.spi.registry import load as load_class

JOB = Path(__file__).parents[3] / "conf/examples/custom_connector/weather.conf"
DAY = Interval(1_357_084_800_000, 1_357_171_200_000)  # 2013-01-02 in UTC


def job_with(**overrides: str) -> Job:
    properties = {name.replace("_", "."): text for name, text in overrides.items()}
    return load(str(JOB), overrides=properties, environ={}).job


def session_of(job: Job) -> ByteSession:
    unit = WorkUnit("s", DAY.low, DAY.high, DAY, "station", '{"origin":"JFK"}', Reason.NEW)
    context = SessionContext(job, unit, "run", DAY.high, 1)
    session = load_class(job.source.connector)().open(context)
    assert isinstance(session, ByteSession)
    return session


def test_it_answers_with_the_rows_of_its_day_and_unit() -> None:
    response = session_of(job_with()).fetch(RequestValues({}, {}))

    assert response.content_type == "application/json"
    assert response.body is not None
    rows = json.load(response.body)
    assert len(rows) == 24
    assert {row["origin"] for row in rows} == {"JFK"}
    assert {row["time_hour"][:10] for row in rows} == {"2013-01-02"}


def test_a_missing_file_is_a_source_error_that_names_it() -> None:
    session = session_of(job_with(ms_source_uri="gone.csv"))
    with pytest.raises(SourceError, match=r"gone\.csv"):
        session.fetch(RequestValues({}, {}))


def test_its_own_check_runs_with_all_others() -> None:
    with pytest.raises(ConfigError) as refusal:
        job_with(ms_source_uri="weather.txt")
    assert [problem.key for problem in refusal.value.problems] == ["ms.source.uri"]
