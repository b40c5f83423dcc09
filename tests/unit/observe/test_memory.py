from __future__ import annotations

import subprocess
import sys

from dil.observe.memory import peak_rss_bytes

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
