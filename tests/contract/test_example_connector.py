"""The connector of docs/writing-a-connector.md under the contract, and what the contract finds.

The page's code is run as a reader would run it. Each of its wrong forms fails the test that is
there for it: the suite is worth no more than what it finds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "writing-a-connector.md"
BLOCK = re.compile(r"^```python\n# (?P<name>\w+\.py)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
CHECK = "if not ADDRESS.fullmatch(uri):"
ANSWER = "Response(io.BytesIO(body)"
# What is wrong: the words of the page, the words in their place, and the test that fails.
WRONG = {
    "doubles": (ANSWER, "Response(io.BytesIO(2 * body)", "a_run_publishes_every_row_once"),
    "wants_rows": ("len(body) < int(head)", "not len(body)", "no_rows_are_no_error"),
    "checks_nothing": (CHECK, "if not uri:", "wrong_properties_are_found_before_a_run"),
    "parses_nothing": (", parse=float", "", "wrong_properties_are_found_before_a_run"),
    "asks_in_check": (
        CHECK,
        f"socket.create_connection(ADDRESS.fullmatch(uri).groups()).close()\n        {CHECK}",
        "a_job_is_loaded_while_the_source_is_gone",
    ),
    "stays_behind": ("10.0, parse", "lambda: 10.0, parse", "the_job_travels_to_a_task"),
    "raises_as_it_comes": (
        "except OSError", "except KeyError", "a_source_that_is_gone_is_told_and_moves_no_watermark"
    ),
    "gives_no_advice": (
        "{error.strerror or error}\", fix)", "{error.strerror or error}\")",
        "a_source_that_is_gone_is_told_and_moves_no_watermark",
    ),
    "tries_again": (
        "AuthenticationError(", "TransientSourceError(",
        "a_refused_login_is_told_and_not_tried_again",
    ),
    "tells_the_password": (
        "{shown}: denied", "{shown}: denied {request}",
        "a_refused_login_is_told_and_not_tried_again",
    ),
    "takes_a_part": ("len(body) < int(head)", "False", "a_part_of_the_rows_is_never_published"),
    "stays_open": ("self._socket.close()", "pass", "close_releases_all"),
    "changes": (
        "    def open(self", "    @classmethod\n    def changes(cls, job):\n"
        '        return Problem(None, "", "writes")\n\n    def open(self',
        "a_preview_shows_rows_and_changes_nothing",
    ),
    "tells_the_password_by_location": (
        "location=shown", "location=str(request)", "a_preview_shows_rows_and_changes_nothing"
    ),
    "takes_names_for_paths": (
        ", values.variables).text", ", values.variables).text.rpartition('/')[2]",
        "a_value_stays_in_its_place",
    ),
}  # fmt: skip


def test_the_connector_of_the_page_passes(tmp_path: Path) -> None:
    connector, test = page()
    (tmp_path / "gauge_connector.py").write_text(connector, "utf-8")
    (tmp_path / "test_gauge_connector.py").write_text(test, "utf-8")
    said = run_pytest(tmp_path)
    assert re.search(r"^\d+ passed in", said, re.MULTILINE), said


def test_the_contract_finds_what_is_wrong(tmp_path: Path) -> None:
    connector, test = page()
    wanted = []
    for name, (words, other, failing) in WRONG.items():
        assert connector.count(words) == 1, f"{name}: {words!r} must stand once in the page"
        path = tmp_path / f"test_gauge_{name}.py"
        (tmp_path / f"gauge_{name}.py").write_text(connector.replace(words, other), "utf-8")
        path.write_text(test.replace("gauge_connector.", f"gauge_{name}."), "utf-8")
        wanted.append(f"{path.name}::TestGauges::test_{failing}")
    said = run_pytest(tmp_path, *wanted)
    failed = re.findall(r"^FAILED (\S+)", said, re.MULTILINE)
    assert [each for each in wanted if each not in failed] == [], said


def test_dil_does_without_pytest() -> None:
    modules = "dil.cli.main, dil.cli.program, dil.run.job_run, dil.testing.trial"
    code = f"import sys, {modules}; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def page() -> tuple[str, str]:
    """Return the page's connector, and its test."""
    blocks = {each["name"]: each["text"] for each in BLOCK.finditer(PAGE.read_text("utf-8"))}
    return blocks["gauge_connector.py"], blocks["test_gauge_connector.py"]


def run_pytest(folder: Path, *tests: str) -> str:
    """Run tests in a folder as a reader would, and return what pytest says."""
    options = ["-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
