"""The rules in docs/semantics: their examples come true, and every rule that is cited is there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dil.api import plan
from dil.config.findings import Findings
from dil.config.properties_text import parse
from dil.extraction.paging.rules import Row
from dil.model.history import UnitRecord
from dil.model.timelabels import TimelabelSpec
from dil.model.work_unit import WorkUnit
from dil.secrets import SecretResolver
from dil.text.instants import parse_instant
from dil.text.windows import label_text, windows_of

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "semantics"
FENCE = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
RULE = re.compile(r"^(?:\| |- )?\*\*([A-Z]\d+)\b", re.MULTILINE)
# As in "rule P12", "rules P12 and C3", "rules C1 to C7"; a line may end between them.
CITED = re.compile(r"\brules?[\s#]+([A-Z]\d+(?:(?:,\s+|\s+and\s+|\s+to\s+)[\s#]*[A-Z]\d+)*)(?!\d)")
# Documents of the time before this repository held its own rules; a reader cannot open them.
ABSENT = re.compile(
    r"behaviour\.md|metadata-chain\.md|defects\.md|properties\.yaml|design\.md|spec README"
    r"|timelabels\.md \d|event-time\.md \d|streaming\.md \d|\bB\d+\.\d|\b[DX]-\d+\b"
)


def fences(page: str, kind: str) -> list[str]:
    text = (PAGES / page).read_text(encoding="utf-8")
    return [found["text"] for found in FENCE.finditer(text) if found["kind"] == kind]


def table(page: str, first: str) -> list[list[str]]:
    """Return the cells of the one table whose header begins with ``first``."""
    lines = (PAGES / page).read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


# Planning


@dataclass
class Runs:
    """The runs of one example: its job, and what is recorded after those that were played."""

    properties: dict[str, str] = field(default_factory=dict)
    history: dict[str, UnitRecord] = field(default_factory=dict)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.properties["ms.timezone"])

    def play(self, now: datetime, expected: list[str]) -> None:
        """Plan, compare with the lines of the example, and record the outcome of each."""
        planned = list(plan(self.properties, now=now, history=self.history).work_units)
        shown = [self.shown(unit) for unit in planned]
        fails = [line.endswith("  fails") for line in expected]
        wanted = [line.removesuffix("  fails") for line in expected]
        if "..." in wanted:
            cut = wanted.index("...")
            after = len(shown) - (len(wanted) - cut - 1)
            assert after > cut, "the dots stand for nothing"
            fails[cut : cut + 1] = [False] * (after - cut)
            wanted[cut : cut + 1] = shown[cut:after]
        assert shown == ([] if wanted == ["nothing due"] else wanted)
        for unit, failed in zip(planned, fails, strict=False):
            self.record(unit, failed=failed)

    def record(self, unit: WorkUnit, *, failed: bool) -> None:
        before = self.history.get(unit.signature)
        kept = None if before is None else before.high
        attempts = 1 if before is None else before.attempts + 1
        self.history[unit.signature] = UnitRecord(
            unit.signature,
            unit.partition.low,
            kept if failed else unit.high,
            failed=failed,
            attempts=attempts,
        )

    def shown(self, unit: WorkUnit) -> str:
        window = f"{self.text(unit.low)} .. {self.text(unit.high)}"
        member = dict(unit.unit).get("unit")
        return "  ".join([window, unit.reason.value, *([str(member)] if member else [])])

    def text(self, ms: int) -> str:
        local = datetime.fromtimestamp(ms / 1000, self.zone)
        return f"{local:%Y-%m-%d %H:%M}".removesuffix(" 00:00")


@dataclass
class Example:
    """One example of the page: the properties of a job, and its runs with what each reads."""

    properties: dict[str, str]
    runs: list[tuple[str, list[str]]]

    @classmethod
    def of(cls, text: str) -> Example:
        found = cls({}, [])
        watermarks = []
        for line in filter(str.strip, text.splitlines()):
            word, _, rest = line.partition(" ")
            if line.startswith("  "):
                found.runs[-1][1].append(line.strip())
            elif word == "run":
                found.runs.append((rest, []))
            elif word == "from":
                low, high = rest.split(" to ")
                between = f'{{"from": "{low}", "to": "{high}"}}'
                watermarks.append(f'{{"name": "system", "type": "datetime", "range": {between}}}')
            elif word == "unit":
                watermarks.append(f'{{"name": "unit", "type": "unit", "units": "{rest}"}}')
            else:
                key, value = line.split("=", 1)
                found.properties[key] = value
        found.properties["ms.watermark"] = f"[{', '.join(watermarks)}]"
        return found


@pytest.mark.parametrize("text", fences("planning.md", "text"))
def test_the_runs_of_an_example_read_what_it_says(text: str) -> None:
    example = Example.of(text)
    assert example.runs
    runs = Runs(example.properties)
    for now, expected in example.runs:
        runs.play(datetime.fromisoformat(now).replace(tzinfo=runs.zone), expected)


@pytest.mark.parametrize(("text", "meant"), table("planning.md", "Text"))
def test_a_text_of_time_is_what_its_table_says(text: str, meant: str) -> None:
    zone = "America/Los_Angeles"
    now = datetime(2021, 3, 15, 10, 42, 33, tzinfo=ZoneInfo(zone))
    found = parse_instant(text, now_ms=round(now.timestamp() * 1000), zone=zone, end=True)
    assert datetime.fromtimestamp(found.ms / 1000, UTC) == datetime.fromisoformat(meant)


# Timelabels


@pytest.mark.parametrize(
    ("cron", "zone", "fire", "label", "window"), table("timelabels.md", "Cron")
)
def test_a_fire_has_the_label_and_window_of_its_table(
    cron: str, zone: str, fire: str, label: str, window: str
) -> None:
    fired = round(datetime.fromisoformat(fire).timestamp() * 1000)
    found = windows_of(TimelabelSpec(schedule=cron, zone=zone)).of_run(fired)
    assert label_text(found.low) == label
    bounds = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (found.low, found.high)]
    assert " .. ".join(f"{each:%Y-%m-%d %H:%M}" for each in bounds) == window


# Event time, the chain


def test_the_python_of_the_page_runs() -> None:
    code = "".join(fences("event-time.md", "python"))
    exec(compile(code, "docs/semantics/event-time.md", "exec"), {})


def test_the_block_of_the_page_has_the_hash_below_it() -> None:
    block, digest = fences("chain.md", "json")
    assert digest.strip() == f'"f1220{hashlib.sha256(block.strip().encode()).hexdigest()}"'


def test_every_code_of_validation_is_on_the_page() -> None:
    page = (PAGES / "chain.md").read_text(encoding="utf-8")
    shown = re.findall(r"V\d\d", "\n".join(re.findall(r"^\| (V[^|]*) \|", page, re.MULTILINE)))
    checked = {
        code
        for path in (ROOT / "dil" / "state").rglob("*.py")
        for code in re.findall(r'"(V\d\d)[":]', path.read_text(encoding="utf-8"))
    }
    assert checked
    assert sorted(checked - set(shown)) == []


# Paging, secrets, configuration files


def test_each_row_of_the_decision_table_is_a_rule() -> None:
    assert {f"G{row}" for row in range(1, max(Row) + 1)} <= set(rules())


def test_an_encrypted_text_of_the_page_opens() -> None:
    text = (PAGES / "secrets.md").read_text(encoding="utf-8")
    resolver = SecretResolver({}, ROOT, passwords=("testkey",))
    [cipher] = re.findall(r"`(ENC\(\w[^)]{20,}\))` is `password`", " ".join(text.split()))
    assert resolver.resolve(cipher).reveal() == "password"


@pytest.mark.parametrize(("written", "value"), table("configuration.md", "In the file"))
def test_a_line_of_a_job_file_is_what_its_table_says(written: str, value: str) -> None:
    [entry] = parse(f"{written}\n", "job.conf", Findings())
    assert entry.text == value.partition("`")[0]


# Rules, and who cites them


@cache
def rules() -> dict[str, list[str]]:
    """Return the pages of each rule."""
    found: dict[str, list[str]] = {}
    for page in sorted(PAGES.glob("*.md")):
        for number in RULE.findall(page.read_text(encoding="utf-8")):
            found.setdefault(number, []).append(page.name)
    return found


def sources() -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that may cite a rule."""
    for room in ("dil", "connectors", "tests", "docs", "conf", "scripts"):
        for path in sorted((ROOT / room).rglob("*.*")):
            is_own = "node_modules" not in path.parts and path != Path(__file__)
            if is_own and path.suffix in (".py", ".md"):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_a_number_is_given_to_one_rule_on_the_page_of_its_letter() -> None:
    listed = table("index.md", "Page")
    pages = {letter[0]: page.partition("(")[2].rstrip(")") for page, letter, _ in listed}
    assert rules() == {number: [pages[number[0]]] for number in rules()}


def test_every_rule_that_is_cited_is_there() -> None:
    missing = [
        f"{name}: {number}"
        for name, text in sources()
        for cited in CITED.findall(text)
        for number in re.findall(r"[A-Z]\d+", cited)
        if number[0] != "V" and number not in rules()
    ]
    assert missing == []


def test_no_document_is_cited_that_a_reader_cannot_open() -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in sources()
        for number, line in enumerate(text.splitlines(), 1)
        if ABSENT.search(line)
    ]
    assert found == []
