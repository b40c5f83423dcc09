"""The digest of a job that nobody changed is the same in every release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, make_dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil import config
from dil.config import digest as digests
from dil.config.digest import digest
from dil.config.entry import Entry
from dil.config.legacy_digest import legacy_digest
from dil.config.table import TABLE
from dil.errors import Origin
from dil.model.job import Job

GOLDEN = Path(__file__).parents[2] / "golden" / "digest"
# A job, its digest, and what the release recorded for it that gave digests no version.
KNOWN = [line.split() for line in (GOLDEN / "digests.txt").read_text().splitlines()]
DECIDING = [name for name, entry in TABLE.items() if entry.identity]


def loaded(name: str) -> Job:
    return config.load(GOLDEN / f"{name}.conf", environ={}).job


def entries_of(texts: Mapping[str, str]) -> dict[str, Entry]:
    return {name: Entry(name, text, Origin("job.conf")) for name, text in texts.items()}


@pytest.mark.parametrize(("name", "now", "first"), KNOWN)
def test_a_new_release_knows_what_an_earlier_one_began(name: str, now: str, first: str) -> None:
    # Work that a crash left, rows that were sent, open backfills and kept plans are known by it.
    # A new property or field with its default must not change it.
    assert loaded(name).known_digests == (now, first)


def test_every_job_file_of_the_golden_digests_has_one() -> None:
    assert {path.stem for path in GOLDEN.glob("*.conf")} == {name for name, *_ in KNOWN}


def test_a_digest_fits_where_stores_keep_it() -> None:
    assert len(loaded("files").digest) <= 80


def test_the_default_of_a_property_that_decides_what_is_read_is_pinned() -> None:
    # A property with its default is not mentioned in digests. So where a default changes, the
    # former one goes into FORMER_DEFAULTS of dil/config/digest.py, and the line here stays.
    pinned = dict(line.split("=", 1) for line in (GOLDEN / "defaults.txt").read_text().splitlines())
    now = {name: digests.FORMER_DEFAULTS.get(name, TABLE[name].default) for name in DECIDING}

    assert now == pinned


@pytest.mark.parametrize("is_written", [False, True])
def test_a_new_property_with_its_default_changes_no_digest(
    monkeypatch: pytest.MonkeyPatch, *, is_written: bool
) -> None:
    job = loaded("files")
    before = digest({}, job.publishing, job.writing), legacy_digest({}, job.publishing, job.writing)
    new = replace(TABLE["ms.data.field"], name="ms.data.novelty", default="some")
    monkeypatch.setattr(digests, "TABLE", {**TABLE, new.name: new})
    monkeypatch.setattr("dil.config.legacy_digest.TABLE", {**TABLE, new.name: new})

    entries = entries_of({new.name: " some "} if is_written else {})
    after = (
        digest(entries, job.publishing, job.writing),
        legacy_digest(entries, job.publishing, job.writing),
    )
    assert after == before

    entries = entries_of({new.name: "other"})
    assert digest(entries, job.publishing, job.writing) != before[0]
    assert legacy_digest(entries, job.publishing, job.writing) != before[1]


def test_a_changed_default_changes_the_digest_of_jobs_that_leave_it_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = loaded("files")
    before = digest({}, job.publishing, job.writing)
    known = TABLE["extract.extractIdTimeZone"]
    new = replace(known, default="Asia/Tokyo")
    monkeypatch.setattr(digests, "TABLE", {**TABLE, known.name: new})
    monkeypatch.setattr(digests, "FORMER_DEFAULTS", {known.name: known.default})

    assert digest({}, job.publishing, job.writing) != before
    written = entries_of({known.name: known.default})
    assert digest(written, job.publishing, job.writing) == before


@given(st.permutations(DECIDING), st.data())
def test_the_order_of_properties_does_not_reach_the_digest(
    order: list[str], data: st.DataObject
) -> None:
    texts = {name: data.draw(st.sampled_from(["1", "[1, 2]", '{"b": 1, "a": 2}'])) for name in
             order[:5]}  # fmt: skip
    job = loaded("files")
    turned = dict(reversed(texts.items()))

    assert digest(entries_of(texts), job.publishing, job.writing) == digest(
        entries_of(turned), job.publishing, job.writing
    )


@pytest.mark.parametrize("name", [name for name, *_ in KNOWN])
def test_names_of_classes_and_a_new_field_do_not_reach_the_digest(name: str) -> None:
    job = loaded(name)
    expected = [of({}, job.publishing, job.writing) for of in (digest, legacy_digest)]
    publishing, writing = renamed(job.publishing), renamed(job.writing)

    assert [of({}, publishing, writing) for of in (digest, legacy_digest)] == expected


def renamed(spec):
    """Return the values in a class of another name, other order, with one field more."""
    names = [each.name for each in fields(spec)]
    kind = make_dataclass("Renamed", ["novelty", *reversed(names)])
    return kind(novelty=1, **{name: getattr(spec, name) for name in names})
