"""Documents that an earlier release stored are read, and written again byte for byte.

The names of fields are the names in these documents. Whoever renames a field, or gives a kind
another order, sees it here: the document keeps its form, or gets another format number.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dil.catalog.registering import Registration
from dil.extraction.paging.rules import PagingPosition
from dil.operator.backfill.definition import BackfillDefinition
from dil.planning.plan_file import decode_plan, encode_plan
from dil.publishing import manifest, metadata, owner, withdrawal
from dil.publishing.page_log import LoggedCheckpoint
from dil.publishing.staged import StagedPlan, StagedResult
from dil.publishing.start_marker import StartMark

GOLDEN = Path(__file__).parents[1] / "golden"
# What release f24e6b2 left of a run: see tests/golden/unversioned/README.md.
LEFT = "unversioned/lake"
KINDS = [
    ("documents/result.json", StagedResult),
    ("documents/failed-result.json", StagedResult),
    ("documents/staged-plan.json", StagedPlan),
    ("documents/page.json", LoggedCheckpoint),
    ("documents/start-marker.json", StartMark),
    ("documents/withdrawn-files.json", list[withdrawal._Copy]),
    ("documents/manifest-units.json", manifest.Manifest),
    ("documents/registration.json", Registration),
    ("documents/vacuum-files.json", list[str]),
    (f"{LEFT}/_staging/orders/run-2/*/*/result.json", StagedResult),
    (f"{LEFT}/_staging/orders/run-2/*/*/page-00000000.json", LoggedCheckpoint),
    (f"{LEFT}/_staging/orders/run-2/plan.json", StagedPlan),
    (f"{LEFT}/shop/orders/_dil/manifest-0.json", manifest.Manifest),
    (f"{LEFT}/shop/orders/_dil/current.json", manifest._Hint),
    (f"{LEFT}/shop/orders/_dil/owner.json", owner._Owners),
    (f"{LEFT}/shop/orders/_metadata.json", metadata._Metadata),
    (f"{LEFT}/_backfill/*/backfill.json", BackfillDefinition),
]


@pytest.mark.parametrize(("pattern", "kind"), KINDS, ids=[pattern for pattern, _ in KINDS])
def test_a_stored_document_is_written_again_as_it_was(pattern: str, kind: type) -> None:
    paths = sorted(GOLDEN.glob(pattern))
    assert paths
    for path in paths:
        stored = path.read_bytes()
        assert msgspec.json.encode(msgspec.json.decode(stored, type=kind)) == stored


def test_a_saved_plan_is_written_again_as_it_was() -> None:
    stored = (GOLDEN / "unversioned/plan.json").read_bytes()

    assert encode_plan(decode_plan(stored, "plan.json")) == stored


def test_the_position_in_a_page_log_is_written_again_as_it_was() -> None:
    logs = sorted(GOLDEN.glob(f"{LEFT}/_staging/orders/run-2/*/*/page-00000000.json"))
    assert len(logs) == 4
    for path in logs:
        stored = msgspec.json.decode(path.read_bytes(), type=LoggedCheckpoint).position
        found = PagingPosition.decoded(stored)
        assert found is not None
        assert found.encoded() == stored
