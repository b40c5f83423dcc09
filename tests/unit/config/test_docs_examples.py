"""Every example of a job file in the docs validates, taken out of its page.

A whole job validates as it is; lines of one validate in the job that their page talks about.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dil import config
from dil.errors import ConfigError

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```properties\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
KEY = re.compile(r"^([A-Za-z][\w.]*)\s*[=:]", re.MULTILINE)
ENVIRONMENT = re.compile(r"\benv:(\w+)|\$\{(\w+)\}")
WHOLE = {"job.name", "source.class", "ms.source.uri"}
WHOLE_DERIVED = {"job.name", "ms.query.inputs"}

JOB = """
job.name=orders
extract.namespace=shop
extract.table.name=orders
ms.timezone=UTC
ms.extractor.class=json
data.publisher.final.dir=lake
"""
HTTP = "source.class=http\nms.source.uri=https://api.example.com/v1/orders\n"
SENDS = 'ms.parameters=[{"name": "cursor", "type": "session"}]\n'
DATABASE = """
source.class=jdbc
ms.source.uri=jdbc:postgresql://db.example.com/shop
source.conn.username=reader
source.conn.password=env:SHOP_PASSWORD
"""
STORE = "source.class=s3\n"


MERGED = """
writer.file.path.type=tablename
ms.publish.mode=merge
ms.publish.changelog=true
extract.primary.key.fields=id
"""
CLOSED = """
writer.file.path.type=tablename
ms.publish.mode=window_replace
ms.watermark=[{"name": "system", "type": "datetime", "range": {"from": "2024-01-01", "to": "-"}}]
ms.work.unit.partition=daily
ms.parameters=[{"name": "since", "type": "watermark", "value": "low"}]
ms.timelabel.schedule=@daily
ms.timelabel.close=auto
"""


def units(name: str) -> str:
    """Return a watermark of units, whose variable an example uses."""
    return f'ms.watermark=[{{"name": "{name}", "type": "unit", "units": "a,b"}}]\n'


# What the page tells around lines that are not a job of their own: by page, and a text of them.
AROUND = {
    ("configuration.md", "{{region}}.api"): HTTP + units("region"),
    ("databases.md", ""): DATABASE,
    ("object-stores.md", "binary"): STORE + units("file"),
    ("paging.md", "exports/{{id}}"): HTTP + units("id"),
    ("preprocessors.md", "{{name}}"): HTTP + units("name"),
    ("rows.md", "{{region}}"): HTTP + units("region"),
    ("secondary-input.md", "${lake}"): HTTP + "lake=lake\n",
}


@dataclass(frozen=True)
class Example:
    page: str
    line: int
    text: str

    @property
    def keys(self) -> set[str]:
        return set(KEY.findall(self.text))

    @property
    def is_whole(self) -> bool:
        return self.keys >= WHOLE or self.keys >= WHOLE_DERIVED


def examples() -> Iterator[Example]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 2
            yield Example(page.name, line, found["text"])


def around(example: Example) -> str:
    """Return the lines of a job that the page has said before."""
    for (page, text), lines in AROUND.items():
        if page == example.page and text in example.text:
            return JOB + lines
    sends = SENDS if "ms.session.key.field" in example.keys else ""
    return JOB + HTTP + sends


def surroundings(folder: Path) -> Path:
    """Make the files that examples name beside their own, and return the folder of the job."""
    job = folder / "job"
    (folder / "two_step").mkdir()
    (folder / "two_step" / "answers.pull").write_text(JOB + HTTP)
    job.mkdir()
    # What derived datasets read.
    for name, more in {
        "orders": "",
        "changes": "",
        "readings": "",
        "pages": "",
        "customers": MERGED,
        "days": CLOSED,
    }.items():
        (job / f"{name}.conf").write_text(JOB + HTTP + more)
    shutil.copy(ROOT / "conf" / "examples" / "custom_connector" / "my_connector.py", job)
    return job


def completed(example: Example) -> str:
    """Return a whole job: the example, and lines around it for the keys that it has not."""
    if example.is_whole:
        return example.text
    missing = [
        line
        for line in around(example).strip().splitlines()
        if KEY.match(line) is None or KEY.match(line)[1] not in example.keys  # type: ignore[index]
    ]
    # Pages write ENC(...) for any text that is encrypted.
    return "\n".join([*missing, example.text.replace("ENC(...)", "env:PASSWORD")])


@pytest.mark.parametrize("example", list(examples()), ids=lambda each: f"{each.page}:{each.line}")
def test_an_example_validates(example: Example, tmp_path: Path) -> None:
    job = surroundings(tmp_path) / "job.conf"
    job.write_text(completed(example), encoding="utf-8")
    names = {name for pair in ENVIRONMENT.findall(example.text) for name in pair if name}
    given = {name: "https://api.test" if name.endswith("_API") else "given" for name in names}
    environ = {**os.environ, **given, "PASSWORD": "given"}
    try:
        config.load(str(job), environ=environ, secrets=False)
    except ConfigError as error:
        pytest.fail(f"{example.page}:{example.line}\n{error}")
