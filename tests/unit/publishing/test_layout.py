import pytest

from dil.model.job import PublishingSpec
from dil.publishing import layout

NOON = 1_579_089_600_000  # 2020-01-15T12:00:00Z


def spec(**changes):
    facts = {"final_dir": "/lake/", "dataset_path": "com/acme/contacts", **changes}
    return PublishingSpec(**facts)


def test_a_dataset_lies_below_the_final_dir():
    assert layout.dataset_dir(spec()) == "/lake/com/acme/contacts"
    assert layout.dataset_dir(spec(dataset_path="")) == "/lake"


def test_staging_is_hidden_from_readers():
    assert layout.run_staging_dir(spec(), "job", "r1") == "/lake/_staging/job/r1"


@pytest.mark.parametrize(("full", "suffix"), [(True, "full"), (False, "append")])
def test_a_run_folder_is_named_by_extract_id_and_load_style(full, suffix):
    found = layout.output_dir(spec(run_folder=True), now=NOON, full=full, taken=frozenset())
    assert found == f"/lake/com/acme/contacts/20200115120000_{suffix}"


def test_the_extract_id_follows_its_zone():
    with_zone = spec(run_folder=True, extract_id_zone="America/Los_Angeles")
    found = layout.output_dir(with_zone, now=NOON, full=True, taken=frozenset())
    assert found.endswith("/20200115040000_full")


def test_two_runs_in_one_second_count_up():
    taken = frozenset({"20200115120000_full", "20200115120001_full"})
    found = layout.output_dir(spec(run_folder=True), now=NOON, full=True, taken=taken)
    assert found.endswith("/20200115120002_full")


def test_without_run_folder_files_go_to_the_dataset_itself():
    found = layout.output_dir(spec(), now=NOON, full=True, taken=frozenset())
    assert found == "/lake/com/acme/contacts"


def test_a_final_name_tells_run_work_unit_and_number():
    name = layout.final_name("r1", "ab12", 3, rows=None, extension="parquet")
    assert name == "part-r1-ab12-3.parquet"
    assert layout.final_name("r1", "ab12", 3, rows=7, extension="avro") == "part-r1-ab12-3.7.avro"
