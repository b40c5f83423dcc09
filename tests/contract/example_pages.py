"""The Python of a page for authors, run as a reader would run it, outside of this repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n# (?P<name>\w+\.py)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class ExamplePage:
    """A page with two Python files: a plug-in, and its test under the contract of its kind.

    ``stem`` begins the names of both: ``<stem>.py`` and ``test_<stem>.py``.
    """

    path: str
    stem: str

    def files(self) -> tuple[str, str]:
        """Return the page's plug-in, and its test."""
        text = (ROOT / "docs" / self.path).read_text("utf-8")
        blocks = {each["name"]: each["text"] for each in _BLOCK.finditer(text)}
        return blocks[f"{self.stem}.py"], blocks[f"test_{self.stem}.py"]

    def require_passing(self, folder: Path) -> None:
        """Run the page's test, which has to pass."""
        plugin, test = self.files()
        (folder / f"{self.stem}.py").write_text(plugin, "utf-8")
        (folder / f"test_{self.stem}.py").write_text(test, "utf-8")
        said = run_pytest(folder)
        assert re.search(r"^\d+ passed(?:, \d+ skipped)? in", said, re.MULTILINE), said

    def require_found(self, folder: Path, wrong: Mapping[str, tuple[str, str, str]]) -> None:
        """Check that what is wrong is found.

        Args:
            folder: Where the files are written.
            wrong: By a name of it, the words of the plug-in, the words in their place, and the end
                of the name of the test that fails then.
        """
        plugin, test = self.files()
        (suite,) = re.findall(r"^class (Test\w+)", test, re.MULTILINE)
        wanted = []
        for name, (words, other, failing) in wrong.items():
            assert plugin.count(words) == 1, f"{name}: {words!r} must be in the page once"
            stem = f"{self.stem}_{name}"
            path = folder / f"test_{stem}.py"
            (folder / f"{stem}.py").write_text(plugin.replace(words, other), "utf-8")
            path.write_text(re.sub(rf"(?<!test_)\b{self.stem}\b", stem, test), "utf-8")
            wanted.append(f"{path.name}::{suite}::test_{failing}")
        said = run_pytest(folder, *wanted)
        failed = re.findall(r"^FAILED ([^\s\[]+)", said, re.MULTILINE)
        assert [each for each in wanted if each not in failed] == [], said


def run_pytest(folder: Path, *tests: str) -> str:
    """Run tests in a folder as a reader would, and return what pytest says."""
    options = ["-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
