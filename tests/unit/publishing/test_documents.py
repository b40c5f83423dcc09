"""Documents of a format that only a later version knows are left alone, and told."""

import json

import pytest

from dil.errors import StateError
from dil.model.dataset import Commit, Move, Owner, PublishedFile
from dil.model.job import PublishMode
from dil.publishing import manifest
from dil.publishing.manifest import live_files
from dil.publishing.owner import claim
from dil.storage import LocalFilesystem
from tests.jobs import dataset
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import STEP_MS, Story, day, ids_of

files = LocalFilesystem()


def commit(name):
    target = PublishedFile(f"file:///out/{name}", f"sig-{name}", 1, 10, "", name)
    return Commit(name, "", "dil/j", (Move(f"/staged/{name}", target),), (), "", 0, 0)


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def renumber(path, number, **other):
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": number, **other}))


def owned(folder):
    claim(files, str(folder), Owner("a", "/s", PublishMode.APPEND))
    return folder / "_dil" / "owner.json"


def published(folder):
    manifest.advance(files, str(folder), commit("a"), 0)
    return folder / "_dil" / "manifest-0.json"


def claim_again(folder):
    claim(files, str(folder), Owner("b", "/s", PublishMode.APPEND))


def publish_again(folder):
    manifest.advance(files, str(folder), commit("b"), 1)


DOCUMENTS = {"owner": (owned, claim_again), "manifest": (published, publish_again)}
NEWEST = {"owner": 1, "manifest": 2}


@pytest.mark.parametrize("other", [{}, {"owners": "in another way", "files": {"kept": "so"}}])
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_newer_document_is_refused_and_nothing_is_written(tmp_path, document, other):
    make, go_on = DOCUMENTS[document]
    path = make(tmp_path)
    renumber(path, 99, **other)
    before = content(tmp_path)
    with pytest.raises(StateError) as caught:
        go_on(tmp_path)
    newest = NEWEST[document]
    assert caught.value.message == f"{path} has format 99, this dil reads formats up to {newest}"
    assert "Update dil-spark" in caught.value.fix
    assert content(tmp_path) == before


@pytest.mark.parametrize("document", DOCUMENTS)
def test_an_older_document_is_read(tmp_path, document):
    make, go_on = DOCUMENTS[document]
    renumber(make(tmp_path), 0)
    go_on(tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("data", ["", "[]", '{"format": 1}', "{"])
def test_a_damaged_document_is_told_by_its_name(tmp_path, document, data):
    make, go_on = DOCUMENTS[document]
    path = make(tmp_path)
    path.write_text(data)
    with pytest.raises(StateError, match=f"{path} is damaged"):
        go_on(tmp_path)
    assert path.read_text() == data


def test_a_newer_manifest_after_known_ones_is_refused(tmp_path):
    published(tmp_path)
    publish_again(tmp_path)
    renumber(tmp_path / "_dil" / "manifest-1.json", 3)
    (tmp_path / "_dil" / "current.json").write_text('{"sequence":0,"manifest":"manifest-0.json"}')
    with pytest.raises(StateError, match=r"manifest-1\.json has format 3"):
        live_files(files, str(tmp_path))


@pytest.mark.parametrize("name", ["owner.json", "manifest-0.json"])
def test_a_run_refuses_the_dataset_of_a_newer_version_before_it_reads_a_row(tmp_path, name):
    with HttpServer(Dataset.generate(24, units=("a", "b"), step_ms=STEP_MS)) as source:
        story = Story(tmp_path, source)
        story.run(day(1))
        path = dataset(tmp_path) / "_dil" / name
        renumber(path, 99)
        before, asked = content(dataset(tmp_path)), len(source.requests)
        with pytest.raises(StateError, match="has format 99"):
            story.run(day(2))
        assert (content(dataset(tmp_path)), len(source.requests)) == (before, asked)
        renumber(path, 1)
        story.run(day(2))
        assert story.rows() == ids_of("a", "b", days=range(2))
