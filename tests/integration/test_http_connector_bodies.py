"""The HTTP connector and bodies: cut off, changed, compressed, against a real server."""

import gzip
import zlib

import pytest

from dil.errors import SourceContractError, TransientSourceError
from dil.model.job import ExpansionSpec
from dil.model.settings import HttpStatuses
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.servers.http_sessions import Session, values
from tests.servers.rows import Dataset


@pytest.fixture
def server():
    with HttpServer(Dataset.generate(240, units=("a", "b"))) as running:
        yield running


@pytest.mark.parametrize("kind", ["reset_body", "short_body"])
def test_a_body_that_breaks_off_is_transient(server, kind):
    server.faults.append(Fault(kind))
    with Session(server.url + "/records?unit=a") as session, pytest.raises(TransientSourceError):
        session.get()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}"),
        Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
        Reply(b"not gzip", headers=(("Content-Encoding", "gzip"),)),
    ],
)
def test_broken_chunks_and_compression_are_transient(server, reply):
    server.script("/x", reply)
    with Session(server.url + "/x") as session, pytest.raises(TransientSourceError):
        session.get()


@pytest.mark.parametrize(
    ("reply", "has_end"),
    [
        (Reply(raw=b"HTTP/1.0 200 OK\r\n\r\na,b\n"), False),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\na,b\n"), False),
        (Reply(raw=b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\na,b\n"), True),
        (Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), True),
        (Reply(raw=b"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n"), True),
    ],
)
def test_an_answer_without_length_and_chunks_has_no_end_of_its_own(server, reply, has_end):
    server.script("/x", reply)
    with Session(server.url + "/x") as session:
        assert session.fetch(values()).has_end is has_end


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_bodies_are_decoded_piece_by_piece(server, name, pack):
    plain = b'{"a":1}' * 10_000
    server.script("/x", Reply(pack(plain), headers=(("Content-Encoding", name),)))
    with Session(server.url + "/x") as session:
        assert session.get() == plain
        with session.fetch(values()).body as body:
            pieces = iter(lambda: body.read(999), b"")
            assert b"".join(pieces) == plain


@pytest.mark.parametrize("coding", ["gzip", "deflate", "gzip, gzip"])
def test_a_coding_that_makes_more_than_the_job_allows_is_an_error(server, coding):
    body = bytes(10_000_000)
    for each in coding.split(", "):
        body = {"gzip": gzip.compress, "deflate": zlib.compress}[each](body)
    server.script("/x", Reply(body, headers=(("Content-Encoding", coding),)))
    limit = ExpansionSpec(ratio=10, floor=1000)
    with (
        Session(server.url + "/x", expansion=limit) as session,
        pytest.raises(SourceContractError, match=f"decoding {coding} made more than 10 times"),
    ):
        session.get()


def packed(coding, plain):
    """Return a body that a compressor flushed in the middle, cut there, and the whole one."""
    window = {"gzip": 31, "deflate": 15, "raw deflate": -15}[coding]
    packer = zlib.compressobj(wbits=window)
    half = plain[: len(plain) // 2]
    begin = packer.compress(half) + packer.flush(zlib.Z_FULL_FLUSH)
    return begin, begin + packer.compress(plain[len(half) :]) + packer.flush()


def framed(framing, coding, body):
    """Return an answer whose length is told in one of HTTP's three ways."""
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding.removeprefix('raw ')}\r\n".encode()
    match framing:
        case "content-length":
            return Reply(raw=head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        case "chunked":
            chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
            return Reply(raw=head + chunked % (len(body), body))
        case _:
            return Reply(raw=head + b"Connection: close\r\n\r\n" + body)


LINES = b"".join(b'{"id":%d}\n' % number for number in range(240))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
@pytest.mark.parametrize("framing", ["content-length", "chunked", "until it closes"])
@pytest.mark.parametrize("size", [-1, 7])
def test_a_compressed_body_without_its_end_is_refused_however_it_is_framed(
    server, coding, framing, size
):
    cut, whole = packed(coding, LINES)
    server.script("/cut", framed(framing, coding, cut))
    server.script("/whole", framed(framing, coding, whole))

    def read(path):
        with Session(server.url + path) as session, session.fetch(values()).body as body:
            return b"".join(iter(lambda: body.read(size), b""))

    assert read("/whole") == LINES
    with pytest.raises(TransientSourceError) as caught:
        read("/cut")
    assert "the compressed data has no end" in caught.value.message


def test_a_compressed_body_that_was_changed_on_the_way_is_refused(server):
    body = bytearray(gzip.compress(LINES))
    body[-6] ^= 1  # of the checksum
    server.script("/x", Reply(bytes(body), headers=(("Content-Encoding", "gzip"),)))
    with Session(server.url + "/x") as session, pytest.raises(TransientSourceError):
        session.get()


def test_gzip_members_one_after_another_are_one_body(server):
    body = gzip.compress(LINES[:100]) + gzip.compress(LINES[100:])
    server.script("/x", Reply(body, headers=(("Content-Encoding", "X-GZip"),)))
    with Session(server.url + "/x") as session:
        assert session.get() == LINES


def test_codings_are_undone_in_the_opposite_order(server):
    body = gzip.compress(zlib.compress(LINES))
    server.script("/x", Reply(body, headers=(("Content-Encoding", "deflate, gzip"),)))
    with Session(server.url + "/x") as session:
        assert session.get() == LINES


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_an_empty_body_may_be_called_compressed(server, coding):
    server.script("/x", Reply(b"", headers=(("Content-Encoding", coding),)))
    with Session(server.url + "/x") as session:
        assert session.get() == b""


def test_a_coding_that_was_not_asked_for_is_named(server):
    server.script("/x", Reply(b"?", headers=(("Content-Encoding", "br"),)))
    with Session(server.url + "/x") as session, pytest.raises(SourceContractError) as caught:
        session.get()
    assert "br" in caught.value.message


@pytest.mark.parametrize("place", ["bytes 0-2/9", "bytes 3-8/9", "Bytes 0-2/9"])
def test_a_part_of_the_bytes_is_read_only_if_it_was_asked_for(server, place):
    server.script("/x", Reply(b"[1]", 206, headers=(("Content-Range", place),)))
    taken = {"statuses": HttpStatuses(success=(200, 206))}
    with Session(server.url + "/x", **taken) as session, pytest.raises(SourceContractError):
        session.get()
    with Session(server.url + "/x", headers={"Range": "bytes=0-2"}, **taken) as session:
        assert session.get() == b"[1]"


@pytest.mark.parametrize("place", ["bytes 0-2/3", "bytes 0-2/*", "items 0-24/319", "0-24/*"])
def test_a_page_of_a_source_is_no_part(server, place):
    server.script("/x", Reply(b"[1]", 206, headers=(("Content-Range", place),)))
    with Session(server.url + "/x", statuses=HttpStatuses(success=(200, 206))) as session:
        assert session.get() == b"[1]"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_connections_of_compressed_answers_are_used_again(server, coding):
    body = packed(coding, LINES)[1]
    server.script("/x", Reply(body, headers=(("Content-Encoding", coding),)))
    with Session(server.url + "/x") as session:
        for _ in range(3):
            assert session.get() == LINES
    assert server.connections == 1


def test_bytes_beyond_the_length_that_was_told_belong_to_no_answer(server):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    server.script("/x", Reply(raw=head + b"{}" + head + b"[]"), Reply(b'{"next":1}'))
    with Session(server.url + "/x") as session:
        assert session.get() == b"{}"
        assert session.get() == b'{"next":1}'
