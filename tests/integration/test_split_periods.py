"""An API into tables of timelabels: it is asked for each period, however time is partitioned."""

from __future__ import annotations

import pytest

from dil.model.report import RunStatus
from tests.stories import ROWS_PER_DAY, Story, day
from tests.timeseries import label_of, labels_of, require_whole, rows_of, rows_of_the_source
from tests.warehouses import new_warehouse


@pytest.mark.parametrize("partition", ["none", "weekly", "daily"])
def test_each_label_has_the_rows_that_the_api_gave_for_its_period(
    tmp_path, source, request, partition
):
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        story = Story(
            tmp_path,
            source,
            ms__warehouse__url=warehouse.url,
            ms__warehouse__table__kind="timeseries",
            ms__timelabel__schedule="@daily",
            ms__work__unit__partition=partition,
        )
        for now in (2, 2, 5):
            assert story.run(day(now)).exit_code == 0
            assert rows_of(warehouse) == rows_of_the_source(source, day(0), day(now))

        assert story.run(day(5)).status is RunStatus.NOTHING_DUE
        rows = 2 * ROWS_PER_DAY
        assert labels_of(warehouse) == {label_of(each): ("LOADED", rows) for each in range(5)}
        require_whole(warehouse)


def test_missed_labels_have_no_table_until_a_backfill_reads_them(tmp_path, source, request):
    with new_warehouse("sqlite", tmp_path, request) as warehouse:
        story = Story(
            tmp_path,
            source,
            ms__warehouse__url=warehouse.url,
            ms__warehouse__table__kind="timeseries",
            ms__timelabel__schedule="@daily",
            ms__timelabel__catchup="false",
        )
        story.run(day(1))
        story.run(day(4))

        states = {label: state for label, (state, _) in labels_of(warehouse).items()}
        read, missed = (label_of(0), label_of(3)), (label_of(1), label_of(2))
        assert states == dict.fromkeys(read, "LOADED") | dict.fromkeys(missed, "SKIPPED")
        require_whole(warehouse)
        statuses = [state.status for state in story.states().values()]
        assert statuses.count("SKIPPED") == 4
