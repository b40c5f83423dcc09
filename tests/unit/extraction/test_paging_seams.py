"""A walk that is cut between two pages and gone on with sees what an uncut one sees."""

import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dil.errors import SourceContractError
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.paging.rules import PagingPosition
from dil.extraction.paging.walk import Walk, walk_pages
from dil.extraction.parameters import ParameterScope
from dil.model.csv_settings import CsvSettings, CsvSpec
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import Column, Primitive
from dil.model.settings import Pagination, Parameter, SessionKeyField
from dil.spi.connector import ByteSession, Response
from tests.unit.extraction.clocks import Instant

pytestmark = pytest.mark.slow

OFFSETS = {
    "pagination": Pagination(initial_values=(0, 2)),
    "parameters": (
        Parameter(name="start", type="pagestart"),
        Parameter(name="size", type="pagesize"),
    ),
}
CURSOR = {
    "session": SessionKeyField("next"),
    "parameters": (Parameter(name="cursor", type="session"),),
}
LINKS = {"pagination": Pagination(next="next")}
FILES = {"has_more": True}
PAGES = st.lists(st.lists(st.sampled_from("abc"), max_size=3), min_size=1, max_size=6)


class Source(ByteSession):
    """Answers the n-th request of all walks with the n-th page, whatever is asked for."""

    def __init__(self, pages, *, has_more=False):
        self.pages = pages
        self.asked = 0
        self.has_more = has_more

    def fetch(self, values):
        rows = self.pages[self.asked] if self.asked < len(self.pages) else []
        self.asked += 1
        is_last = self.asked >= len(self.pages)
        body = {"data": [{"id": row} for row in rows]}
        if not is_last:
            body["next"] = f"/{self.asked}"
        return Response(
            io.BytesIO(json.dumps(body).encode()),
            uri="https://shop.test/",
            has_more=self.has_more and not is_last,
        )


class Lines(ByteSession):
    """Answers with texts in turn."""

    def __init__(self, *texts):
        self.texts = list(texts)

    def fetch(self, values):
        return Response(io.BytesIO(self.texts.pop(0).encode()), content_type="text/csv")


class CutError(Exception):
    """The walk is cut here."""


def told(source, members, cut_after, start=None):
    """Walk; return the rows, what was odd, and where the walk was cut, if it was."""
    positions = []

    def on_page(position):
        positions.append(position)
        if len(positions) == cut_after:
            raise CutError

    spec = ExtractionSpec(ClassRef("m", "c"), data_field="data", **members)
    scope = ParameterScope(0, 1, full_extract=True)
    walk = Walk(spec, scope, Instant(), start=start, on_page=on_page)
    rows = []
    try:
        for page, _ in walk_pages(source, JsonExtractor(spec), walk):
            rows += [row["id"] for batch in page.batches for row in batch.to_pylist()]
    except SourceContractError as error:
        return rows, [*walk.progress.notes, error.message], None
    except CutError:
        return rows, walk.progress.notes, PagingPosition.decoded(positions[-1].encoded())
    return rows, walk.progress.notes, None


@pytest.mark.parametrize(
    "members", [OFFSETS, CURSOR, LINKS, FILES], ids=["offsets", "cursor", "links", "files"]
)
@given(pages=PAGES, cut_after=st.integers(1, 5))
@example(pages=[["a", "b"], ["a", "b"], []], cut_after=1)
@example(pages=[["a"], ["b", "c"], []], cut_after=1)
def test_rows_and_doubts_are_those_of_an_uncut_walk(members, pages, cut_after):
    has_more = members is FILES
    members = {} if has_more else members
    whole, said, _ = told(Source(pages, has_more=has_more), members, 0)
    source = Source(pages, has_more=has_more)
    rows, notes, position = told(source, members, cut_after)
    if position is not None:
        later, more, _ = told(source, members, 0, position)
        rows, notes = [*rows, *later], list(dict.fromkeys([*notes, *more]))
    assert (rows, notes) == (whole, said)


def test_rows_that_were_dropped_before_the_cut_still_count():
    spec = ExtractionSpec(
        ClassRef("m", "c"), csv=CsvSpec(CsvSettings(column_header_index=-1, max_failures=1)),
        output_schema=(Column("id", Primitive("long"), nullable=True),), **OFFSETS,
    )  # fmt: skip
    cuts, scope = [], ParameterScope(0, 1, full_extract=True)
    source = Lines("1\nx\n", "3\n4\n", "")
    walk = Walk(spec, scope, Instant(), on_page=cuts.append)
    for _ in walk_pages(source, CsvExtractor(spec), walk):
        pass
    assert [(cut.processed, cut.dropped) for cut in cuts] == [(2, 1), (4, 1)]


def test_a_session_that_has_another_answer_is_asked_again_even_after_one_without_rows():
    source = Source([["a"], [], ["b"]], has_more=True)
    assert told(source, {}, 0) == (["a", "b"], [], None)
    assert source.asked == 3
