"""The fault matrix of HTTP: every row once, or a failed work unit that the next run repairs.

The cases of one kind of job are the units of one job, each with its own fault; unit ``good`` has
none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest

from dil.model.report import RunReport
from tests.integration.http_fault_cases import (
    CASES,
    WAITS,
    Case,
    Failed,
    Healed,
    Outcome,
    Reported,
)
from tests.integration.http_fault_jobs import JOB, ROWS, Rows, held, published, watermark
from tests.jobs import ROOT
from tests.servers.faulty_server import FaultySource, Strike
from tests.servers.rows import DAY_MS, Dataset
from tests.stories import Story, day

KEEPS_PAGES = {"ms.state.cursor.commit": "page", "ms.state.cursor.commit.seconds": "0"}


def together(cases: Sequence[Case]) -> list[list[Case]]:
    """Return the cases that can share a run."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        kind = case.name if case.is_alone else json.dumps(dict(case.job))
        groups.setdefault(kind, []).append(case)
    return list(groups.values())


def runs(cases: Sequence[Case]) -> Iterator[object]:
    """Yield the runs of the matrix: faults that strike once or stay, progress kept or not.

    Half of them where it makes no difference how often a fault strikes, and where it only waits.
    """
    for group in together(cases):
        is_half = group[0].job is WAITS or (len(group) == 1 and group[0].once == group[0].stays)
        for times, keeps in ((1, KEEPS_PAGES), (0, {}), (1, {}), (0, KEEPS_PAGES))[
            : 4 - 2 * is_half
        ]:
            words = ("once" if times else "stays", "pages" if keeps else "units")
            # Of this fault, which makes a run wait for seconds, `make test` has two runs.
            waits = group[0].name == "429, Retry-After in seconds"
            is_long = waits and words in {("once", "pages"), ("stays", "units")}
            yield pytest.param(
                group, times, keeps, id="-".join((group[0].name, *words)),
                marks=pytest.mark.long if is_long else (),
            )  # fmt: skip


# Where the job file sets a property that a note names.
_PLACE = re.compile(r" \([^()]+orders\.conf:\d+\)")


def outcome(expected: Outcome, unit: str, report: RunReport, rows: Rows, all_rows: Rows) -> object:
    """Return what came of a unit, in the words of the table where they fit."""
    found, wanted = rows.get(unit, Counter()), all_rows[unit]
    failures = [each for each in report.failures if f'"{unit}"' in (each.signature or "")]
    if failures:
        assert not found, f"{found.total()} rows of a failed work unit are published"
        words = expected.words if isinstance(expected, Failed) else ""
        is_told = words in failures[0].error
        return Failed(failures[0].code, words if is_told and words else failures[0].error)
    note = "" if isinstance(expected, Failed) else expected.note
    notes = _PLACE.sub("", " ".join(report.notes))
    told = note if note in notes else notes
    lost, doubled = (wanted - found).total(), (found - wanted).total()
    return Reported(told, lost, doubled) if lost or doubled else Healed(told)


@pytest.mark.parametrize(("cases", "times", "keeps"), list(runs(CASES)))
def test_a_fault_costs_no_row_and_doubles_none(
    cases: list[Case], times: int, keeps: Mapping[str, str], tmp_path
) -> None:
    units = {f"u{number}": case for number, case in enumerate(cases)}
    expected = {case.name: case.once if times else case.stays for case in cases}
    dataset = Dataset.generate(ROWS, units=("good", *units), step_ms=DAY_MS // ROWS)
    with FaultySource(dataset) as source:
        story = Story(
            tmp_path, source, **{**JOB, **keeps, **cases[0].job, **watermark("good", *units)}
        )
        for unit, case in units.items():
            source.strikes.append(Strike(case.act, page=case.page, unit=unit, times=times))

        report = story.run(day(1))
        rows, everything = published(tmp_path), held(source)
        found = {
            case.name: outcome(expected[case.name], unit, report, rows, everything)
            for unit, case in units.items()
        }
        assert source.struck() == set(units)
        assert found == expected
        assert rows["good"] == everything["good"]

        source.strikes.clear()
        again = story.run(day(1))
        rows = published(tmp_path)
        assert again.failures == ()
        for unit, case in units.items():
            if not isinstance(expected[case.name], Reported):
                assert rows[unit] == everything[unit], case.name


def test_the_published_table_says_what_the_matrix_shows() -> None:
    lines = (ROOT / "docs" / "faults.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    table = {name: (stays, lost, doubled) for name, _, stays, lost, doubled in cells[2:]}
    for case in CASES:
        assert table.get(case.name) == shown(case), case.name
    assert len(table) == len(cells) - 2 > len(CASES)


def shown(case: Case) -> tuple[str, str, str]:
    """Return a line of the published table: what becomes of a fault that stays, and its cost."""
    match case.stays:
        case Failed(code):
            word = f"`{code}`"
        case found:
            word = type(found).__name__.lower()
    told = [each for each in (case.once, case.stays) if isinstance(each, Reported)]
    lost, doubled = max(((each.lost, each.doubled) for each in told), default=(0, 0))
    return word, str(lost), str(doubled)
