"""The resolver of docs/writing-a-secret-resolver.md under the contract, and what that finds.

The page's code is run as a reader would run it, outside of this repository. Each of its wrong
forms fails the test that is there for it.
"""

from __future__ import annotations

from pathlib import Path

from tests.contract.example_pages import ExamplePage

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


PAGE = ExamplePage("writing-a-secret-resolver.md", "vault_resolver")


def test_the_resolver_of_the_page_passes(tmp_path: Path) -> None:
    PAGE.require_passing(tmp_path)


def test_the_contract_finds_what_is_wrong(tmp_path: Path) -> None:
    PAGE.require_found(tmp_path, WRONG)
