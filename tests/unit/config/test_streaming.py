"""Jobs that run as a stream: how they are read, and which properties are refused."""

from __future__ import annotations

import pytest

from dil.model.stream import StreamMode

STREAM = {"ms.stream.mode": "ingest"}
RANGE = '[{"name":"t","type":"datetime","range":{"from":"2020-01-01","to":"-"}}]'


def test_a_stream_ends_with_the_due_work_unless_it_is_a_service(job_file):
    stream = job_file.load(STREAM).job.stream
    assert (stream.mode, stream.every_ms, stream.stop_file) == (StreamMode.INGEST, None, "")
    assert stream.checkpoint_dir == f"{job_file.folder.resolve()}/out/_checkpoint/orders"

    own = {
        "ms.stream.trigger": "PT30S",
        "ms.stream.checkpoint": "points",
        "ms.stream.stop.file": "orders.stop",
    }
    stream = job_file.load({**STREAM, **own}).job.stream
    assert stream.every_ms == 30_000
    assert stream.checkpoint_dir == f"{job_file.folder.resolve()}/points"
    assert stream.stop_file == f"{job_file.folder.resolve()}/orders.stop"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("PT0S", "no time at all"),
        ("avaliable_now", 'Did you mean "available_now"?'),
        ("P99999999999999999999D", "too long"),
        ("P1M", "PT30S for a service"),
    ],
)
def test_a_trigger_is_a_length_of_time_or_available_now(job_file, text, told):
    (found,) = job_file.problems({**STREAM, "ms.stream.trigger": text})
    assert found.key == "ms.stream.trigger"
    assert told in f"{found.what} {found.fix}"


@pytest.mark.parametrize(
    ("more", "fix"),
    [
        ({"state.store.enabled": "false"}, "Keep the state."),
        ({"ms.backfill": "true", "ms.watermark": RANGE}, "-D ms.stream.mode=none"),
        ({"ms.publish.mode": "replace"}, "ms.publish.mode=append, merge or window_replace"),
        (
            {
                "ms.publish.mode": "merge",
                "extract.primary.key.fields": "id",
                "ms.merge.delete.missing": "true",
            },
            "Leave ms.merge.delete.missing out",
        ),
        ({"ms.work.unit.min.units": "3"}, "Leave ms.work.unit.min.units out."),
        ({"ms.stream.mode": "stateful"}, "Set ms.stream.mode=ingest"),
    ],
)
def test_what_a_stream_cannot_do_is_refused_with_the_way_out(job_file, more, fix):
    (found,) = job_file.problems({**STREAM, **more})
    assert found.key == "ms.stream.mode"
    assert fix in found.fix


def test_a_stop_file_is_on_this_machine(job_file):
    (found,) = job_file.problems({**STREAM, "ms.stream.stop.file": "s3://lake/stop"})
    assert found.key == "ms.stream.stop.file"


def test_limits_of_micro_batches_have_no_effect_in_a_batch(job_file):
    assert job_file.notices({"ms.stream.max.rows": "3"}) == ["ms.stream.max.rows"]
    switched_off = {"ms.stream.max.rows": "3", "ms.stream.mode": "none"}
    assert job_file.notices(switched_off) == []
