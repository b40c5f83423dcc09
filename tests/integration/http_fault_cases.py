"""The fault matrix of HTTP: what a source does wrong with a page, and what comes of it.

Each case says two outcomes: of a fault that strikes once, and of one that stays. ``docs/faults.md``
publishes the same table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.integration.http_fault_jobs import LIMIT, PAGES
from tests.servers import faulty_acts as acts
from tests.servers.faulty_server import Act, Asked

YEAR_S = 365 * 86_400.0


@dataclass(frozen=True)
class Healed:
    """The run succeeds with every row once; a note of its report has these words."""

    note: str = ""


@dataclass(frozen=True)
class Failed:
    """The work unit fails with this code and these words; the next run brings its rows."""

    code: str
    words: str


@dataclass(frozen=True)
class Reported:
    """The run succeeds, and its report says in these words that rows may be missing or doubled.

    ``lost`` and ``doubled`` are numbers of rows.
    """

    note: str
    lost: int = 0
    doubled: int = 0


Outcome = Healed | Failed | Reported


@dataclass(frozen=True)
class Case:
    """A fault of unit b, by default on its third page of five.

    ``name`` is that of the published table; ``job`` are properties beside those of all cases.
    """

    name: str
    act: Act
    once: Outcome
    stays: Outcome
    job: Mapping[str, str] = field(default_factory=dict)
    page: int = 3

    @property
    def is_alone(self) -> bool:
        """Tell whether it needs a run of its own: it ends the run, or a note tells of it."""
        outcomes = (self.once, self.stays)
        return any(
            bool(each.note) if not isinstance(each, Failed) else each.code == QUOTA
            for each in outcomes
        )


TRANSIENT, AUTH, CONTRACT = "DIL-SRC-TRANSIENT", "DIL-SRC-AUTH", "DIL-SRC-CONTRACT"
SOURCE, QUOTA, CONVERT = "DIL-SRC", "DIL-QUOTA", "DIL-CONVERT"
HEALED = Healed()


def passing(words: str) -> tuple[Healed, Failed]:
    """Return the outcomes of what may pass: tried again, and at last told."""
    return HEALED, Failed(TRANSIENT, words)


def wrong(words: str, code: str = CONTRACT) -> tuple[Healed, Failed]:
    """Return the outcomes of an answer that is wrong: the work unit is tried again."""
    return HEALED, Failed(code, words)


def always(outcome: Outcome) -> tuple[Outcome, Outcome]:
    """Return the outcomes where once is like always."""
    return outcome, outcome


# Ways from page to page: the parameters after unit, since and until, and what goes with them.


def paged(*parameters: dict[str, object], **properties: object) -> dict[str, str]:
    """Return properties of a job that pages in another way than by cursor."""
    common: list[dict[str, object]] = [
        {"name": "unit"},
        {"name": "since", "type": "watermark", "value": "low"},
        {"name": "until", "type": "watermark", "value": "high"},
    ]
    texts = {name: json.dumps(value) for name, value in properties.items()}
    return {
        "ms.parameters": json.dumps([*common, *parameters]),
        "ms.session.key.field": "",
        **{name.replace("__", "."): text for name, text in texts.items()},
    }


_LIMIT = {"name": "limit", "type": "primitive", "value": LIMIT}
OFFSET = paged(
    {"name": "offset", "type": "pagestart"},
    {"name": "limit", "type": "pagesize"},
    ms__pagination={"initialvalues": [0, LIMIT]},
)
ECHOED = paged(
    {"name": "offset", "type": "pagestart"},
    {"name": "limit", "type": "pagesize"},
    ms__pagination={"initialvalues": [0, LIMIT], "fields": ["offset", "limit"]},
)
NUMBER = paged(
    {"name": "page", "type": "pageno"},
    {"name": "limit", "type": "pagesize"},
    ms__pagination={"initialvalues": [0, LIMIT, 1]},
)
LINK = paged(_LIMIT, ms__pagination={"next": "link"})
NEXT = paged(_LIMIT, ms__pagination={"next": "next_url"})
MORE = {"ms.pagination": json.dumps({"more": "more", "maxPages": 40, "failAtCap": True})}
TOTAL = {"ms.total.count.field": "total"}
# Each attempt takes its whole time-out, which cannot be shorter than a second.
WAITS = {"ms.http.retry.max": "0"}


def moved(asked: Asked) -> str:
    """Return where a page is now."""
    return asked.target.replace("/records", "/moved")


REFUSALS = (
    Case("429, Retry-After in seconds", acts.refuses(429, Retry_After="1"), *passing("429")),
    Case("429, Retry-After as a date", acts.refuses_until(2), *passing("429")),
    Case(
        "429, Retry-After as a date, the source's clock a year behind",
        acts.refuses_until(2, clock_off_s=-YEAR_S),
        *passing("429"),
    ),
    Case(
        "429, Retry-After as a date, our clock a year ahead",
        acts.refuses_until(2, clock_off_s=-YEAR_S, is_dated=False),
        *passing("429"),
    ),
    Case(
        "429, Retry-After as a date, our clock a year behind",
        acts.refuses_until(2, clock_off_s=YEAR_S, is_dated=False),
        *always(Failed(QUOTA, "until ")),
    ),
    Case("429 without Retry-After", acts.refuses(429), *passing("429")),
    Case(
        "429, Retry-After of a day",
        acts.refuses(429, Retry_After="86400"),
        *always(Failed(QUOTA, "asks to wait 86400 s, until ")),
    ),
    Case(
        "403 with X-RateLimit-Remaining: 0",
        acts.refuses(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="1"),
        *passing("403"),
    ),
    Case("408", acts.refuses(408), *passing("408")),
    Case("500", acts.refuses(500), *passing("500")),
    Case("500 on the last page", acts.refuses(500), *passing("500"), page=PAGES),
    Case("502", acts.refuses(502), *passing("502")),
    Case(
        "503 with a maintenance page",
        acts.refuses(503, acts.MAINTENANCE, Content_Type="text/html"),
        *passing("503"),
    ),
    Case("503, Retry-After in seconds", acts.refuses(503, Retry_After="1"), *passing("503")),
    Case("504", acts.refuses(504), *passing("504")),
    Case("400", acts.refuses(400), *wrong("400", SOURCE)),
    Case("404", acts.refuses(404), *wrong("404", SOURCE)),
    Case("403", acts.refuses(403), *always(Failed(AUTH, "403"))),
    Case("401 to a fixed token", acts.refuses(401), *always(Failed(AUTH, "401"))),
    Case("304", acts.refuses(304, b""), *wrong("304", SOURCE)),
    Case(
        "204 where a page should be",
        acts.refuses(204, b""),
        *always(Reported("only a warning", lost=15)),
    ),
    Case(
        "204 where a page should be, 204 being an error",
        acts.refuses(204, b""),
        *wrong("204", SOURCE),
        job={"ms.http.statuses": json.dumps({"error": [204]})},
    ),
    Case("308 to where the page is", acts.redirects(308, moved), *always(HEALED)),
    Case(
        "a redirect to itself",
        acts.redirects(302, lambda asked: asked.target),
        HEALED,
        Failed(SOURCE, "too many redirects"),
    ),
)

CONNECTIONS = (
    Case("reset before the answer", acts.resets, *passing("connection reset")),
    Case("closed before the answer", acts.hangs_up, *passing("closed without an answer")),
    Case("closed in the headers", acts.closes_in_headers, *passing("closed without an answer")),
    Case("reset in the body", acts.resets_in_body, *passing("broke off")),
    Case("closed in the body", acts.closes_in_body, *passing("broke off")),
    Case("closed in a chunk", acts.closes_in_chunk, *passing("broke off")),
    Case("no last chunk", acts.leaves_out_the_last_chunk, *passing("broke off")),
    Case("a chunk of no length", acts.sends_a_bad_chunk, *passing("broke off")),
    Case("Content-Length too long", acts.promises(50), *passing("broke off")),
    Case("Content-Length too short", acts.promises(-50), *wrong("not JSON")),
    Case("slow to begin", acts.is_slow_to_begin, *passing("timed out"), job=WAITS),
    Case("stalls in the body", acts.stalls_in_body, *passing("broke off"), job=WAITS),
    Case("headers that never end", acts.trickles_headers, *passing("headers trickle"), job=WAITS),
    Case("a body that never ends", acts.trickles, *passing("trickles"), job=WAITS),
    Case("not HTTP", acts.talks_gibberish, *passing("not HTTP")),
    Case("closed while idle", acts.closes_when_idle, *always(HEALED)),
    Case("HTTP/1.0", acts.answers_as_of_old, *always(HEALED)),
    Case("no reason phrase", acts.gives_no_reason, *always(HEALED)),
    Case("100 Continue first", acts.says_continue_first, *always(HEALED)),
    Case("103 Early Hints first", acts.gives_hints_first, *always(HEALED)),
    Case("headers of 30 KB", acts.has_headers(1, 30_000), *always(HEALED)),
    Case("a header of 70 KB", acts.has_headers(1, 70_000), *passing("not HTTP")),
    Case("300 headers", acts.has_headers(300, 10), *passing("not HTTP")),
    Case("gzip without its end", acts.packs(acts.cut_where_flushed), *passing("no end")),
    Case("gzip, wrong checksum", acts.packs(acts.with_bad_checksum), *passing("damaged")),
    Case("said to be gzip, and is not", acts.packs(bytes), *passing("damaged")),
    Case("an unknown coding", acts.packs(bytes, "br"), *wrong("Content-Encoding is br")),
)

BODIES = (
    Case("torn JSON", acts.body(lambda good: good[:-30]), *wrong("not JSON")),
    Case("more behind the JSON", acts.body(lambda good: good + b"}]"), *wrong("not JSON")),
    Case("an HTML page", acts.instead(acts.MAINTENANCE, "text/html"), *wrong("text/html")),
    Case("an HTML page as JSON", acts.instead(acts.MAINTENANCE), *wrong("Down for maintenance")),
    Case("JSON as text/plain", acts.body(bytes, "text/plain"), *wrong("text/plain")),
    Case("no body", acts.instead(b""), *always(Reported("had no content", lost=15))),
    Case("null", acts.instead(b"null"), *always(Reported("had no content", lost=15))),
    Case(
        "an error document, first page", acts.instead(b'{"error":"x"}'), *wrong('no "data"'), page=1
    ),
    Case(
        "an error document, later page",
        acts.instead(b'{"error":"x"}'),
        *always(Reported("had no ms.data.field", lost=15)),
    ),
    Case("rows that are no objects", acts.members(data=[1, 2]), *wrong("object")),
    Case("text instead of rows", acts.members(data="none"), *wrong('"data" is neither')),
    Case(
        "bad UTF-8",
        acts.body(lambda good: good.replace(b"note number", b"n\xff")),
        *wrong("bad UTF-8"),
    ),
    Case("a byte order mark", acts.body(lambda good: b"\xef\xbb\xbf" + good), *always(HEALED)),
    Case(
        "NaN",
        acts.body(lambda good: good.replace(b'"amount":', b'"amount":NaN,"x":')),
        *wrong("not JSON"),
    ),
    Case("nested too deeply", acts.instead(b"[" * 100_000), *wrong("nested too deeply")),
    Case(
        "a number beyond 64 bits",
        acts.rows(lambda row: row.update(id=10**20 + row["id"])),
        *always(Failed(CONVERT, '"id"')),
    ),
    Case(
        "text in a column of numbers",
        acts.rows(lambda row: row.update(amount="much")),
        *always(Failed(CONVERT, '"amount"')),
    ),
    Case(
        "null in a column without nulls",
        acts.rows(lambda row: row.update(id=None)),
        *always(Failed(CONVERT, '"id"')),
    ),
    Case(
        "a column is missing",
        acts.rows(lambda row: row.pop("id")),
        *always(Failed(CONVERT, '"id"')),
    ),
)

PAGING = (
    Case(
        "the rows of the page before",
        acts.again,
        *always(Reported("two pages in a row had the same rows", lost=5, doubled=5)),
    ),
    Case(
        "its own cursor again",
        acts.names_cursor(lambda asked: asked.query["cursor"]),
        *wrong("twice in a row"),
    ),
    Case("a cursor of two pages ago", acts.names_cursor(lambda asked: "c5"), *wrong("in circles")),
    Case(
        "a next link to itself",
        acts.names_address(lambda asked: asked.target),
        *wrong("in circles"),
        job=NEXT,
    ),
    Case(
        "a next link to another host",
        acts.names_address(lambda asked: "http://elsewhere.invalid/records"),
        *wrong("another origin"),
        job=NEXT,
    ),
    Case(
        "a next link to a file",
        acts.names_address(lambda asked: "file:///etc/passwd"),
        *wrong("another origin"),
        job=NEXT,
    ),
    Case(
        "a next link that is a number",
        acts.names_address(lambda asked: 4),
        *wrong("not an address"),
        job=NEXT,
    ),
    Case(
        "the offset is ignored",
        acts.as_without(offset="0"),
        *wrong("two pages in a row are the same"),
        job=OFFSET,
        page=2,
    ),
    Case(
        "the page number is ignored",
        acts.as_without(page="1"),
        *wrong("two pages in a row are the same"),
        job=NUMBER,
        page=2,
    ),
    Case(
        "the answer's offset goes back", acts.as_without(offset="0"), *wrong("circles"), job=ECHOED
    ),
    Case(
        "a page without rows, then its rows",
        acts.sends_no_rows_yet,
        HEALED,
        Failed(CONTRACT, "more pages than maxPages"),
        job=MORE,
    ),
    Case(
        "a page without rows that names a cursor",
        acts.sends_no_rows_yet,
        *always(Reported("still named a next session key", lost=15)),
    ),
    Case("a short page", acts.is_short, *always(HEALED)),
    Case(
        "a short page by offset",
        acts.is_short,
        *always(Reported("the source may cap its pages", lost=3)),
        job=OFFSET,
    ),
    Case(
        "a short page by offset, with a total",
        acts.is_short,
        *always(Reported("as many rows had come as ms.total.count.field says", lost=3)),
        job={**OFFSET, **TOTAL},
    ),
    Case(
        "a total that is too high",
        acts.members(total=99),
        *always(Healed("ROWS MAY BE MISSING")),
        job=TOTAL,
        page=5,
    ),
    Case(
        "a total that is too low",
        acts.members(total=7),
        *always(Reported("more rows came than ms.total.count.field says", lost=10)),
        job=TOTAL,
    ),
    Case("a total that is text", acts.members(total="many"), *wrong("total count"), job=TOTAL),
)

# With `strict` in ms.pagination what is else only told is a failure.
STRICTLY = (
    Case("204 where a page should be", acts.refuses(204, b""), *wrong("had no content")),
    Case("no body", acts.instead(b""), *wrong("had no content")),
    Case("null", acts.instead(b"null"), *wrong("had no content")),
    Case(
        "an error document, later page",
        acts.instead(b'{"error":"x"}'),
        *wrong("had no ms.data.field"),
    ),
    Case("the rows of the page before", acts.again, *wrong("had the same rows")),
    Case(
        "a page without rows that names a cursor",
        acts.sends_no_rows_yet,
        *wrong("still named a next session key"),
    ),
    Case(
        "a short page by offset",
        acts.is_short,
        *wrong("the source may cap its pages"),
        job=OFFSET,
    ),
    Case(
        "a short page by offset, with a total",
        acts.is_short,
        *wrong("as many rows had come as ms.total.count.field says"),
        job={**OFFSET, **TOTAL},
    ),
    Case(
        "a total that is too high",
        acts.members(total=99),
        *wrong("as many rows had come as ms.total.count.field says"),
        job=TOTAL,
        page=5,
    ),
    Case(
        "a total that is too low",
        acts.members(total=7),
        *wrong("more rows came than ms.total.count.field says"),
        job=TOTAL,
    ),
)


def strictly(case: Case) -> Case:
    """Return a case under another name, its paging strict."""
    paging = {**json.loads(case.job.get("ms.pagination", "{}")), "strict": True}
    job = {**case.job, "ms.pagination": json.dumps(paging)}
    return replace(case, name=f"{case.name}, strict", job=job)


CASES = (*REFUSALS, *CONNECTIONS, *BODIES, *PAGING, *map(strictly, STRICTLY))
