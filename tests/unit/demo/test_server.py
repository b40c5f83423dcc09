import json
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import demo
import pytest
from feed import epoch_ms, load_flights, visible
from server import BadRequestError, Query
from server import Service as Flights

pytestmark = pytest.mark.slow

NOW = "2013-01-12T09:00:00-05:00"
LATER = "2013-01-15T09:00:00-05:00"
WINDOW = {"since": "2013-01-10T00:00:00-05:00", "until": "2013-01-11T00:00:00-05:00"}
QUERY = {"origin": "EWR", **WINDOW, "limit": "100"}


@pytest.fixture
def flights() -> Flights:
    return Flights(epoch_ms(NOW), "secret")


def walk(flights: Flights, query: Query) -> Iterator[list[dict[str, object]]]:
    """Yield the pages of one query, following the cursor to its end."""
    cursor: dict[str, str] = {}
    while True:
        answer = json.loads(flights.flights({**query, **cursor}))
        yield answer["flights"]
        if answer["paging"]["next"] is None:
            return
        cursor = {"cursor": answer["paging"]["next"]}


def keys(pages: Iterator[list[dict[str, object]]]) -> list[object]:
    return [row["id"] for page in pages for row in page]


@pytest.mark.parametrize("limit", ["1", "100", "1000"])
def test_a_walk_over_the_pages_gives_every_visible_record_once(
    flights: Flights, limit: str
) -> None:
    window = {"low": epoch_ms(WINDOW["since"]), "high": epoch_ms(WINDOW["until"])}
    expected = visible(load_flights(), **window, now=epoch_ms(NOW))

    got = keys(walk(flights, {**QUERY, "limit": limit}))

    assert got == [record.key for record in expected if record.origin == "EWR"]


def test_no_page_has_more_rows_than_asked_for(flights: Flights) -> None:
    sizes = [len(page) for page in walk(flights, QUERY)]
    assert max(sizes) == 100
    assert sizes[:-1] == [100] * (len(sizes) - 1)


def test_late_records_appear_when_the_clock_moves(flights: Flights) -> None:
    before = keys(walk(flights, QUERY))
    flights.set_now(epoch_ms(LATER))
    after = keys(walk(flights, QUERY))

    assert set(before) < set(after)


def test_a_cursor_stays_valid_while_new_records_arrive(flights: Flights) -> None:
    first = json.loads(flights.flights(QUERY))
    flights.set_now(epoch_ms(LATER))
    pages = [first["flights"]]
    pages.extend(walk(flights, {**QUERY, "cursor": first["paging"]["next"]}))

    got = keys(iter(pages))

    assert len(got) == len(set(got))
    assert set(got) == set(keys(walk(flights, QUERY)))


def test_a_cursor_of_another_query_is_refused(flights: Flights) -> None:
    cursor = json.loads(flights.flights(QUERY))["paging"]["next"]
    with pytest.raises(BadRequestError, match="another query"):
        flights.flights({**QUERY, "origin": "JFK", "cursor": cursor})


@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": "SFO"},
        {"since": "2013-01-10"},
        {"until": ""},
        {"limit": "0"},
        {"limit": "ten"},
        {"cursor": "no cursor"},
        {"cursor": "bm9uZQ=="},
    ],
)
def test_a_wrong_query_is_refused(flights: Flights, wrong: Query) -> None:
    with pytest.raises(BadRequestError):
        flights.flights({**QUERY, **wrong})


def test_offset_pages_tile_the_airports(flights: Flights) -> None:
    pages = [
        json.loads(flights.airports({"offset": str(offset), "limit": "500"}))
        for offset in (0, 500, 1000, 1500)
    ]
    assert [len(page["airports"]) for page in pages] == [500, 500, 458, 0]
    assert {page["total"] for page in pages} == {1458}


def test_numbered_pages_begin_at_one_and_end_empty(flights: Flights) -> None:
    pages = [
        json.loads(flights.airlines({"page": str(number), "per_page": "10"}))
        for number in (1, 2, 3)
    ]
    assert [len(page) for page in pages] == [10, 6, 0]
    with pytest.raises(BadRequestError, match="begins at 1"):
        flights.airlines({"page": "0"})


def ask(service: demo.Service, path: str, token: str) -> object:
    request = Request(f"{service.address}{path}", headers={"Authorization": f"Bearer {token}"})
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_the_running_service_answers_refuses_and_moves_its_clock() -> None:
    with demo.running_service() as service:
        assert ask(service, "/admin/clock", service.token) == {"now": epoch_ms(NOW)}
        service.set_clock(LATER)
        assert ask(service, "/admin/clock", service.token) == {"now": epoch_ms(LATER)}
        for path, token, status in [
            ("/v1/airlines", "wrong", 401),
            ("/v1/hotels", service.token, 404),
            ("/v1/flights", service.token, 400),
        ]:
            with pytest.raises(HTTPError) as refusal:
                ask(service, path, token)
            assert refusal.value.code == status
            refusal.value.close()


def test_flights_of_a_day_of_arrival_stay_the_same_when_the_clock_moves(flights: Flights) -> None:
    query = {**QUERY, "by": "arrival"}
    low, high = epoch_ms(WINDOW["since"]), epoch_ms(WINDOW["until"])
    before = keys(walk(flights, query))
    assert before == [
        record.key
        for record in load_flights()
        if record.origin == "EWR" and low <= record.arrival < high
    ]
    flights.set_now(epoch_ms(LATER))
    assert keys(walk(flights, query)) == before
    with pytest.raises(BadRequestError, match="by must be"):
        flights.flights({**QUERY, "by": "size"})
