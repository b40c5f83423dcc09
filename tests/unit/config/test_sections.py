"""The sections of a job: publishing, writing, running, state; and the digest."""

from __future__ import annotations

import pytest

from dil.model.job import CommitPolicy, OutputFormat, PublishMode


def publishing(job_file, **properties: str):
    return job_file.load(
        {"extract.namespace": "com.acme.crm", "extract.table.name": "contacts", **properties}
    ).job.publishing


@pytest.mark.parametrize(
    ("properties", "path", "has_run_folder"),
    [
        ({}, "com/acme/crm/contacts", True),
        ({"writer.file.path.type": "NAMESPACE_TABLE"}, "com/acme/crm/contacts", False),
        ({"writer.file.path.type": "tablename"}, "contacts", False),
        ({"writer.file.path": "a/b"}, "a/b", False),
        ({"data.publisher.appendExtractToFinalDir": "false"}, "", False),
        ({"ms.publish.mode": "replace"}, "com/acme/crm/contacts", False),
    ],
)
def test_the_layout_follows_the_path_type(job_file, properties, path, has_run_folder):
    found = publishing(job_file, **properties)
    assert (found.dataset_path, found.run_folder) == (path, has_run_folder)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("out", "{}/out"),
        ("../out", "{}/../out"),
        ("/data/out/", "/data/out"),
        ("file:///data/out", "/data/out"),
        ("file://localhost/data/a%20b", "/data/a b"),
        ("file:/data/out", "/data/out"),
    ],
)
def test_paths_are_absolute_and_relative_ones_start_at_the_job_file(job_file, text, path):
    found = publishing(job_file, **{"data.publisher.final.dir": text}).final_dir
    if path.startswith("{}"):
        folder = job_file.folder if ".." not in path else job_file.folder.parent
        assert found == str(folder / "out")
    else:
        assert found == path


@pytest.mark.parametrize("path", ["/abs", "a/../b", "_x/y"])
def test_an_output_path_outside_the_final_directory_is_refused(job_file, path):
    job_file.problem("writer.file.path", path)


def test_permissions_are_mode_bits_and_the_writers_win(job_file):
    found = publishing(
        job_file,
        **{
            "writer.dir.permissions": "750",
            "writer.file.permissions": "640",
            "data.publisher.permissions": "0777",
        },
    )
    assert (found.dir_mode, found.file_mode) == (0o750, 0o640)
    assert publishing(job_file, **{"data.publisher.permissions": "0777"}).dir_mode == 0o777
    assert publishing(job_file).dir_mode is None


def test_replace_final_dir_replaces_unless_each_run_has_its_own_folder(job_file):
    replaced = {"data.publisher.replace.final.dir": "true"}
    loaded = job_file.load({**replaced, "writer.file.path.type": "namespace_table"})
    assert loaded.job.publishing.mode is PublishMode.REPLACE
    assert loaded.job.planning.ignore_history
    kept = job_file.load(replaced)
    assert kept.job.publishing.mode is PublishMode.APPEND
    assert [notice.key for notice in kept.notices] == ["data.publisher.replace.final.dir"]


def test_contradicting_modes_are_refused(job_file):
    found = job_file.problems(
        {
            "ms.publish.mode": "append",
            "data.publisher.replace.final.dir": "true",
            "writer.file.path.type": "tablename",
        }
    )
    assert [problem.key for problem in found] == ["ms.publish.mode"]
    written_out = {"ms.publish.mode": "window_replace", "writer.file.path.type": "default"}
    assert [problem.key for problem in job_file.problems(written_out)] == ["ms.publish.mode"]


def test_grace_with_plain_append_is_noticed(job_file):
    assert job_file.notices({"ms.grace.period.days": "1"}) == ["ms.grace.period.days"]
    assert job_file.notices({"ms.grace.period": "PT1H"}) == ["ms.grace.period"]
    window = {"ms.grace.period.days": "1", "ms.publish.mode": "window_replace"}
    assert job_file.notices(window) == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [("", OutputFormat.AVRO), ("OTHER", OutputFormat.AVRO), ("parquet", OutputFormat.PARQUET),
     ("JSON", OutputFormat.JSON), ("csv", OutputFormat.CSV), ("ORC", OutputFormat.ORC)],
)  # fmt: skip
def test_the_output_format_alone_chooses_the_writer(job_file, word, expected):
    assert job_file.load({"writer.output.format": word}).job.writing.format is expected


def test_the_codec_is_empty_unless_it_was_written(job_file):
    assert job_file.load().job.writing.codec == ""
    assert job_file.load({"writer.codec.type": "snappy"}).job.writing.codec == "SNAPPY"


def test_running_has_the_documented_defaults(job_file):
    running = job_file.load().job.running
    assert (running.threads, running.max_retries, running.retry_interval_s) == (10, 4, None)
    assert running.commit_policy is CommitPolicy.FULL
    assert (running.lease_s, running.disabled) == (60, False)


def test_a_limit_below_the_memory_of_an_idle_worker_is_refused(job_file):
    assert "or 0 for no limit" in job_file.problem("ms.task.memory.max.bytes", "1000").fix
    for no_limit_or_enough in ("0", "268435456"):
        assert job_file.notices({"ms.task.memory.max.bytes": no_limit_or_enough}) == []


def test_partial_means_successful_with_a_notice(job_file):
    loaded = job_file.load({"job.commit.policy": "partial"})
    assert loaded.job.running.commit_policy is CommitPolicy.SUCCESSFUL
    assert [notice.key for notice in loaded.notices] == ["job.commit.policy"]


def test_state_is_beside_the_job_file_unless_it_is_said_where(job_file):
    state = job_file.load().job.state
    assert state.directory == str(job_file.folder / ".dil")
    assert (state.kind, state.enabled, state.is_default_place) == ("sqlite", True, True)
    state = job_file.load({"state.store.type": "fs", "state.store.dir": "file:///state"}).job.state
    assert (state.kind, state.directory, state.is_default_place) == ("sqlite", "/state", False)


def test_noop_state_and_switched_off_state_are_not_enabled(job_file):
    assert not job_file.load({"state.store.type": "noop"}).job.state.enabled
    assert not job_file.load({"state.store.enabled": "false"}).job.state.enabled
    mixed = {"state.store.type": "fs", "dataset.state.store.type": "noop"}
    assert not job_file.load(mixed).job.state.enabled


@pytest.mark.parametrize(
    "properties",
    [
        {"task.maxretries": "9", "taskexecutor.threadpool.size": "1"},
        {"job.description": "x", "state.store.dir": "s", "ms.lease.seconds": "5"},
        {"ms.work.unit.parallelism.max": "7", "ms.work.unit.pacing.seconds": "1"},
        {"ms.work.unit.partition": "none", "extract.table.type": "SNAPSHOT_ONLY"},
        {"job.lock.enabled": "false", "my.key": "1"},
    ],
)
def test_run_control_and_written_defaults_leave_the_digest_alone(job_file, properties):
    assert job_file.load(properties).job.digest == job_file.load().job.digest


@pytest.mark.parametrize(
    "properties",
    [
        {"ms.source.uri": "https://other.test/"},
        {"ms.work.unit.partition": "daily"},
        {"writer.output.format": "CSV"},
        {"source.conn.password": "x"},
        {"data.publisher.final.dir": "elsewhere"},
        {"extract.namespace": "com.acme"},
        {"writer.file.path": "elsewhere"},
        {"writer.file.path.type": "tablename"},
        {"data.publisher.appendExtractToFinalDir": "false"},
        {"ms.publish.mode": "window_replace"},
        {"data.publisher.replace.final.dir": "true", "writer.file.path.type": "tablename"},
        {"writer.file.permissions": "640"},
    ],
)
def test_what_decides_the_output_changes_the_digest(job_file, properties):
    assert job_file.load(properties).job.digest != job_file.load().job.digest


def test_an_output_folder_that_moves_with_its_job_file_changes_the_digest(job_file):
    before = job_file.load().job.digest
    job_file.folder = job_file.folder.parent
    assert job_file.load().job.digest != before


def test_the_form_of_json_does_not_change_the_digest(job_file):
    one = job_file.load({"ms.pagination": '{"initialvalues":[0,1]}'}).job.digest
    other = job_file.load({"ms.pagination": "{ 'initialvalues': [0, 1] }"}).job.digest
    assert one == other


def test_tasks_that_publish_for_themselves_leave_no_success_behind(job_file):
    changes = {"publish.data.at.job.level": "false", "job.commit.policy": "full"}
    loaded = job_file.load(changes)
    assert loaded.job.running.commit_policy is CommitPolicy.SUCCESSFUL
    assert "publish.data.at.job.level" in [notice.key for notice in loaded.notices]


def test_tasks_that_publish_for_themselves_cannot_replace(job_file):
    changes = {"data.publisher.replace.final.dir": "true", "writer.file.path.type": "tablename"}
    found = job_file.problems({**changes, "publish.data.at.job.level": "false"})
    assert [problem.key for problem in found] == ["publish.data.at.job.level"]
