"""The registry of timelabels follows the chain, which decides which labels are closed."""

from __future__ import annotations

import pytest

from dil.errors import WriteError
from dil.model.closed_labels import CLOSED_LABELS
from dil.publishing import closed_labels
from dil.publishing.closed_labels import settle_registry
from dil.publishing.publisher import Publisher
from dil.storage import LocalFilesystem
from tests.stories import Story

MARK = ["20200101000000", 0, 86_400_000, "CLOSED", 5, False]


def test_labels_that_the_registry_could_not_be_told_of_are_settled_by_the_next_run(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise WriteError("the database is away")

    marked: list[list[str]] = []
    job = story.job()
    monkeypatch.setattr(closed_labels, "keeps_registry", lambda _: True)
    with story.store() as store:
        publisher = Publisher(job, store, LocalFilesystem())
        lease = store.acquire_lease("r1", lease_s=60)
        store.change_checkpoint(lease, CLOSED_LABELS, {"marks": [MARK]})
        monkeypatch.setattr(closed_labels, "mark_labels", away)
        settle_registry(publisher, lease)
        monkeypatch.setattr(
            closed_labels,
            "mark_labels",
            lambda _, __, marks: marked.append([each.label for each in marks]),
        )
        for _ in range(2):
            settle_registry(publisher, lease)

    assert marked == [["20200101000000"]]
