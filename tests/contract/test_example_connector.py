"""The connector of docs/writing-a-connector.md under the contract, and what the contract finds.

The page's code is run as a reader would run it. Each of its wrong forms fails the test that is
there for it: the suite is worth no more than what it finds.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.contract.example_pages import ROOT, ExamplePage

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


PAGE = ExamplePage("writing-a-connector.md", "gauge_connector")


def test_the_connector_of_the_page_passes(tmp_path: Path) -> None:
    PAGE.require_passing(tmp_path)


def test_the_contract_finds_what_is_wrong(tmp_path: Path) -> None:
    PAGE.require_found(tmp_path, WRONG)


def test_dil_does_without_pytest() -> None:
    modules = "dil.cli.main, dil.cli.program, dil.run.job_run, dil.testing.trial"
    code = f"import sys, {modules}; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
