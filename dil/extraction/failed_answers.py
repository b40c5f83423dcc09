"""Finds answers that report a failure although their status is a success (rule G40)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from dil.errors import SourceContractError, TransientSourceError
from dil.extraction.excerpt import excerpt
from dil.model.json import JsonValue, as_text
from dil.model.path import MISSING, Missing, is_jsonpath
from dil.model.settings import FailCondition, SessionCondition
from dil.spi.connector import Response
from dil.text.java_regex import compile_java

Lookup = Callable[[str], "JsonValue | Missing"]
# Texts of a flag that says no.
NO = frozenset({"", "false", "0", "no", "null"})
# Members in which answers explain their errors for people.
_WORDS = ("error", "errors", "code", "message", "error_description", "detail", "reason", "warning")
_FIX = (
    "Correct the request, or wait until the source has recovered. If the answer is no failure,"
    " correct failCondition of ms.session.key.field."
)


class TemporaryAnswerError(TransientSourceError):
    """An answer reports a failure that passes; the session may send its request again."""


def refuse_failed_answer(failing: FailCondition | None, response: Response, lookup: Lookup) -> None:
    """Raise if an answer reports a failure at the path of a fail condition.

    Raises:
        TemporaryAnswerError: the condition's ``retry`` matches.
        SourceContractError: the failure stays, or the path finds several values.
    """
    if failing is None:
        return
    found = _value(failing.name, response, lookup)
    is_temporary = failing.retry is not None and _matches(failing.retry, found)
    if not is_temporary and not _is_failure(failing, found):
        return
    place = f"{response.location}: " if response.location else ""
    shown = [_shown(failing.name, found)]
    shown += [_shown(word, lookup(word)) for word in _WORDS if word != failing.name]
    what = f"{place}the answer reports a failure: {', '.join(filter(None, shown))}"
    if is_temporary:
        raise TemporaryAnswerError(what, _FIX)
    raise SourceContractError(what, _FIX)


def _value(name: str, response: Response, lookup: Lookup) -> JsonValue | Missing:
    """Return the value at a path of the body, else the header of that name."""
    found = lookup(name)
    if not isinstance(found, Missing) or is_jsonpath(name):
        return found
    header = response.header(name)
    return MISSING if header is None else header


def _is_failure(failing: FailCondition, found: JsonValue | Missing) -> bool:
    if failing.regexp is not None:
        return _matches(failing, found)
    if isinstance(found, str):
        return found.strip().lower() not in NO
    return not isinstance(found, Missing) and bool(found)


def _matches(condition: FailCondition | SessionCondition, found: JsonValue | Missing) -> bool:
    """Return whether a pattern matches a whole value; an absent value is the empty text."""
    text = "" if isinstance(found, Missing) else "null" if found is None else as_text(found)
    return compile_java(condition.regexp or "").fullmatch(text) is not None


def _shown(name: str, found: JsonValue | Missing) -> str:
    """Return a member of the answer for the message, empty if it says nothing."""
    if isinstance(found, Missing):
        return ""
    text = as_text(found)
    if found is None or isinstance(found, bool | int | float | Decimal):
        return f'"{name}" is {"null" if found is None else text}'
    return f'"{name}" is "{excerpt(text.encode(), is_refusal=True)}"' if text else ""
