"""Armored PGP messages: whole, and alone in their stream."""

from __future__ import annotations

from typing import BinaryIO, cast

import pytest

from dil.errors import SourceContractError
from dil.extraction.preprocessing.gpg import WatchedArmor
from tests.preprocessing import Dribble

MESSAGE = b"""-----BEGIN PGP MESSAGE-----
Comment: -----END PGP MESSAGE-----

jA0EBwMC
=AbCd
-----END PGP MESSAGE-----"""
EACH_SIZE = pytest.mark.parametrize("size", [1, 7, 1 << 20])


def watched(data: bytes, size: int) -> bytes:
    with WatchedArmor(cast("BinaryIO", Dribble(data, size))) as stream:
        return stream.read()


@EACH_SIZE
@pytest.mark.parametrize(
    "data",
    [
        MESSAGE,
        MESSAGE + b"\n",
        b"\r\n" + MESSAGE.replace(b"\n", b"\r\n") + b" \t\r\n\r\n",
        b"\x8c\x0d" + MESSAGE + b"in binary form this is data",
        b"",
    ],
)
def test_a_message_passes_as_it_is(data: bytes, size: int) -> None:
    assert watched(data, size) == data


@EACH_SIZE
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (MESSAGE[:-1], "ends too early"),
        (MESSAGE[:40], "ends too early"),
        (MESSAGE + b"\n" + MESSAGE, "follows the PGP data"),
        (MESSAGE + b"\n" * 50_000 + b"1,a\n", "follows the PGP data"),
        (b"1,a\n" + MESSAGE, "this is no PGP data"),
        (b"-----BEGIN CERTIFICATE-----\n", "this is no PGP data"),
    ],
)
def test_a_message_that_is_cut_or_not_alone_is_an_error(data: bytes, why: str, size: int) -> None:
    with pytest.raises(SourceContractError, match=why):
        watched(data, size)


def test_to_ask_for_nothing_is_no_end() -> None:
    with WatchedArmor(cast("BinaryIO", Dribble(MESSAGE, 7))) as stream:
        assert stream.read(20) + stream.read(0) + stream.read() == MESSAGE
        assert stream.read(0) == b""


def test_the_stream_beneath_is_closed() -> None:
    source = Dribble(MESSAGE, 5)
    WatchedArmor(cast("BinaryIO", source)).close()
    assert source.closed
