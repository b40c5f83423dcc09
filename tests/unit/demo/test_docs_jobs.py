"""Every snippet of a job file on the pages about reading is valid in the smallest job."""

import re
from pathlib import Path

import pytest

from dil.config import load

ROOT = Path(__file__).parents[3]
HTTP = "source.class=http\nms.source.uri=https://api.example.com/v1/orders\n"
# For snippets that name a member of a unit; a snippet of a derived field leaves out who sends it.
UNITS = """\
ms.source.uri=https://api.example.com/v1/orders?region={{region}}&name={{name}}
ms.watermark=[{"name": "shop", "type": "unit",
  "units": [{"region": "eu", "id": "1", "name": "january.csv.gz.gpg"}]}]
"""
MEMBER = re.compile(r"\{\{(id|region|name)\}\}")
SCHEMA = 'ms.output.schema=[{"columnName": "id", "dataType": {"type": "long"}}]\n'
# What the snippets of a page leave out; their own keys win, because nearer files do.
PAGES = {
    **dict.fromkeys(("http", "paging", "formats", "rows", "egress", "preprocessors"), HTTP),
    "databases": """\
source.class=jdbc
ms.source.uri=jdbc:postgresql://db.example.com/shop
ms.jdbc.statement=select * from orders where updated >= {{low}} and updated < {{high}}
ms.parameters=[
  {"name": "low", "type": "watermark", "value": "low", "format": "datetime",
   "pattern": "yyyy-MM-dd HH:mm:ssZZ"},
  {"name": "high", "type": "watermark", "value": "high", "format": "datetime",
   "pattern": "yyyy-MM-dd HH:mm:ssZZ"}]
ms.watermark=[{"name": "time", "type": "datetime", "range": {"from": "2024-01-01", "to": "-"}}]
""",
    "files": "source.class=file\nms.source.uri=/data/in\n",
    "object-stores": "source.class=s3\nms.source.uri=s3://bucket/in\n" + SCHEMA,
    "sftp": "source.class=sftp\nms.source.uri=sftp://files.example.com/in\n" + SCHEMA,
    "file-dump": HTTP,
}
SNIPPET = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
SMALLEST = """\
job.name=orders
extract.table.name=orders
ms.extractor.class=json
ms.timezone=UTC
data.publisher.final.dir=lake
"""
SECRETS = (
    "ACME_KEY_PASSWORD", "API_KEY", "API_TOKEN", "CLIENT_SECRET", "S3_KEY", "S3_SECRET",
    "SHOP_PASSWORD", "STORE_PASSWORD",
)  # fmt: skip
# The files with keys that snippets name, in this folder or beside the job file.
KEY_FOLDER = "/secure/acme"
KEY_FILES = ("authorities.pem", "client.p12", "id_ed25519", "known_hosts", "secring.gpg")


def snippets() -> list[tuple[str, str, str]]:
    found = []
    for page, rest in PAGES.items():
        path = ROOT / "docs" / f"{page}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        found += [(f"{page}-{at}", rest, one) for at, one in enumerate(SNIPPET.findall(text), 1)]
    return found


@pytest.mark.parametrize(
    ("rest", "snippet"),
    [(rest, text) for _, rest, text in snippets()],
    ids=[name for name, _, _ in snippets()],
)
def test_a_snippet_of_the_docs_is_valid_and_questionable_in_nothing(
    rest: str, snippet: str, tmp_path: Path
) -> None:
    if rest == HTTP and MEMBER.search(snippet):
        rest = f"source.class=http\n{UNITS}"
    (tmp_path / "smallest.properties").write_text(SMALLEST + rest, encoding="utf-8")
    (tmp_path / "master.txt").write_text("a master password", encoding="utf-8")
    for name in KEY_FILES:
        (tmp_path / name).write_text("a key", encoding="utf-8")
    job = tmp_path / "orders.conf"
    job.write_text(snippet.replace(KEY_FOLDER, str(tmp_path)), encoding="utf-8")

    loaded = load(job, environ=dict.fromkeys(SECRETS, "x"))

    warnings = [each for each in loaded.notices if each not in loaded.infos]
    assert [f"{each.key} {each.what}" for each in warnings] == []
