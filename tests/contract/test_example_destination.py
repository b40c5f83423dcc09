"""The destination of docs/writing-a-destination.md under the contract, and what that finds.

Each of its wrong forms fails the test that is there for it.
"""

from __future__ import annotations

from pathlib import Path

from tests.contract.example_pages import ExamplePage

PAGE = ExamplePage("writing-a-destination.md", "sqlite_destination")
BEGIN = 'database.execute("BEGIN IMMEDIATE")'
KILL = "a_kill_at_any_line_loses_and_doubles_nothing"
# What is wrong: the words of the page, the words in their place, and the test that fails.
WRONG = {
    "shows_parts": (BEGIN, "pass", KILL),
    "remembers_nothing": (
        '"INSERT INTO dil_run VALUES (?, ?, 1)", [commit.run_id, intent.sequence]',
        '"SELECT 1"',
        "what_is_published_is_there_once",
    ),
    "looks_at_nothing": ("if fate == 1:", "if fate == 7:", "published_twice_is_published_once"),
    "remembers_first": (
        "            for file in commit.removes:",
        '            database.execute("INSERT INTO dil_run VALUES (?, ?, 1)", '
        '[commit.run_id, 0])\n            database.execute("COMMIT")\n'
        '            database.execute("BEGIN")\n            for file in commit.removes:',
        KILL,
    ),
    "keeps_the_old": (
        "                if database.execute(",
        "                continue\n                if database.execute(",
        "a_work_unit_takes_the_place_of_its_own_rows",
    ),
    "takes_all": (
        " WHERE dil_file = ?', [file.uri]",
        "'",
        "a_work_unit_takes_the_place_of_its_own_rows",
    ),
    "lands_after_the_fence": (
        'raise CommitConflictError(f"run {commit.run_id} was given up", "Run the job again.")',
        'database.execute("DELETE FROM dil_run")',
        "what_is_given_up_lands_no_more",
    ),
    "gives_up_what_landed": (
        "INSERT OR IGNORE INTO dil_run VALUES (?, ?, 0)",
        "INSERT OR REPLACE INTO dil_run VALUES (?, ?, 0)",
        "a_fence_takes_nothing_away",
    ),
    "names_one_file": (
        ' + (f"#{name}" if name else "")',
        ' + (f"#rows" if name else "")',
        "a_destination_has_one_name",
    ),
    "checks_no_folder": ("if not folder.is_dir():", "if False:", "a_store_that_is_gone_is_said"),
    "checks_no_name": (
        "if not properties.section(SqliteSection).table.isidentifier():",
        "if False:",
        "wrong_properties_are_found_before_a_run",
    ),
}


def test_the_destination_of_the_page_passes(tmp_path: Path) -> None:
    PAGE.require_passing(tmp_path)


def test_the_contract_finds_what_is_wrong(tmp_path: Path) -> None:
    PAGE.require_found(tmp_path, WRONG)
