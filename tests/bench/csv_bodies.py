"""Large packed CSV files for benchmarks: ten columns, one gzip member, made in seconds."""

from __future__ import annotations

import random
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

COLUMNS = [
    ("id", "long"), ("customer", "string"), ("email", "string"), ("state", "string"),
    ("quantity", "int"), ("price", "double"), ("amount", "decimal"), ("active", "boolean"),
    ("ordered", "timestamp"), ("note", "string"),
]  # fmt: skip
_BLOCK_ROWS = 100_000
_STATES = ("new", "paid", "shipped", "returned")
_WORDS = [
    "red",
    "green",
    "blue",
    "large",
    "small",
    "wooden",
    "metal",
    "cotton",
    "glass",
    "paper",
    "for",
    "with",
    "and",
    "of",
]
_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)


def write_packed(path: Path, megabytes: int) -> tuple[int, int]:
    """Write ``megabytes`` (10^6 bytes) of text, packed; return its rows and bytes unpacked.

    All blocks are the same; a block is longer than what gzip looks back, so that packing and
    unpacking cost what they cost for text that never repeats.
    """
    header = (",".join(name for name, _ in COLUMNS) + "\n").encode()
    block = "".join(_lines()).encode()
    blocks = max(1, megabytes * 1_000_000 // len(block))
    packed = _flushed(block)
    checksum = zlib.crc32(header)
    with path.open("wb") as target:
        target.write(b"\x1f\x8b\x08" + bytes(6) + b"\xff" + _flushed(header))
        for _ in range(blocks):
            checksum = zlib.crc32(block, checksum)
            target.write(packed)
        size = len(header) + blocks * len(block)
        target.write(b"\x03\x00" + checksum.to_bytes(4, "little"))
        target.write((size % 2**32).to_bytes(4, "little"))
    return blocks * _BLOCK_ROWS, size


def _flushed(text: bytes) -> bytes:
    """Return a stretch of a deflate stream that needs nothing of what stands before it."""
    packer = zlib.compressobj(6, wbits=-zlib.MAX_WBITS)
    return packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH)


def _lines() -> list[str]:
    chance = random.Random(7)
    lines = []
    for number in range(_BLOCK_ROWS):
        name = f"{chance.choice(_WORDS)}{chance.randrange(10**6)}"
        at = _BEGIN + timedelta(seconds=chance.randrange(10**8))
        note = " ".join(chance.choices(_WORDS, k=chance.randrange(2, 9)))
        if number % 10 == 0:
            note = f'"{note}, ""{name}"""'
        amount = "" if number % 50 == 0 else f"{chance.randrange(10**7) / 100:.2f}"
        lines.append(
            f"{10**9 + number},{name},{name}@example.com,{chance.choice(_STATES)},"
            f"{chance.randrange(1000)},{chance.random() * 1000:.4f},{amount},"
            f"{'true' if chance.random() < 0.5 else 'false'},{at:%Y-%m-%d %H:%M:%S},{note}\n"
        )
    return lines
