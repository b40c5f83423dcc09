"""One mistake at a time in a sound job: found once, in its line, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dil.config import Loaded
from dil.errors import ConfigError

SOUND = """\
# A job with everything that is often mistyped.
job.name=orders
job.commit.policy=full
source.class=http
source.conn.username=reader
source.conn.password=env:PASSWORD
ms.source.uri=https://shop.test/{{region}}/orders
ms.http.request.method=GET
ms.http.request.headers={"Accept": "application/json"}
ms.authentication={"method": "basic", "encryption": "base64"}
ms.http.statuses={"success": [200], "warning": [404]}
ms.ssl={"socketTimeoutSeconds": 30}
ms.extractor.class=json
ms.data.field=rows
ms.timezone=UTC
ms.watermark=[
  {"name": "system", "type": "datetime", "range": {"from": "2024-01-01", "to": "P0D"}},
  {"name": "region", "type": "unit", "units": "eu,us"}]
ms.work.unit.partition=daily
ms.work.unit.parallelism.max=100
ms.publish.mode=window_replace
ms.grace.period=P2D
ms.parameters=[
  {"name": "since", "type": "watermark", "watermark": "system", "value": "low",
   "format": "datetime", "pattern": "yyyy-MM-dd"},
  {"name": "offset", "type": "pagestart"},
  {"name": "limit", "type": "pagesize"}]
ms.pagination={"initialvalues": [0, 100]}
ms.total.count.field=total
ms.output.schema=[
  {"columnName": "id", "isNullable": "false", "dataType": {"type": "long"}},
  {"columnName": "ordered", "isNullable": "true", "dataType": {"type": "timestamp"}}]
ms.derived.fields=[
  {"name": "day", "formula": {"type": "regexp", "source": "ordered", "format": "([0-9-]{10}).*"}},
  {"name": "loaded", "formula": {"type": "epoc", "source": "CURRENTDATE"}}]
converter.avro.timestamp.format=yyyy-MM-dd HH:mm:ss
converter.avro.date.timezone=UTC
extract.namespace=com.acme
extract.table.name=orders
extract.table.type=SNAPSHOT_APPEND
writer.output.format=PARQUET
writer.file.path.type=namespace_table
writer.dir.permissions=750
data.publisher.final.dir=lake
state.store.type=sqlite
ms.retention={"state.store": "P90D"}
taskexecutor.threadpool.size=4
task.maxretries=2
"""

# What stands in the file; what is written in its place; what the message or its advice must hold;
# and how many lines off the mistake is told, 0 when it is left out.
SEEDS = [
    # Names of properties.
    ("ms.timezone=UTC", "ms.timezon=UTC", 'Did you mean "ms.timezone"?'),
    ("ms.work.unit.partition", "ms.work.unit.partiton", 'Did you mean "ms.work.unit.partition"?'),
    ("ms.work.unit.parallelism", "ms.work.unit.paralelism", "ms.work.unit.parallelism.max"),
    ("ms.grace.period=P2D", "ms.http.grace.period.days=2", "Write ms.grace.period.days."),
    ("ms.pagination=", "ms.paginaton=", 'Did you mean "ms.pagination"?'),
    ("ms.http.statuses", "ms.http.status", 'Did you mean "ms.http.statuses"?'),
    ("ms.publish.mode", "ms.publishing.mode", 'Did you mean "ms.publish.mode"?'),
    ("ms.ssl", "ms.tls.settings", "Keys of a plug-in class of your own begin with ms.x."),
    ("ms.data.field", "ms.x.field", "No class that this job names declares it."),
    ('{"state.store": "P90D"}', '{"state.stor": "P90D"}', 'Did you mean "state.store"?'),
    ('{"state.store": "P90D"}', '{"state.store": "P3M"}', "state.store has months or years"),
    # Words.
    ("partition=daily", "partition=dayly", 'Did you mean "daily"?'),
    ("method=GET", "method=GTE", 'Did you mean "GET"?'),
    ("SNAPSHOT_APPEND", "SNAPSHOT_APEND", 'Did you mean "SNAPSHOT_APPEND"?'),
    ("format=PARQUET", "format=PARKET", 'Did you mean "PARQUET"?'),
    ("policy=full", "policy=ful", 'Did you mean "full"?'),
    ("mode=window_replace", "mode=overwrite", "append, replace, window_replace"),
    ("type=namespace_table", "type=namespace", "namespace_table"),
    ("state.store.type=sqlite", "state.store.type=oracle", "sqlite"),
    # Classes.
    ("source.class=http", "source.class=htpp", 'Did you mean "http"?'),
    ("class=json", "class=jsn", 'Did you mean "json"?'),
    ("class=json", "class=com.linkedin.cdi.extractor.XmlExtractor", "json"),
    # Numbers, switches, permissions.
    ("parallelism.max=100", "parallelism.max=many", "is no whole number"),
    ("parallelism.max=100", "parallelism.max=1e2", "is no whole number"),
    ("parallelism.max=100", "parallelism.max=-7", "Allowed: "),
    ("threadpool.size=4", "threadpool.size=4.0", "is no whole number"),
    ("threadpool.size=4", "threadpool.size=0", "Allowed: "),
    ("maxretries=2", "maxretries=-1", "Allowed: 0"),
    ("permissions=750", "permissions=rwxr-x---", "three octal digits"),
    ("permissions=750", "permissions=789", "three octal digits"),
    ("ms.data.field=rows", "ms.backfill=yes", "Write true or false."),
    # Time.
    ("ms.grace.period=P2D", "ms.grace.period=2 days", "an ISO duration"),
    ("ms.grace.period=P2D", "ms.grace.period=P1M", "whose length varies"),
    ("ms.timezone=UTC", "ms.timezone=PST8", "Use a region id"),
    ("ms.timezone=UTC", "ms.timezone=Europe/Pari", "Use a region id"),
    ("date.timezone=UTC", "date.timezone=Mars/Olympus", "Use a region id"),
    ("HH:mm:ss", "HH:mm:ss Q", "Joda date pattern"),
    ("2024-01-01", "2024-13-01", "2024-13-01"),
    ("2024-01-01", "01.01.2024", "01.01.2024"),
    ('"P0D"', '"P0X"', "P0X"),
    ('"yyyy-MM-dd"', '"yyyy-mm-dd-qq"', "pattern"),
    # JSON that is none.
    ('"Accept": "appl', '"Accept" "appl', "is no JSON"),
    ('[200], "warning"', '[200]. "warning"', "is no JSON"),
    ("ms.ssl={", "ms.ssl=", "is no JSON"),
    ("[0, 100]}", "[0, 100}", "never balance"),
    ("ms.ssl={", "ms.ssl=[{", "never balance"),
    ('"method": "basic"', '"method": "basic", "method": "basic"', "given twice"),
    # JSON of another form.
    ('ms.pagination={"initialvalues": [0, 100]}', "ms.pagination=[0, 100]", "is no JSON object"),
    ("initialvalues", "initialvalue", 'Did you mean "initialvalues"?'),
    ("[0, 100]", '["a", 100]', "is no whole number"),
    ('"success": [200]', '"sucess": [200]', 'Did you mean "success"?'),
    ('"success": [200]', '"success": 200', "is no array"),
    ('"method": "basic"', '"method": "basik"', 'Did you mean "basic"?'),
    ('"encryption": "base64"', '"encryption": "base46"', 'Did you mean "base64"?'),
    (', "encryption": "base64"', "", 'Add "encryption".'),
    ('"socketTimeoutSeconds"', '"socketTimeoutSecond"', 'Did you mean "socketTimeoutSeconds"?'),
    ('Seconds": 30', 'Seconds": "soon"', "is no whole number"),
    ('"type": "pagestart"', '"type": "pagstart"', 'Did you mean "pagestart"?'),
    ('"name": "limit", ', "", "name"),
    ('"name": "limit", ', '"nam": "limit", ', "name"),
    ('"format": "datetime", "pattern": "yyyy-MM-dd"', '"format": "datetime"', "pattern", -1),
    ('"type": "long"', '"type": "lnog"', "long"),
    ('"isNullable": "false"', '"isNullable": "no"', "true or false"),
    ('"columnName": "ordered"', '"colunmName": "ordered"', "columnName"),
    ('"columnName": "ordered"', '"columnName": "id"', "id"),
    ('"type": "regexp"', '"type": "regex"', 'Did you mean "regexp"?'),
    ("([0-9-]{10}).*", "([0-9-]{10}.*", "regular expression"),
    ('"name": "loaded"', '"name": "day"', "day"),
    ('"type": "datetime", "range"', '"type": "datetme", "range"', "datetime"),
    ('"range"', '"rnage"', "range"),
    # What does not go together.
    ("{{region}}", "{{regoin}}", "region"),
    ("final.dir=lake", "final.dir=${lake.dir}", "which is not set"),
    ("final.dir=lake", "final.dir=${job.nmae}", 'Did you mean "job.name"?'),
    ("final.dir=lake", "final.dir=${env:LAKE_OF_NOBODY}", "Set it before the run."),
    ("password=env:PASSWORD", "password=env:NO_SUCH", "export NO_SUCH"),
    ("password=env:PASSWORD", "password=ENC(AQWoQ2Ybe8KXDXwPOA1Ziw==)", "encrypt.key.loc"),
    ("password=env:PASSWORD", "password=file:/no/such/file", "cannot be read"),
    ("task.maxretries=2", "data.publisher.replace.final.dir=maybe", "true or false"),
    ("ms.source.uri=https:", "ms.source.uri=htps:", "http:// or https://"),
    ("job.name=orders", "job.name=orders/eu", "Use letters"),
    ("table.name=orders", "table.name=or/ders", "Use letters"),
    ("extract.table.name=orders", "extract.table.name=", "is required"),
    ("ms.timezone=UTC", "ms.encoding=UTF-8\nms.source.data.character.set=latin1", "Keep ms."),
    ("ms.grace.period=P2D", "ms.grace.period=P2D\nms.grace.period.days=3", "Keep one of"),
    ("ms.timezone=UTC", "dataset.name=other\nms.timezone=UTC", "Keep extract.table.name"),
    ("ms.data.field=rows", "include=no/such.conf", "which does not exist"),
    ("ms.data.field=rows", "ms.data.field=\\u00zz", "hexadecimal"),
    ("ms.data.field=rows", "ms.data.field=\\ud83d", "half of a character"),
]


def with_mistake(good: str, bad: str) -> tuple[str, int]:
    """Return the sound job with one text in place of another, and the line of it."""
    head, found, tail = SOUND.partition(good)
    assert found, f"{good} is not in the job"
    return f"{head}{bad}{tail}", head.count("\n") + 1


def problems(load_text: Callable[..., Loaded], text: str) -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        load_text("job.conf", text, PASSWORD="p")
    return [
        (problem.origin.line if problem.origin else None, str(problem))
        for problem in caught.value.problems
    ]


def test_the_job_without_mistakes_gives_no_notice(load_text):
    assert load_text("job.conf", SOUND, PASSWORD="p").notices == ()


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed[0]} -> {seed[1]}")
def test_a_mistake_is_told_in_its_line_with_what_to_write(load_text, seed):
    good, bad, expected, *offset = seed
    text, line = with_mistake(good, bad)

    found = problems(load_text, text)

    assert {each for each, _ in found} == {line + sum(offset)}, found
    assert any(expected in message for _, message in found), found


def test_many_mistakes_are_told_together_in_the_order_of_their_lines(load_text):
    text = SOUND
    for good, bad in (
        ("partition=daily", "partition=dayly"),
        ("maxretries=2", "maxretries=two"),
        ("ms.ssl=", "ms.sls="),
        ('"type": "pagesize"', '"type": "pagsize"'),
    ):
        text = text.replace(good, bad)

    lines = [line for line, _ in problems(load_text, text)]

    assert lines == sorted(lines)
    assert len(set(lines)) == 4


def test_enough_kinds_of_mistakes_are_seeded():
    assert len(SEEDS) >= 60
