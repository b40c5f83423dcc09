"""Job files as they are written for DIL: their syntax, class names and keys of all its versions."""

from __future__ import annotations

import pytest

CURRENT = """\
# lists orders; run by the scheduler every night
! and this is a comment as well
source.class = com.linkedin.cdi.source.HttpSource
ms.extractor.class : com.linkedin.cdi.extractor.JsonExtractor
converter.classes=org.apache.gobblin.converter.csv.CsvToJsonConverterV2,\\
    org.apache.gobblin.converter.avro.JsonIntermediateToAvroConverter
ms.connection.client.factory=com.linkedin.cdi.factory.DefaultConnectionClientFactory
ms.secret.manager.class=com.linkedin.cdi.util.GobblinSecretManager

job.name=List of orders
job.group=shop
extract.namespace=com.acme
extract.table.name=orders
extract.table.type=snapshot_append
extract.is.full=False

base.uri=https://shop.test/v2
ms.source.uri=${base.uri}/{{region}}/orders
ms.parameters=[ \\
  {"name":"since","type":"watermark","watermark":"system","value":"low", \\
   "format":"datetime","pattern":"yyyy-MM-dd"}, \\
  {'name':'limit', type: pagesize}, // size of a page
  {"name":"offset","type":"pagestart"},]
ms.pagination={"fields": ["", ""], "initialvalues": [0, "500"]}
ms.watermark=[{"name":"system","type":"datetime","range":{"from":"2020-01-01","to":"-"}}, \\
  {"name":"region","type":"unit","units":"eu,us"}]
ms.work.unit.partition=Monthly
ms.authentication={"method":"custom","encryption":"","header":"x-key","token":"t"}
ms.session.key.field={"name":"state","condition":{"regexp":"(done|\\\\\\\\w+ended)"}}
ms.output.schema=[{"columnName":"id","isNullable":"true","dataType":{"type":"string"}}]

fs.uri=file://localhost/
state.store.fs.uri=file://localhost/
state.store.type=fs
data.publisher.final.dir=/tmp/lake/${extract.table.name}
writer.destination.type=HDFS
writer.builder.class=org.apache.gobblin.writer.AvroDataWriterBuilder
workunit.retry.enabled=false
gobblin.log.levelOverride=INFO
Xmx=1G"""

RENAMED = (
    ("com.linkedin.cdi.", "com.linkedin.dil."),
    ("org.apache.gobblin.converter", "gobblin.converter"),
    ("ms.connection.client.factory", "ms.http.client.factory"),
    ("extract.table.name=orders", "dataset.name=orders\nextract.table.name=orders"),
    ("ms.work.unit.partition=Monthly", "ms.work.unit.partition=Monthly\nms.encoding=UTF-8"),
)


@pytest.mark.parametrize("suffix", ["pull", "job", "properties", "conf"])
def test_a_job_file_of_dil_is_read_as_it_is(load_text, suffix):
    job = load_text(f"orders.{suffix}", CURRENT).job
    assert job.name == "List of orders"
    assert job.source.uri == "https://shop.test/v2/{{region}}/orders"
    assert [each.name for each in job.extraction.parameters] == ["since", "limit", "offset"]
    assert job.extraction.session is not None
    assert job.extraction.session.condition is not None
    assert job.extraction.session.condition.regexp == r"(done|\w+ended)"
    assert job.planning.partition == "monthly"
    assert job.publishing.final_dir == "/tmp/lake/orders"
    assert job.conversion.converters == ()


def test_names_of_earlier_versions_mean_the_same_job(load_text):
    old = CURRENT
    for new_text, old_text in RENAMED:
        assert new_text in old
        old = old.replace(new_text, old_text)
    found, expected = load_text("a.pull", old), load_text("b.pull", CURRENT)
    for part in ("name", "source", "extraction", "conversion", "planning", "writing"):
        assert getattr(found.job, part) == getattr(expected.job, part)
    told = {notice.key for notice in found.notices}
    assert {"ms.http.client.factory", "dataset.name", "ms.encoding"} <= told


def test_lenient_json_and_the_default_zone_are_warnings(load_text):
    told = {
        notice.key: f"{notice.what} {notice.fix}" for notice in load_text("a.pull", CURRENT).notices
    }
    assert "it was read leniently" in told["ms.parameters"]
    assert "America/Los_Angeles" in told["ms.watermark"]
    assert "Set ms.timezone" in told["ms.watermark"]


@pytest.mark.parametrize("name", ["ms.parameter", "ms.http.grace.period.days"])
def test_misspellings_of_dils_documents_are_errors_or_warnings_as_one_asks(job_file, name):
    found = job_file.problem(name, "[]")
    assert found.what == "is misspelled"
    assert name in job_file.notices({name: "[]"}, lenient=True)


def test_a_class_that_dil_never_had_is_told_under_its_own_name(job_file):
    found = job_file.problem("source.class", "com.linkedin.dil.source.KafkaSource")
    assert "KafkaSource" in found.what


@pytest.mark.parametrize("name", ["IdentityConverter", "LumosAttributesConverter"])
def test_a_converter_that_leaves_rows_as_they_are_does_nothing(job_file, name):
    name = f"org.apache.gobblin.converter.{name}"
    assert job_file.load({"converter.classes": name}).job.conversion.converters == ()


def test_an_empty_encryption_is_none_and_a_missing_one_is_an_error(job_file):
    text = '{"method": "custom", "encryption": "%s", "header": "x-key", "token": "t"}'
    blank = job_file.load({"ms.authentication": text % ""}).job.properties["ms.authentication"]
    named = job_file.load({"ms.authentication": text % "none"}).job.properties["ms.authentication"]
    assert blank == named
    (found,) = job_file.problems({"ms.authentication": '{"method": "custom", "token": "t"}'})
    assert found.fix == 'Add "encryption".'


def test_a_file_dump_is_one_by_the_name_of_the_old_package_too(job_file):
    name = "com.linkedin.dil.extractor.FileDumpExtractor"
    given = {"ms.extractor.class": name, "ms.extractor.target.file.name": "x.zip"}

    assert job_file.load(given).job.writing.file_name == "x.zip"
