"""``ms.grace.*`` in job files: how a run finds its grace period."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dil.config import planning_spec
from dil.model.grace import GraceMode, GraceSpec
from dil.model.interval import DAY_MS, HOUR_MS

AUTO = {"ms.grace.mode": "auto", "ms.event.column": "seen_at"}


def spec_of(**written: str) -> GraceSpec:
    found, _ = planning_spec({name.replace("__", "."): text for name, text in written.items()})
    return found.grace


def test_without_a_word_the_grace_period_is_the_configured_one():
    assert spec_of() == GraceSpec()
    found, _ = planning_spec({"ms.grace.period": "PT6H"})
    assert (found.grace_ms, found.grace_range_ms) == (6 * HOUR_MS, (6 * HOUR_MS, 6 * HOUR_MS))


def test_all_settings_are_read():
    assert spec_of(
        ms__grace__mode="AUTO",
        ms__grace__quantile="0.9995",
        ms__grace__min="PT2H",
        ms__grace__max="P14D",
        ms__grace__unit="hour",
        ms__grace__probe__every="7",
    ) == GraceSpec(
        GraceMode.AUTO, Fraction(9995, 10_000), 2 * HOUR_MS, 14 * DAY_MS, HOUR_MS, probe_every=7
    )


@pytest.mark.parametrize(
    ("partition", "unit_ms"),
    [
        ("none", DAY_MS),
        ("hourly", HOUR_MS),
        ("daily", DAY_MS),
        ('{"monthly":["2019-01-01","2024-01-01"],"hourly":["2024-01-01","-"]}', HOUR_MS),
    ],
)
def test_a_measured_grace_period_is_of_whole_hours_where_time_is_cut_hourly(partition, unit_ms):
    assert spec_of(ms__work__unit__partition=partition).unit_ms == unit_ms


def test_max_reads_back_as_far_as_is_allowed_whatever_else_is_configured():
    found, notices = planning_spec(
        {"ms.grace.mode": "max", "ms.grace.max": "P9D", "ms.grace.period.days": "1"}
    )
    assert found.grace_ms == 9 * DAY_MS
    assert "ms.grace.period.days" in [each.key for each in notices]


def test_a_measured_grace_period_may_be_any_between_its_limits():
    found, _ = planning_spec({"ms.grace.mode": "auto", "ms.grace.period.days": "1"})
    assert found.grace_range_ms == (0, 31 * DAY_MS)


@pytest.mark.parametrize("text", ["0", "1.1", "-0.5", "NaN", "most", ""])
def test_a_quantile_is_a_number_above_0_and_at_most_1(job_file, text):
    if not text:
        assert job_file.load({**AUTO, "ms.grace.quantile": ""}).job.planning.grace.quantile
        return
    assert f'is "{text}"' in job_file.problem("ms.grace.quantile", text).what


def test_limits_that_contradict_each_other_are_refused(job_file):
    assert "longer than ms.grace.max" in job_file.problem("ms.grace.min", "P32D").what


def test_a_measured_grace_period_needs_an_event_column_and_state(job_file):
    assert "ms.event.column" in job_file.problem("ms.grace.mode", "auto").fix
    [problem] = job_file.problems({**AUTO, "state.store.enabled": "false"})
    assert problem.key == "ms.grace.mode"
    assert job_file.load(AUTO).job.planning.grace.mode is GraceMode.AUTO


def test_rows_of_a_database_are_not_compared_so_the_configured_period_is_used(job_file):
    loads = {"ms.warehouse.url": "sqlite:///w.db", "ms.publish.mode": "window_replace"}
    (notice,) = (each for each in job_file.load({**AUTO, **loads}).notices if "auto" in each.what)
    assert notice.key == "ms.grace.mode"
    assert "the configured grace period is used" in notice.what


def test_rows_that_are_read_again_and_kept_twice_are_a_notice_in_every_mode(job_file):
    append = {**AUTO, "ms.publish.mode": "append", "ms.grace.max": "P3D"}
    assert "ms.grace.mode" in [each.key for each in job_file.load(append).notices]
