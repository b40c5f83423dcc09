"""Files of folders, one after the other."""

import gzip
import io
import json
import os
import random
import shutil
import tempfile
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from connectors.files.once import UnitFile
from connectors.hdfs.arrow_store import ArrowStore
from connectors.hdfs.opening import LocalStore
from connectors.hdfs.session import FileSettings, FilesSession
from connectors.hdfs.store import FileStatus, FileStore, files_below
from dil import config
from dil.errors import (
    AuthenticationError,
    SourceContractError,
    SourceError,
    TransientSourceError,
)
from dil.spi.connector import RequestValues
from tests.jobs import write_job

NOW_NS = 2_000_000_000 * 10**9
STORES = {"local": LocalStore, "arrow": lambda: ArrowStore(fs.LocalFileSystem(), "")}


@pytest.fixture(params=sorted(STORES))
def make_store(request):
    return STORES[request.param]


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "in"
    found.mkdir()
    return found


def put(folder, name, data=b"x"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(NOW_NS - 10**12, NOW_NS - 10**12))
    return path


def session(folder, make_store=LocalStore, uri=None, file=None, **changes):
    """Open a session of a job that reads ``folder``; it never sleeps."""
    changes = {"source.class": "hdfs", "ms.extractor.class": "text", **changes}
    path = write_job(folder.parent, "", **{**changes, "ms.source.uri": uri or str(folder)})
    job = config.load(path, environ={}).job
    return FilesSession(
        FileSettings.of(job),
        file,
        opened=lambda place, user: make_store(),
        now_ms=lambda: NOW_NS // 10**6,
        sleep=lambda seconds: None,
    )


def fetch(opened, page=0, **variables):
    return opened.fetch(RequestValues(variables, {}, page))


def answers(opened, **variables):
    """Read all files as the walk does."""
    found, page = [], 0
    while True:
        answer = fetch(opened, page, **variables)
        body = None if answer.body is None else answer.body.read()
        if answer.body is not None:
            answer.body.close()
        found.append((answer.location, body))
        page += 1
        if not answer.has_more:
            return found


def test_all_files_below_a_folder_come_one_after_the_other_in_path_order(folder, make_store):
    names = ["a/b/c.csv", "a.csv", "a-b.csv", "a/x.csv", "Z.csv", "a/b.csv", "é ü?.csv", "b%20.csv"]
    for name in names:
        put(folder, name, name.encode())
    found = answers(session(folder, make_store))
    paths = sorted(f"{folder}/{name}" for name in names)
    assert [path for path, _ in found] == paths
    assert [body.decode() for _, body in found] == [p.removeprefix(f"{folder}/") for p in paths]


def test_one_file_is_read_once(folder, make_store):
    file = put(folder, "a.csv", b"1")
    assert answers(session(folder, make_store, uri=str(file))) == [(str(file), b"1")]


def test_hidden_files_and_folders_are_left_out_but_not_the_one_that_is_named(folder, make_store):
    for name in ("_SUCCESS", ".a.crc", "_temporary/0/a", ".x/b", "c/.d", "c/_e"):
        put(folder, name)
    assert answers(session(folder, make_store)) == [(str(folder), None)]
    named = folder / "_temporary"
    assert len(answers(session(folder, make_store, uri=str(named)))) == 1


def test_a_folder_without_files_has_no_body_and_a_missing_path_is_an_error(folder, make_store):
    assert answers(session(folder, make_store)) == [(str(folder), None)]
    for path in (folder / "no", folder / "no" / "more"):
        with pytest.raises(SourceError, match="there is no such file or folder"):
            answers(session(folder, make_store, uri=str(path)))
    below_a_file = put(folder, "a") / "b"
    with pytest.raises(SourceError, match="there is no such file or folder"):
        answers(session(folder, make_store, uri=str(below_a_file)))


def test_wildcards_in_the_path_are_answered_with_the_pattern_that_does_it(folder, make_store):
    for name in ("a1.csv", "a22.csv", "b3.csv"):
        put(folder, name)
    with pytest.raises(SourceError, match="there is no such file or folder") as caught:
        answers(session(folder, make_store, uri=f"{folder}/a?.csv"))
    assert f"Set it to the folder, {folder}, " in caught.value.fix
    pattern = caught.value.fix.partition("ms.source.files.pattern=")[2].partition(",")[0]
    opened = session(folder, make_store, **{"ms.source.files.pattern": pattern})
    assert [path for path, _ in answers(opened)] == [f"{folder}/a1.csv"]


def test_a_pattern_keeps_paths_that_match_as_a_whole(folder, make_store):
    for name in ("a.csv", "b.json", "c/d.csv"):
        put(folder, name)
    opened = session(folder, make_store, **{"ms.source.files.pattern": r".*/[a-c]\\.csv"})
    assert [path for path, _ in answers(opened)] == [f"{folder}/a.csv"]


def test_names_tell_what_is_packed_and_of_what_kind_the_rest_is(folder):
    put(folder, "a.csv.gz", gzip.compress(b"plain"))
    put(folder, "b.jsonl", b"{}")
    opened = session(folder)
    first = fetch(opened)
    assert (first.content_type, first.body.read(), first.headers) == ("text/csv", b"plain", {})
    second = fetch(opened, 1)
    assert second.content_type == "application/x-ndjson"
    assert second.header("content-length") == "2"
    assert not second.checks_content_type


def test_files_are_read_as_they_are_where_the_job_says_so(folder):
    put(folder, "a.gz", b"anything")
    opened = session(folder, **{"ms.source.files.decompress": "false"})
    assert answers(opened) == [(f"{folder}/a.gz", b"anything")]


def test_a_list_leaves_out_files_that_were_written_to_just_now(folder, make_store, caplog):
    put(folder, "old.csv", b"old")
    for name, age_s in (("young.csv", 599), ("settled.csv", 600)):
        moment = NOW_NS - age_s * 10**9
        os.utime(put(folder, name), ns=(moment, moment))
    changes = {"ms.source.files.settle": "PT10M", "uri": f"{folder}?RE=.*"}
    text = fetch(session(folder, make_store, **changes)).body.read().decode()
    assert [Path(path).name for path in text.splitlines()] == ["old.csv", "settled.csv"]
    assert "files left for later by ms.source.files.settle: 1" in caplog.text


def test_a_folder_is_not_read_without_those_of_its_files_that_were_written_to_just_now(folder):
    put(folder, "old.csv")
    young = put(folder, "young.csv")
    os.utime(young, ns=(NOW_NS - 599 * 10**9, NOW_NS - 599 * 10**9))
    changes = {"ms.source.files.settle": "PT10M"}
    with pytest.raises(TransientSourceError, match=r"written to just now .*: 1"):
        fetch(session(folder, **changes))
    os.utime(young, ns=(NOW_NS - 600 * 10**9, NOW_NS - 600 * 10**9))
    assert len(answers(session(folder, **changes))) == 2


def test_a_store_whose_paths_begin_with_a_bucket_shows_paths_without_it(folder):
    put(folder, "a/b.csv", b"1")
    store = ArrowStore(fs.LocalFileSystem(), "gs://bucket", root=str(folder))
    assert [store.shown(each.path) for each in files_below(store, "/")] == ["gs://bucket/a/b.csv"]
    assert answers(session(folder, lambda: store, uri="gs://bucket/a")) == [
        ("gs://bucket/a/b.csv", b"1")
    ]


# Lists


def test_re_lists_whole_paths_for_the_extractor(folder, make_store):
    for name in ("s_2.csv", "s_1.csv", "t.csv", "c/s_3.csv", "_h/s_4.csv"):
        put(folder, name)
    wanted = [f"{folder}/{name}" for name in ("c/s_3.csv", "s_1.csv", "s_2.csv")]
    uri = f"{folder}?RE=.*/s_[0-9]\\\\.csv"
    text = fetch(session(folder, make_store, uri=uri)).body.read().decode()
    assert text.splitlines() == wanted
    listed = fetch(session(folder, make_store, uri=uri, **{"ms.extractor.class": "json"}))
    assert json.loads(listed.body.read()) == [{"values": path} for path in wanted]
    assert not listed.has_more


def test_a_list_without_a_match_has_no_row(folder):
    put(folder, "a")
    listed = fetch(session(folder, uri=f"{folder}?RE=.*b", **{"ms.extractor.class": "json"}))
    assert json.loads(listed.body.read()) == []


# Faults


@pytest.fixture
def open_folder():
    """A folder that every user may enter; those of pytest are for one user."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    (base / "in").mkdir(mode=0o755)
    yield base / "in"
    shutil.rmtree(base)


@contextmanager
def as_nobody():
    """Be a user without rights; root may read everything."""
    before = os.geteuid(), os.getegid()
    if before[0] != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])


@pytest.mark.parametrize("refused", ["c/a.csv", "c"])
def test_a_file_or_folder_that_may_not_be_read_is_an_error(open_folder, make_store, refused):
    put(open_folder, "c/a.csv")
    put(open_folder, "d.csv")
    opened = session(open_folder, make_store)
    (open_folder / refused).chmod(0)
    with as_nobody(), pytest.raises(AuthenticationError, match=f"/in/{refused}: permission denied"):
        answers(opened)
    (open_folder / refused).chmod(0o700)


def read_to_half(opened):
    """Return the body of the first file, half of which was read."""
    body = fetch(opened).body
    begin = body.read(50_000)
    assert 0 < len(begin) <= 50_000
    return body


def rest_of(body):
    while body.read(10_000):
        pass


def appended(path):
    with path.open("ab") as file:
        file.write(b"more")


def rewritten(path):
    data = path.read_bytes()
    path.write_bytes(bytes(reversed(data)))


def replaced(path):
    other = path.with_name("_other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def rewritten_with_its_time_set_back(path):
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def shrunk(path):
    os.truncate(path, 60_000)


@pytest.mark.parametrize("change", [appended, rewritten, replaced, shrunk])
def test_a_file_that_changes_while_it_is_read_is_an_error(folder, make_store, change):
    path = put(folder, "a.csv", random.Random(1).randbytes(100_000))
    body = read_to_half(session(folder, make_store))
    change(path)
    with pytest.raises(SourceContractError, match=r"a\.csv: the file changed while it was read"):
        rest_of(body)


@pytest.mark.parametrize("change", [appended, rewritten, replaced, shrunk])
def test_a_file_that_changed_after_it_was_listed_is_an_error(folder, make_store, change):
    put(folder, "a.csv")
    path = put(folder, "b.csv", random.Random(1).randbytes(100_000))
    opened = session(folder, make_store)
    fetch(opened).body.close()
    change(path)
    with pytest.raises(SourceContractError, match=r"b\.csv: the file changed while it was read"):
        rest_of(fetch(opened, 1).body)


def test_a_file_that_is_written_to_while_it_is_read_is_an_error_though_its_time_is_set_back(folder):
    path = put(folder, "a.csv", random.Random(1).randbytes(100_000))
    body = read_to_half(session(folder))
    rewritten_with_its_time_set_back(path)
    with pytest.raises(SourceContractError, match=r"a\.csv: the file changed while it was read"):
        rest_of(body)


def test_an_empty_file_that_grew_after_it_was_listed_is_an_error(folder, make_store):
    put(folder, "a.csv")
    path = put(folder, "b.csv", b"")
    opened = session(folder, make_store)
    assert fetch(opened).has_more
    appended(path)
    with pytest.raises(SourceContractError, match=r"b\.csv: the file changed while it was read"):
        rest_of(fetch(opened, 1).body)


def test_a_file_that_vanishes_after_it_was_listed_is_an_error_that_may_pass(folder, make_store):
    put(folder, "a.csv")
    path = put(folder, "b.csv")
    opened = session(folder, make_store)
    fetch(opened)
    path.unlink()
    with pytest.raises(TransientSourceError, match=r"b\.csv: it was there .* and is gone"):
        fetch(opened, 1)


def test_a_file_that_is_removed_while_it_is_read_is_an_error_that_may_pass(folder, make_store):
    path = put(folder, "a.csv", bytes(100_000))
    body = read_to_half(session(folder, make_store))
    path.unlink()
    with pytest.raises(TransientSourceError, match=r"a\.csv: it was there .* and is gone"):
        rest_of(body)


class SlowlyToldStore(LocalStore):
    """As HDFS is with a file that is written to: it gives more bytes than it tells of."""

    told_bytes = 10

    def status(self, path):
        found = super().status(path)
        return found if found.is_folder else replace(found, size=self.told_bytes)

    def entries(self, path):
        return [replace(each, size=self.told_bytes) for each in super().entries(path)]


def test_a_file_that_has_more_bytes_than_the_system_tells_is_an_error(folder):
    put(folder, "a.csv", bytes(11))
    body = fetch(session(folder, SlowlyToldStore)).body
    with pytest.raises(SourceContractError, match="more than the 10 bytes that were listed"):
        rest_of(body)


@pytest.mark.parametrize("end", [0, 1, 5, 20, -9, -1])
def test_a_packed_file_that_is_cut_off_is_an_error_with_its_name(folder, end):
    data = gzip.compress(random.Random(1).randbytes(1_000))
    put(folder, "a.csv.gz", data[:end])
    body = fetch(session(folder)).body
    with pytest.raises(SourceContractError, match=r"/in/a\.csv\.gz: .*gzip data"):
        rest_of(body)


def test_a_folder_that_a_link_puts_inside_of_itself_is_an_error(folder):
    put(folder, "a/b.csv")
    (folder / "a" / "again").symlink_to(folder)
    with pytest.raises(SourceError, match="inside of itself, by a link"):
        answers(session(folder))


LINKS = {
    "to a file": {"y.csv": "a/x.csv"},
    "to a folder": {"b": "a"},
    "to a folder by another link": {"b": "c", "c": "../out", "_hidden": "a"},
    "to a file outside twice": {"b.csv": "../out/x.csv", "c.csv": "../out/x.csv"},
}


@pytest.mark.parametrize("uri", ["", "?RE=.*"])
@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
def test_a_file_that_a_link_shows_once_more_is_an_error_that_names_both(folder, links, uri):
    put(folder, "a/x.csv", b"1")
    put(folder.parent, "out/x.csv", b"1")
    for name, target in links.items():
        (folder / name).symlink_to(target)
    with pytest.raises(
        SourceContractError, match=r"/in/.*: it is the same file as /.*/in/"
    ) as told:
        answers(session(folder, uri=f"{folder}{uri}"))
    assert "ms.source.files.pattern" in told.value.fix


def test_of_a_file_that_a_link_shows_once_more_the_pattern_chooses_a_path(folder):
    put(folder, "2024/x.csv", b"1")
    (folder / "latest").symlink_to("2024")
    for pattern, path in ((".*/latest/.*", "latest/x.csv"), (".*/[0-9]+/.*", "2024/x.csv")):
        found = answers(session(folder, **{"ms.source.files.pattern": pattern}))
        assert found == [(f"{folder}/{path}", b"1")]
        listed = fetch(session(folder, uri=f"{folder}?RE={pattern}")).body.read().decode()
        assert listed.splitlines() == [f"{folder}/{path}"]


def test_hard_links_are_files_of_their_own_below_a_link_too(folder):
    a = put(folder.parent, "out/a.csv", b"1")
    a.with_name("b.csv").hardlink_to(a)
    (folder / "c").symlink_to(a.parent)
    (folder / "d.csv").hardlink_to(a)
    found = [path for path, _ in answers(session(folder))]
    assert found == [f"{folder}/{name}" for name in ("c/a.csv", "c/b.csv", "d.csv")]
    link = folder.parent / "link"
    link.symlink_to("out")
    assert len(answers(session(folder, uri=str(link)))) == 2


def test_links_to_files_are_read_and_links_to_nowhere_are_errors(folder):
    target = put(folder.parent, "out.csv", b"1")
    (folder / "a.csv").symlink_to(target)
    (folder / "_lock").symlink_to(folder / "nowhere")
    assert answers(session(folder)) == [(f"{folder}/a.csv", b"1")]
    (folder / "b.csv").symlink_to(folder / "nowhere")
    with pytest.raises(TransientSourceError, match=r"/in/b\.csv: it was there .* and is gone"):
        answers(session(folder))


def test_what_is_no_file_is_left_out(folder):
    os.mkfifo(folder / "pipe")
    put(folder, "a.csv", b"1")
    assert answers(session(folder)) == [(f"{folder}/a.csv", b"1")]


def test_an_earlier_attempt_is_not_continued_in_the_middle_of_a_folder(folder):
    put(folder, "a.csv")
    with pytest.raises(SourceContractError, match="cannot go on in the middle of a folder"):
        fetch(session(folder), page=1)


def test_a_store_that_fails_in_the_middle_is_opened_again_where_it_broke_off(folder):
    data = random.Random(1).randbytes(300_000)
    put(folder, "a.csv", data)
    opened_at = []

    class Breaking(LocalStore):
        def open(self, path, position):
            opened_at.append(position)
            part = super().open(path, position)
            if len(opened_at) > 2:
                return part
            begin = part.read(100_000)
            part.close()
            return _Cut(begin)

    assert answers(session(folder, Breaking)) == [(f"{folder}/a.csv", data)]
    assert opened_at == [0, 100_000, 200_000]


class _Cut:
    """A stream that breaks with an error of the system."""

    def __init__(self, data):
        self._data = io.BytesIO(data)

    def read(self, size):
        data = self._data.read(size)
        if not data:
            raise OSError(5, "Input/output error")
        return data

    def close(self):
        pass


# The way through folders


class TreeStore(FileStore):
    """Files of a dictionary."""

    def __init__(self, paths):
        self.paths = paths

    def status(self, path):
        return FileStatus(path, path not in self.paths, 0, 0)

    def entries(self, path):
        heads = {
            p[len(path) + 1 :].partition("/")[0] for p in self.paths if p.startswith(f"{path}/")
        }
        return [self.status(f"{path}/{head}") for head in heads]

    def open(self, path, position):
        raise AssertionError("a walk through folders opens no file")


NAMES = st.text(st.sampled_from("ab-./_"), min_size=1).filter(
    lambda name: "/" not in (name[0], name[-1]) and "//" not in name
)


@settings(max_examples=200)
@given(st.sets(NAMES))
def test_the_files_of_any_tree_come_in_path_order_each_once(names):
    files = {f"/r/{name}" for name in names}
    files = {f for f in files if not any(other.startswith(f"{f}/") for other in files)}
    visible = [f for f in files if not any(part[0] in "._" for part in f.split("/")[2:])]
    assert [each.path for each in files_below(TreeStore(files), "/r")] == sorted(visible)


def test_a_file_that_changed_after_it_was_listed_is_not_the_file_of_its_work_unit(folder):
    once = {
        "ms.source.files.once": "version",
        "ms.watermark": "",
        "ms.work.unit.partition": "",
    }
    path = put(folder, "a")
    with closing(session(folder, **once)) as listing:
        (unit,) = listing.units()
    file = UnitFile(str(unit["file"]), str(unit["version"]))
    with closing(session(folder, file=file, **once)) as reading:
        assert fetch(reading).body.read() == b"x"

    path.write_bytes(b"other")
    with closing(session(folder, file=file, **once)) as reading, pytest.raises(SourceContractError):
        fetch(reading)
