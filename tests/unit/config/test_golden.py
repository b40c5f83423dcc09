"""Bad job files with their exact messages; after a wanted change, rewrite the .txt beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.config import load
from dil.errors import ConfigError

FOLDER = Path(__file__).parents[2] / "golden" / "config"
CASES = sorted(path for path in FOLDER.iterdir() if path.suffix in {".conf", ".yaml"})


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_a_bad_job_file_is_told_in_these_words(path, monkeypatch):
    monkeypatch.chdir(FOLDER)
    with pytest.raises(ConfigError) as caught:
        load(path.name, environ={})
    assert all(problem.fix for problem in caught.value.problems)
    assert f"{caught.value}\n" == path.with_suffix(".txt").read_text()
