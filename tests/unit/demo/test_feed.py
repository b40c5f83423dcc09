import json

import pytest
from feed import DAY_MS, LATE_CARRIER, MAX_DAYS_LATE, Record, epoch_ms, load_flights, visible


@pytest.fixture(scope="module")
def flights() -> list[Record]:
    return load_flights()


def test_the_excerpt_holds_sixteen_days_of_flights_with_unique_ids(flights: list[Record]) -> None:
    assert len(flights) == 14_003
    assert len({record.key for record in flights}) == len(flights)
    assert min(record.event for record in flights) == epoch_ms("2013-01-01T05:15:00-05:00")
    assert max(record.event for record in flights) < epoch_ms("2013-01-17T00:00:00-05:00")


def test_records_come_by_arrival_and_so_out_of_order_by_time(flights: list[Record]) -> None:
    arrivals = [record.arrival for record in flights]
    events = [record.event for record in flights]

    assert arrivals == sorted(arrivals)
    assert events != sorted(events)


def test_no_record_is_later_than_the_grace_period_of_the_job(flights: list[Record]) -> None:
    delays = [record.arrival - record.event for record in flights]

    assert min(delays) > 0
    assert max(delays) == MAX_DAYS_LATE * DAY_MS


def test_the_late_carrier_is_filed_whole_days_later(flights: list[Record]) -> None:
    late = [one for one in flights if json.loads(one.line)["carrier"] == LATE_CARRIER]

    assert late
    assert {(one.arrival - one.event) % DAY_MS for one in late} == {0}


def test_a_record_is_visible_from_its_arrival_on(flights: list[Record]) -> None:
    record = flights[100]
    span = {"low": record.event, "high": record.event + 1}

    assert record in visible(flights, **span, now=record.arrival)
    assert record not in visible(flights, **span, now=record.arrival - 1)
    assert record not in visible(flights, low=0, high=record.event, now=record.arrival)


def test_a_time_without_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset"):
        epoch_ms("2013-01-01T00:00:00")
