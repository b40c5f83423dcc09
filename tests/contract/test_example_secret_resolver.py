"""The resolver of docs/writing-a-secret-resolver.md under the contract, and what that finds.

The page's code is run as a reader would run it, outside of this repository. Each of its wrong
forms fails the test that is there for it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "writing-a-secret-resolver.md"
BLOCK = re.compile(r"^```python\n# (?P<name>\w+\.py)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
# What is wrong: the words of the page, the words in their place, and the test that fails.
WRONG = {
    "trims": (
        "return found[field]",
        "return found[field].strip()",
        "a_secret_comes_as_it_was_kept",
    ),
    "mixes_up": (
        'f"{address}/v1/{path}"',
        'f"{address}/v1/secret/data/number0"',
        "each_reference_leads_to_its_own_secret",
    ),
    "gives_nothing": (
        "        except HTTPError as error:",
        '        except HTTPError:\n            return ""\n        except KeyError as error:',
        "a_secret_that_is_not_there_is_an_error",
    ),
    "lets_the_wire_out": ("except OSError", "except KeyError", "a_store_that_is_gone_is_an_error"),
    "tells_the_token": (
        "Vault answered {error.code}",
        "Vault answered {error.code} {request.headers}",
        "a_store_that_refuses_is_an_error",
    ),
    "needs_settings": (
        "        return self.context.environ[name]",
        "        return self.context.environ[name]\n\n"
        "    def __init__(self, context):\n"
        '        self.address = context.environ["VAULT_ADDR"]\n'
        "        super().__init__(context)",
        "settings_that_are_missing_are_an_error",
    ),
    "takes_any_form": (
        "if not path or not field:",
        "if not path:",
        "a_form_is_checked_without_the_store",
    ),
    "asks_in_check": (
        "        if not path or not field:",
        '        urlopen(self.context.environ["VAULT_ADDR"], timeout=1)\n'
        "        if not path or not field:",
        "a_plan_does_without_the_store",
    ),
}


def test_the_resolver_of_the_page_passes(tmp_path: Path) -> None:
    resolver, test = page()
    (tmp_path / "vault_resolver.py").write_text(resolver, "utf-8")
    (tmp_path / "test_vault_resolver.py").write_text(test, "utf-8")
    said = run_pytest(tmp_path)
    assert re.search(r"^\d+ passed in", said, re.MULTILINE), said


def test_the_contract_finds_what_is_wrong(tmp_path: Path) -> None:
    resolver, test = page()
    wanted = []
    for name, (words, other, failing) in WRONG.items():
        assert words in resolver, f"{name}: {words!r} must be in the page"
        path = tmp_path / f"test_vault_{name}.py"
        (tmp_path / f"vault_{name}.py").write_text(resolver.replace(words, other), "utf-8")
        path.write_text(test.replace("from vault_resolver", f"from vault_{name}"), "utf-8")
        wanted.append(f"{path.name}::TestVault::test_{failing}")
    said = run_pytest(tmp_path, *wanted)
    failed = re.findall(r"^FAILED ([^\s\[]+)", said, re.MULTILINE)
    assert [each for each in wanted if each not in failed] == [], said


def page() -> tuple[str, str]:
    """Return the page's resolver, and its test."""
    blocks = {each["name"]: each["text"] for each in BLOCK.finditer(PAGE.read_text("utf-8"))}
    return blocks["vault_resolver.py"], blocks["test_vault_resolver.py"]


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
