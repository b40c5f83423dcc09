"""The property table: every entry can be set, defaulted, refused and explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dil.config.canonical import DEPRECATED, MISSPELLED, OF_GOBBLIN, canonical
from dil.config.docs import DEFAULT_TARGET, reference
from dil.config.entry import Entry
from dil.config.explaining import explain
from dil.config.findings import Findings
from dil.config.property import Property, properties_of
from dil.config.read_context import JobReadContext
from dil.config.sections import read_section
from dil.config.table import ALIASES, GROUPS, SECTIONS, TABLE
from dil.errors import ConfigError, Origin
from dil.model.section import Support, ValueType
from dil.secrets import SecretResolver

OTHER_THAN_DEFAULT = {
    ValueType.INT: "7",
    ValueType.LONG: "7",
    ValueType.JSON_ARRAY: '["x"]',
    ValueType.JSON_OBJECT: '{"x": "y"}',
    ValueType.OCTAL: "700",
    ValueType.FILE_SYSTEM: "hdfs://lake",
}
REFUSED = [entry for entry in TABLE.values() if entry.support is Support.REFUSED]
WITHOUT_EFFECT = [entry for entry in TABLE.values() if entry.support is Support.NO_EFFECT]
# Those that can be set to something else than their default.
SETTABLE = [entry for entry in WITHOUT_EFFECT if entry.words != (entry.default,)]
LABELS = {"job.description", "job.dir", "job.group"}


def other_value(entry: Property) -> str:
    if entry.name == "ms.secondary.input":
        return '[{"path": "p"}]'
    if entry.name.startswith("data.publisher."):
        return "BaseDataPublisher"  # the other word is for file dumps
    if entry.type is ValueType.BOOL:
        return "false" if entry.default == "true" else "true"
    if entry.type is ValueType.ENUM:
        return entry.words[-1]
    return OTHER_THAN_DEFAULT.get(entry.type, "x")


def test_every_property_stands_in_the_table_once():
    assert len(TABLE) == sum(len(group.properties) for group in GROUPS)
    assert not set(TABLE) & (set(ALIASES) | set(DEPRECATED) | set(MISSPELLED))


@pytest.mark.parametrize("kind", SECTIONS, ids=lambda kind: kind.__name__)
def test_every_default_can_be_written_and_is_explained(kind):
    findings = Findings()
    plain = JobReadContext(SecretResolver({}, Path()), "UTC")
    origin = Origin("orders.conf")
    written = {
        entry.name: Entry(entry.name, entry.default, origin)
        for entry in properties_of(kind)
        if entry.default
    }
    assert read_section(kind, written, plain, findings) == kind()
    assert findings.problems == []
    assert all(entry.meaning.endswith(".") for entry in properties_of(kind))


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry.name)
def test_what_would_do_something_else_here_is_refused_and_another_property_named(job_file, entry):
    found = job_file.problem(entry.name, other_value(entry))
    used = re.search(r"Use .*`([a-z.]+)", found.fix)
    assert used is not None, found.fix
    assert used[1] in TABLE


@pytest.mark.parametrize("entry", SETTABLE, ids=lambda entry: entry.name)
def test_a_run_that_sets_what_has_no_effect_says_so(job_file, entry):
    job = {entry.name: other_value(entry)}
    if entry.name.startswith("state.store.db."):
        job |= {"state.store.type": "mysql", "state.store.db.url": "mysql://db:3306/dil"}
    told = [f"{notice.key} {notice.what}" for notice in job_file.load(job).notices]
    is_told = any("effect" in text and entry.name in text for text in told)
    assert is_told == (entry.name not in LABELS)


def test_what_is_refused_or_has_no_effect_says_so_in_its_reference():
    text = reference()
    for entry in (*REFUSED, *WITHOUT_EFFECT):
        (row,) = (line for line in text.splitlines() if f'<a id="{entry.name}">' in line)
        assert f"**{entry.support.value.capitalize()}.**" in row


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry.name)
def test_its_default_and_a_blank_are_accepted(job_file, entry):
    job_file.load({entry.name: entry.default})
    job_file.load({entry.name: ""})


@pytest.mark.parametrize(
    ("key", "word"),
    [(entry.name, word) for entry in TABLE.values() for word in entry.refused_words],
)
def test_a_word_of_gobblins_that_is_nothing_here_is_refused(job_file, key, word):
    found = job_file.problem(key, word)
    assert "not supported" in found.what
    assert found.fix.startswith("Use one of: ")


@pytest.mark.parametrize(
    "properties",
    [
        {"writer.destination.type": "HDFS", "writer.staging.dir": "/s", "writer.output.dir": "/o"},
        {"task.data.root.dir": "/t", "job.group": "g", "workunit.retry.enabled": "false"},
        {"workunit.retry.policy": "onfull", "writer.builder.class": "org.x.SomeBuilder"},
        {"converter.classes": "org.apache.gobblin.converter.avro.JsonIntermediateToAvroConverter"},
    ],
)
def test_what_nobody_misses_without_its_effect_is_information_in_one_line(job_file, properties):
    loaded = job_file.load(properties)
    assert loaded.notices == loaded.infos
    assert len(loaded.infos) <= 1


def test_ignored_keys_that_would_be_missed_give_a_notice(job_file):
    assert job_file.notices({"job.schedule": "0 0 * * *"}) == ["job.schedule"]
    assert job_file.notices({"dataset.urn": "x"}) == ["dataset.urn"]
    assert job_file.notices({"job.lock.enabled": "false"}) == ["job.lock.enabled"]
    assert job_file.notices({"job.lock.enabled": "true"}) == []


def test_a_property_that_a_reference_reads_has_that_effect(job_file):
    job = {"writer.output.dir": "elsewhere", "data.publisher.final.dir": "${writer.output.dir}"}
    assert job_file.load(job).notices == ()


def test_an_alias_means_its_property(job_file):
    loaded = job_file.load({"writer.file.pathType": "tablename"})
    assert loaded.job.publishing.dataset_path == "orders"


def test_an_alias_that_differs_from_its_property_is_refused(job_file):
    found = job_file.problems(
        {"writer.file.pathType": "tablename", "writer.file.path.type": "default"}
    )
    assert [problem.key for problem in found] == ["writer.file.pathType"]


def test_unknown_keys_of_ours_are_refused_with_the_nearest_name(job_file):
    found = job_file.problem("ms.parametrs", "[]")
    assert found.fix == 'Did you mean "ms.parameters"?'


def test_unknown_keys_of_ours_are_notices_when_lenient(job_file):
    assert job_file.notices({"ms.parametrs": "1"}, lenient=True) == ["ms.parametrs"]


def test_other_unknown_keys_are_told_once_in_one_notice(job_file):
    (notice,) = job_file.load({"my.own": "1", "other.own": "2"}).notices
    assert "my.own, other.own" in notice.what


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("source.conn.pasword", "source.conn.password"),
        ("writer.ouput.format", "writer.output.format"),
        ("job.naem", "job.name"),
        ("task.maxretry", "task.maxretries"),
        ("extract.tabel.type", "extract.table.type"),
        ("data.publisher.final.dri", "data.publisher.final.dir"),
        ("state.store.typ", "state.store.type"),
        ("converter.clases", "converter.classes"),
        ("Writer.Output.Format", "writer.output.format"),
        ("MS.Timezone", "ms.timezone"),
    ],
)
def test_a_key_that_begins_like_a_property_and_nearly_is_one_is_refused(job_file, key, meant):
    found = job_file.problem(key, "1")
    assert (found.key, found.fix) == (key, f'Did you mean "{meant}"?')
    assert found.origin is not None
    assert found.origin.line == 8


def test_lenient_makes_a_nearly_known_key_a_warning(job_file):
    (notice,) = job_file.load({"writer.ouput.format": "JSON"}, lenient=True).notices
    assert notice.key == "writer.ouput.format"


@pytest.mark.parametrize("key", sorted(OF_GOBBLIN))
def test_keys_of_gobblin_without_a_meaning_are_known_and_named_in_a_notice(job_file, key):
    found = job_file.load({key: "1"})
    (notice,) = found.notices
    assert key in notice.what
    assert found.infos == (notice,)  # no warning


@pytest.mark.parametrize("key", ["metrics.reporting.file.enabled", "mr.include.task.counters"])
def test_parts_of_gobblin_that_are_not_here_are_known_as_a_whole(job_file, key):
    found = job_file.load({key: "1"})
    assert found.infos == found.notices


def test_keys_of_gobblin_that_change_rows_are_warnings(job_file):
    found = job_file.load({"simple.writer.delimiter": "1"})
    assert "simple.writer.delimiter" in found.notices[0].what
    assert found.infos == ()


def test_no_key_of_gobblin_is_a_property_as_well():
    assert not OF_GOBBLIN & {*TABLE, *ALIASES}


def test_a_warning_stays_one_when_there_are_problems(job_file):
    changes = {"serverport": "1", "sources.conn.port": "2", "ms.timezone": "nowhere"}
    assert [each.key for each in job_file.problems(changes)] == ["ms.timezone"]


def test_a_missing_property_asks_whether_a_similar_key_is_meant(job_file):
    (found,) = job_file.problems({"job.name": None, "jobname": "pg"})
    assert found.key == "job.name"
    assert "Is jobname (" in found.fix


def test_a_key_that_something_refers_to_is_no_misspelling(job_file):
    found = job_file.problems({"jobname": "a", "job.name": "${jobname}", "extract.table.name": ""})
    assert [each.key for each in found] == ["extract.table.name"]


@pytest.mark.parametrize("key", MISSPELLED)
def test_misspelled_keys_are_refused_with_the_right_one(job_file, key):
    assert MISSPELLED[key] in job_file.problem(key, "1").fix


def test_an_old_key_moves_to_the_new_one_with_a_notice(job_file):
    loaded = job_file.load({"extract.table.name": None, "dataset.name": "old"})
    assert loaded.job.publishing.dataset_path == "old"
    assert [notice.key for notice in loaded.notices] == ["dataset.name"]


def test_an_old_key_that_equals_the_new_one_is_fine_and_one_that_differs_is_not(job_file):
    assert job_file.load({"dataset.name": "orders"}).job.publishing.dataset_path == "orders"
    assert "contradicts" in job_file.problem("dataset.name", "other").what


def test_the_old_cleansing_switch_is_honoured(job_file):
    assert job_file.load({"ms.enable.cleansing": "false"}).job.extraction.cleansing is None
    assert job_file.load({"ms.enable.cleansing": "true"}).job.extraction.cleansing is not None


def test_old_csv_keys_become_members_of_the_new_one():
    from dil.config.entry import Entry
    from dil.errors import Origin

    entries = {
        key: Entry(key, text, Origin("a.conf", 1))
        for key, text in {
            "ms.csv.separator": ";", "ms.csv.column.header": "true", "ms.csv": '{"linesToSkip":2}',
        }.items()
    }  # fmt: skip
    findings = Findings()
    found = canonical(entries, findings, lenient=False)
    assert found["ms.csv"].text == '{"linesToSkip":2,"fieldSeparator":";","columnHeaderIndex":"0"}'
    assert len(findings.notices) == 2


@pytest.mark.parametrize(
    ("now", "key", "what"),
    [
        ('{"fieldSeparator":";"}', "ms.csv.separator", "contradicts fieldSeparator of ms.csv"),
        ("{", "ms.csv", "has brackets that never balance"),
        ("[1]", "ms.csv", "is no JSON object"),
    ],
)
def test_an_old_csv_key_beside_a_wrong_new_one_is_one_problem(job_file, now, key, what):
    (found,) = job_file.problems({"ms.csv": now, "ms.csv.separator": ","})
    assert (found.key, found.what) == (key, what)


@pytest.mark.parametrize("key", ["ms.watermark.type", "ms.http.client.factory"])
def test_an_old_key_that_does_nothing_here_is_a_notice(job_file, key):
    (notice,) = job_file.load({key: "org.acme.Own"}).notices
    assert (notice.key, notice.fix) == (key, "Remove it.")


def test_a_property_is_explained_by_name_alias_and_old_name():
    assert "Did you" not in explain("ms.http.conn.max")
    assert "0 means 50" in explain("ms.http.conn.max")
    assert explain("writer.file.pathType").startswith("writer.file.path.type\n")
    assert "ms.csv, member fieldSeparator" in explain("ms.csv.separator")
    with pytest.raises(ConfigError, match=r"ms\.parameters"):
        explain("ms.parametrs")


def test_the_committed_reference_is_what_the_table_says():
    root = Path(__file__).parents[3]
    committed = (root / DEFAULT_TARGET).read_text()
    assert committed == reference(), "run: python -m dil.config.docs"


def test_events_of_dil_stop_no_job_and_one_notice_says_where_they_are(job_file):
    events = {
        "ms.metrics.enabled": "true",
        "ms.reporter.class": "com.acme.Reporter",
        "ms.kafka": '{"bootstrap.servers": "k:9092"}',
        "ms.kafka.events.topic.name": "events",
    }
    loaded = job_file.load(events)
    (notice,) = (each for each in loaded.notices if each not in loaded.infos)
    assert notice.key == "ms.metrics.enabled"
    assert "dil plan --json" in notice.fix
