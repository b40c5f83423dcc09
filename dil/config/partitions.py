"""``ms.work.unit.partition``: a word, or the composite form. Source: behaviour.md B3.5, B3.6."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from dil.config.findings import Findings
from dil.config.watermarks import instant, names_no_zone
from dil.model.json import JsonValue
from dil.model.suggestions import known_words
from dil.spi.reading import ShapeError

KEY = "ms.work.unit.partition"
WORDS = ("none", "hourly", "daily", "weekly", "monthly", "yearly")
_NOW = "-"
_ENDLESS_MS = 2**62


def read_composite(
    value: Mapping[str, JsonValue], zone: str, findings: Findings
) -> tuple[tuple[str, str, str], ...]:
    """Return (word, from, to) in the order written; what is wrong goes to findings."""
    found: list[tuple[str, str, str]] = []
    spans: list[tuple[int, int, str]] = []
    for word, ends in value.items():
        try:
            start, end = _range(word, ends)
            low = instant(start, zone, end=False).ms
            high = _ENDLESS_MS if end == _NOW else instant(end, zone, end=False).ms
        except ShapeError as error:
            for what, fix in error.findings:
                findings.problem(KEY, f"{word}: {what}", fix)
            continue
        if low >= high:
            findings.problem(KEY, f"{word}: from is not before to", "Swap them, or remove it.")
        found.append((word.lower(), start, end))
        spans.append((low, high, word))
    _report_overlap(spans, findings)
    if not value:
        findings.problem(KEY, "is an empty object", f"Known values: {', '.join(WORDS)}.")
    return tuple(found)


def uses_default_zone(composite: tuple[tuple[str, str, str], ...]) -> bool:
    """Tell whether a sub-range names no zone."""
    return any(names_no_zone(text) for _, start, end in composite for text in (start, end))


def _range(word: str, ends: JsonValue) -> tuple[str, str]:
    if word.lower() not in WORDS:
        raise ShapeError(("is no partition word", known_words(word, WORDS)))
    if not isinstance(ends, list) or len(ends) != 2:  # noqa: PLR2004 - from and to
        raise ShapeError(("needs two texts", 'Write ["2020-01-01","-"].'))
    start, end = ends
    if not isinstance(start, str) or not isinstance(end, str):
        raise ShapeError(("needs two texts", 'Write ["2020-01-01","-"].'))
    if start.startswith("P") or end.startswith("P"):
        raise ShapeError(("takes no durations", "Write dates; the last `to` may be -."))
    return start, end


def _report_overlap(spans: list[tuple[int, int, str]], findings: Findings) -> None:
    ordered = sorted(spans)
    for (_, high, word), (low, _, other) in pairwise(ordered):
        if low < high:
            findings.problem(
                KEY,
                f"has ranges that overlap: {word} and {other}",
                "End one where the other starts.",
            )
