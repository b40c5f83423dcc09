"""Queries over the changelog of a dataset that is merged: each change once, and what breaks it."""

from __future__ import annotations

from collections import Counter

import pytest

from dil import config
from dil.cli.main import main
from dil.errors import StateError
from dil.operator.compaction import CompactionRequest, compact
from dil.operator.lineage import Tracer, trace_lines
from dil.operator.replaying import ReplayOutcome
from dil.run.job_run import run_job
from tests.derived import Shop

ANEW = {"ms.query.mode": "full", "ms.publish.mode": "replace"}
MERGED_BY_CHANGES = {
    "ms__publish__mode": "merge",
    "extract__primary__key__fields": "id",
    "ms__merge__op__field": "what",
    "ms__merge__op__deletes": "1",
    "ms__publish__changelog": "true",
}


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def outcomes(shop, path):
    return {each.outcome for each in shop.replayed(path)}


def test_each_change_is_read_once_with_what_happened(shop):
    log = shop.derive("log", "SELECT op, id, amount FROM merged", "merged")
    shop.put({1: 10, 2: 20, 3: 30})
    shop.run(log)
    shop.put({1: 10, 2: 25})
    shop.put({4: 40}, deleted=[3])
    report = shop.run(log)

    first = [(0, 1, 10), (0, 2, 20), (0, 3, 30)]
    then = [(2, 2, 20), (3, 2, 25), (1, 3, 30), (0, 4, 40)]
    assert report.rows == 4
    assert shop.rows("log", "op", "id", "amount") == Counter([*first, *then])
    assert shop.run(log).status == "nothing_due"
    assert shop.verify(log).problems == shop.verify(shop.merged).problems == ()
    assert outcomes(shop, log) == {ReplayOutcome.SAME}


def test_a_dataset_merged_from_the_changelog_is_the_input(shop):
    copy = shop.derive(
        "copy",
        "SELECT id, amount, op AS what FROM merged WHERE op <> 2",
        "merged",
        **MERGED_BY_CHANGES,
    )
    third = shop.derive("third", "SELECT op, id FROM copy", "copy")
    for amounts, deleted in (({1: 1, 2: 2}, ()), ({2: 3, 4: 4}, (1,)), ({1: 7}, (2,))):
        shop.put(amounts, deleted=deleted)
        shop.run(copy)
        shop.run(third)
        assert shop.rows("copy", "id", "amount") == shop.rows("merged", "id", "amount")
    assert shop.rows("third", "op", "id")[(1, 1)] == 1
    assert shop.verify(copy).problems == ()


def test_several_changes_of_a_row_in_one_slice_come_in_their_order(shop):
    copy = shop.derive(
        "copy",
        "SELECT id, amount FROM merged WHERE op <> 2",
        "merged",
        ms__publish__mode="merge",
        extract__primary__key__fields="id",
    )
    for amount in (5, 6, 7, 6):
        shop.put({1: amount})
    shop.run(copy)

    assert shop.rows("copy", "id", "amount") == Counter([(1, 6)])


def test_full_reads_the_dataset_whose_rows_came_all(shop):
    every = shop.derive("every", "SELECT * FROM merged", "merged", ms__query__mode="full")
    shop.put({1: 1})
    shop.put({1: 2})
    shop.run(every)
    shop.now += 60_000
    compact(shop.job(shop.merged), CompactionRequest(clock=lambda: shop.now))
    shop.put({2: 3})
    shop.run(every)

    assert shop.rows("every", "id", "amount", "op") == Counter([(1, 2, 0), (2, 3, 0)])
    assert ReplayOutcome.DIFFERS not in outcomes(shop, every)


def test_full_names_changes_before_the_input_has_a_changelog(shop):
    log = shop.derive("log", "SELECT op, id, amount FROM merged", "merged")
    shop.put({1: 1}, changes={"ms.publish.changelog": "false"})
    with pytest.raises(StateError, match="changed rows, and no changelog says which") as error:
        shop.run(log)

    assert shop.run_as_printed(log, error.value.fix).exit_code == 0
    assert shop.rows("log", "op", "id", "amount") == Counter([(0, 1, 1)])
    assert set(outcomes(shop, log)) == {ReplayOutcome.SAME}


def test_a_merge_without_changelog_is_refused_and_the_next_one_begins_it_anew(shop):
    log = shop.derive("log", "SELECT op, id, amount FROM merged", "merged")
    shop.put({1: 1})
    shop.run(log)
    shop.put({1: 2}, changes={"ms.publish.changelog": "false"})
    with pytest.raises(StateError, match="changed rows, and no changelog says which") as error:
        shop.run(log)
    assert "-D ms.query.mode=full -D ms.publish.mode=replace" in error.value.fix
    shop.derive("whole", "SELECT op, id, amount FROM merged", "merged", ms__query__mode="full")
    shop.run(shop.folder / "whole.conf")
    assert shop.rows("whole", "op", "id", "amount") == Counter([(0, 1, 2)])

    shop.put({1: 3})
    with pytest.raises(StateError, match="starts the changelog over, after rows that were read"):
        shop.run(log)
    shop.derive("new", "SELECT op, id, amount FROM merged", "merged")
    shop.run(shop.folder / "new.conf")
    assert shop.rows("new", "op", "id", "amount") == Counter([(0, 1, 2), (2, 1, 2), (3, 1, 3)])

    job = config.load(log, overrides=ANEW, environ={}).job
    assert run_job(job, shop.options()).exit_code == 0
    shop.put({2: 1})
    shop.run(log)
    assert shop.rows("log", "op", "id", "amount") == Counter([(0, 1, 3), (0, 2, 1)])
    assert shop.verify(log).problems == ()


def test_the_printed_command_makes_a_dataset_anew_that_keeps_a_changelog(shop):
    copy = shop.derive("copy", "SELECT id, amount, op AS what FROM merged WHERE op <> 2", "merged",
                       **MERGED_BY_CHANGES)  # fmt: skip
    shop.put({1: 1, 2: 2})
    shop.run(copy)
    shop.put({1: 2}, changes={"ms.publish.changelog": "false"})
    shop.put({2: 3})
    with pytest.raises(StateError) as error:
        shop.run(copy)

    report = shop.run_as_printed(copy, error.value.fix)
    assert report.exit_code == 0
    shop.put({3: 3}, deleted=[1])
    shop.run(copy)
    assert shop.rows("copy", "id", "amount") == Counter([(2, 3), (3, 3)])
    kept = [event["changelogData"]["isBegun"] for event in shop.data(copy)[::2]]
    assert kept == [True, True], "the block between them is of the run that made it anew"
    assert shop.verify(copy).problems == ()


def test_a_changelog_that_begins_behind_blocks_without_rows_is_read_from_its_beginning(shop):
    log = shop.derive(
        "log", "SELECT op, id FROM merged", "merged", ms__query__input__max__blocks="1"
    )
    shop.put({})
    shop.run(log)
    shop.put({1: 1})
    shop.put({2: 2})
    shop.now += 60_000
    assert compact(shop.job(shop.merged), CompactionRequest(clock=lambda: shop.now)).removed
    shop.put({}, deleted=[1])
    while shop.run(log).status == "success":
        pass

    assert shop.rows("log", "op", "id") == Counter([(0, 1), (0, 2), (1, 1)])
    assert shop.verify(log).problems == ()


def test_a_compaction_changes_no_row_and_does_not_break_the_changelog(shop):
    log = shop.derive("log", "SELECT op, id, amount FROM merged", "merged")
    shop.put({1: 1})
    shop.put({2: 2})
    shop.run(log)
    shop.now += 60_000
    found = compact(shop.job(shop.merged), CompactionRequest(clock=lambda: shop.now))
    assert found.removed > len(found.added)
    shop.put({1: 3})

    assert shop.run(log).rows == 2
    assert shop.rows("log", "op", "id", "amount") == Counter(
        [(0, 1, 1), (0, 2, 2), (2, 1, 1), (3, 1, 3)]
    )


def test_a_row_leads_to_the_changelog_and_to_the_run_that_changed_it(shop):
    log = shop.derive("log", "SELECT op, id, amount FROM merged", "merged")
    shop.put({1: 1, 2: 2})
    shop.put({2: 5})
    shop.run(log)
    tracer = Tracer(shop.job(log), lambda: shop.now, shop.job)

    blocks = tracer.row("amount=5")
    (above,) = blocks[0].inputs[0].blocks

    assert blocks[0].inputs[0].is_narrowed
    (file,) = above.files
    assert file.first is None
    assert file.uri.rpartition("/")[0].endswith("/merged_changelog")
    assert above.units[0].signature.endswith('0002.json"}]')
    assert any(
        line.endswith("-changes-0.parquet, in merged_changelog") for line in trace_lines(blocks[0])
    )


def test_a_missing_file_of_the_changelog_is_found_by_verify(shop, capsys):
    shop.put({1: 1})
    (file,) = (shop.folder / "lake" / "shop" / "merged_changelog").glob("part-*")
    assert main(["state", "verify", str(shop.merged)]) == 0
    file.unlink()

    assert main(["state", "verify", str(shop.merged)]) == 1
    assert f"V20: file://{file} is gone" in capsys.readouterr().out
