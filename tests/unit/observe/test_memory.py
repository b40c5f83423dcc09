from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dil.observe.memory import machine_memory_bytes, peak_rss_bytes

_TELL = "from dil.observe.memory import peak_rss_bytes; print(peak_rss_bytes())"


def test_a_peak_stays_after_the_memory_was_given_back() -> None:
    large = bytearray(b"x") * (200 * 2**20)
    size = len(large)
    assert peak_rss_bytes() > size
    del large
    assert peak_rss_bytes() > size


def test_a_process_does_not_count_what_its_parent_held() -> None:
    large = bytearray(b"x") * (200 * 2**20)
    told = subprocess.run([sys.executable, "-c", _TELL], capture_output=True, check=True)
    assert 0 < int(told.stdout) < len(large)


@pytest.mark.parametrize(
    ("line", "files", "bytes_"),
    [
        ("0::/a/b", {"a/memory.max": "max", "a/b/memory.max": "5000000"}, 5_000_000),
        ("0::/a/b", {"a/memory.max": "4000000", "a/b/memory.max": "5000000"}, 4_000_000),
        ("0::/", {"memory.max": "3000000"}, 3_000_000),
        ("4:memory:/x", {"memory/memory.limit_in_bytes": "2000000"}, 2_000_000),
        ("4:cpu,memory:/x", {"memory/x/memory.limit_in_bytes": "1000000"}, 1_000_000),
        ("3:cpu:/x", {"memory/x/memory.limit_in_bytes": "1000000"}, None),
        ("0::/", {}, None),
    ],
)
def test_the_memory_of_a_container_is_that_of_its_groups(tmp_path, line, files, bytes_) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{line}\n")
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine_memory_bytes(tmp_path) == (bytes_ or machine)
