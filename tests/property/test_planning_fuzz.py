"""Planning takes any text: it plans, or says what is wrong; nothing else escapes."""

import json
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dil.api import parse_instant, plan
from dil.errors import ConfigError, PlanningError

NOWS = st.datetimes(timezones=st.sampled_from((UTC, timezone(timedelta(hours=-12)))))
NEAR_NOWS = st.datetimes(datetime(2020, 1, 1), datetime(2021, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
ZONE_TEXTS = st.sampled_from(
    ("", "Z", "UTC", "PST", "CDT", "+05:30", "-2359", "+24:00", "America/Los_Angeles",
     "Pacific/Apia", "../x", "Europe", "localtime", "US", " UTC", "Etc/GMT+12", "right/UTC", "Foo")
)  # fmt: skip
DATES = st.one_of(
    st.sampled_from(("0001-01-01", "9999-12-31", "0000-01-01", "2021-03-14", "2020-02-30")),
    st.dates().map(str),
    st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True),
)
TIMES = st.from_regex(r"([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,7})?)?", fullmatch=True)
DURATIONS = st.from_regex(r"P[0-9]{1,12}D(T([0-9]{1,3}H)?([0-9]{1,3}M)?)?", fullmatch=True)
NEAR_DATES = st.sampled_from(("2020-01-31", "2020-02-29", "2020-03-08", "2020-11-01", "2020-13-01"))


def instants(
    dates: st.SearchStrategy[str], durations: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(dates, TIMES, ZONE_TEXTS).map("".join),
        st.tuples(durations, st.sampled_from(("", ".")), ZONE_TEXTS).map("".join),
        st.sampled_from(("-", "", " ", "P", "PT", "P1DT")),
        st.text(max_size=30),
    )


def scalars(texts: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    return st.one_of(texts, texts, st.integers(), st.none(), st.booleans(), st.floats())


INSTANTS = instants(DATES, DURATIONS)
SCALARS = scalars(INSTANTS)
# A range of ten thousand years in hours would be planned too, but not in time.
NEAR = scalars(instants(NEAR_DATES, st.from_regex(r"P[0-9]{1,2}D(T[0-9]{1,2}H)?", fullmatch=True)))
WORDS = st.sampled_from(("none", "hourly", "DAILY", "weekly", "monthly", "yearly", "dayly", ""))
NUMBERS = st.one_of(
    st.integers(-2, 10**12).map(str),
    st.sampled_from(("", "x", "1e3", "9" * 30)),
    st.text(max_size=5),
)
UNITS = st.one_of(
    st.text(max_size=20),
    st.lists(st.one_of(SCALARS, st.dictionaries(st.text(max_size=3), SCALARS, max_size=2))),
    SCALARS,
)


@st.composite
def watermarks(draw: st.DrawFn, ends: st.SearchStrategy[object]) -> str:
    dated = {
        "name": draw(st.one_of(st.just("system"), SCALARS)),
        "type": draw(st.sampled_from(("datetime", "DateTime", "unit", "?"))),
        "range": {"from": draw(ends), "to": draw(ends)},
    }
    unit = {"name": "id", "type": "unit", "units": draw(UNITS)}
    chosen = draw(st.sampled_from(([dated], [dated, unit], [unit], [], [dated, dated], None)))
    return json.dumps(chosen)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, str]:
    word = draw(WORDS)
    composite = {draw(WORDS): [draw(NEAR), draw(NEAR)] for _ in range(draw(st.integers(0, 3)))}
    is_composite = draw(st.booleans())
    is_coarse = word in ("none", "yearly") and not is_composite
    names = st.sampled_from(
        ("ms.grace.period.days", "ms.abstinent.period.days", "ms.work.unit.min.units",
         "ms.work.unit.parallelism.max", "ms.work.unit.pacing.seconds", "ms.grace.period",
         "ms.abstinent.period", "ms.timezone", "ms.backfill", "extract.table.type",
         "ms.work.unit.partial.partition")
    )  # fmt: skip
    return {
        "ms.watermark": draw(
            st.one_of(watermarks(SCALARS if is_coarse else NEAR), st.text(max_size=20))
        ),
        "ms.work.unit.partition": json.dumps(composite) if is_composite else word,
        **draw(st.dictionaries(names, st.one_of(NUMBERS, DURATIONS, ZONE_TEXTS), max_size=3)),
    }


@given(INSTANTS, NOWS)
@example("0001-01-01 00:00:00+05:00", datetime(2020, 1, 1, tzinfo=UTC))
@example("9999-12-31 23:59:59-23:59", datetime(2020, 1, 1, tzinfo=UTC))
@example("P999999999DT23H59M.Pacific/Apia", datetime.max.replace(tzinfo=UTC))
@settings(max_examples=600, deadline=None)
def test_a_text_of_time_is_an_instant_or_a_configuration_error(text: str, now: datetime) -> None:
    try:
        found = parse_instant(text, now=now)
    except ConfigError:
        return
    assert abs(found) < 10**15


@given(jobs(), NEAR_NOWS)
@settings(max_examples=300, deadline=None)
def test_any_properties_are_planned_or_refused_with_an_error_of_ours(
    properties: dict[str, str], now: datetime
) -> None:
    try:
        made = plan(properties, now=now)
    except (ConfigError, PlanningError):
        return
    assert len(made.work_units) + made.left + made.skipped >= 0
    for unit in made.work_units[:2]:
        assert unit.low < unit.high
