"""Every snippet of a job file on the pages about reading is valid in the smallest job."""

import re
from pathlib import Path

import pytest

from dil.config import load

ROOT = Path(__file__).parents[3]
PAGES = ("http", "paging", "formats", "rows", "egress")
SNIPPET = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What a snippet leaves out; its own keys win, because nearer files do.
SMALLEST = """\
job.name=orders
extract.table.name=orders
source.class=http
ms.source.uri=https://api.example.com/v1/orders
ms.extractor.class=json
ms.timezone=UTC
ms.watermark=[{"name": "shop", "type": "unit", "units": [{"region": "eu", "id": "1"}]}]
data.publisher.final.dir=lake
"""
SECRETS = ("API_KEY", "API_TOKEN", "CLIENT_SECRET", "STORE_PASSWORD")


def snippets() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        path = ROOT / "docs" / f"{page}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        found += [(f"{page}-{at}", one) for at, one in enumerate(SNIPPET.findall(text), 1)]
    return found


@pytest.mark.parametrize(
    "snippet", [text for _, text in snippets()], ids=[name for name, _ in snippets()]
)
def test_a_snippet_of_the_docs_is_valid_and_questionable_in_nothing(
    snippet: str, tmp_path: Path
) -> None:
    (tmp_path / "smallest.properties").write_text(SMALLEST, encoding="utf-8")
    (tmp_path / "master.txt").write_text("a master password", encoding="utf-8")
    job = tmp_path / "orders.conf"
    job.write_text(snippet, encoding="utf-8")

    loaded = load(job, environ=dict.fromkeys(SECRETS, "x"))

    warnings = [each for each in loaded.notices if each not in loaded.infos]
    assert [f"{each.key} {each.what}" for each in warnings] == []
