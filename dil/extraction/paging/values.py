"""Page start, size and number from request to request: pure (behaviour.md B8.5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dil.errors import SourceContractError
from dil.extraction.excerpt import kind_of
from dil.extraction.parameters import PageValues
from dil.model.job import ExtractionSpec
from dil.model.json import JsonValue, as_text
from dil.model.settings import flat_parameters
from dil.spi.extractor import Missing


@dataclass(frozen=True, slots=True)
class EchoedPage:
    """What a response says about its own page; None where it says nothing."""

    start: int | None = None
    size: int | None = None
    number: int | None = None


def next_values(previous: PageValues, echoed: EchoedPage, rows: int, cursor: str) -> PageValues:
    """Return the values of the next request (B8.5); an empty cursor is left out of it."""
    size = previous.size if echoed.size is None else echoed.size
    if echoed.start is not None and echoed.size is not None:
        start = echoed.start + echoed.size
    else:
        start = (previous.start or 0) + (rows if size is None else size)
    number = previous.number if echoed.number is None else echoed.number
    return replace(
        previous,
        start=start,
        size=size,
        number=1 if number is None else number + 1,
        session=cursor or None,
    )


def skips_rows(spec: ExtractionSpec, size: int | None, echoed: EchoedPage, rows: int) -> bool:
    """Return whether the next start lies behind more rows than came, and nobody said so.

    The start steps by ``size``, which was asked for (B8.5); a source that caps its pages gives
    fewer.
    """
    is_told = echoed.start is not None or echoed.size is not None
    if size is None or is_told or rows >= size:
        return False
    return any(each.type == "pagestart" for each in flat_parameters(spec.parameters))


def initial_values(spec: ExtractionSpec) -> PageValues:
    """Return the values of the first request: by position, a missing position has none."""
    given: tuple[int | None, ...] = (*spec.pagination.initial_values, None, None, None)
    session = spec.session.init_value if spec.session else None
    return PageValues(given[0], given[1], given[2], session)


def page_integer(found: JsonValue | Missing, path: str) -> int | None:
    """Return a page value of a response; missing and null mean that it is not told.

    Raises:
        SourceContractError: the value is not a whole number, nor the text of one.
    """
    if isinstance(found, Missing) or found is None:
        return None
    text = as_text(found)
    if isinstance(found, bool) or not re.fullmatch(r"-?[0-9]+", text):
        raise SourceContractError(
            f'the page value at "{path}" is {kind_of(found)}, not a whole number',
            "Check `fields` of ms.pagination.",
        )
    return int(text)
