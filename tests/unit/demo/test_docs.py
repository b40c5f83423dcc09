import json
import re
from pathlib import Path

import pytest

from dil import errors
from dil.cli.main import main
from dil.run.exit_codes import INTERNAL

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "conf/demo/data/README.md", *sorted(ROOT.glob("docs/*.md"))]
PAGES += sorted(ROOT.glob("docs/semantics/*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)#:\s]+)(?:#([\w-]+))?\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for word, text in found if word == language]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_page_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        linked = page.parent / target
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), f"{target}#{anchor}"


def test_the_home_page_has_a_short_path_for_each_of_three_readers() -> None:
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    begin = text.partition("## Where to begin\n")[2].partition("\n## ")[0]
    paths = re.split(r"^### ", begin, flags=re.MULTILINE)[1:]

    assert [path.splitlines()[0] for path in paths] == [
        "You try it",
        "You run it every day",
        "You extend it",
    ]
    for path in paths:
        assert 1 <= len(LINK.findall(path)) <= 5, path


def test_every_page_of_the_site_exists() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)

    assert pages
    assert [page for page in pages if not (ROOT / "docs" / page).is_file()] == []


def error_codes() -> dict[str, str]:
    classes = [errors.DilError]
    for known in classes:
        classes.extend(known.__subclasses__())
    return {one.__name__: one.code for one in classes if one.__module__ == errors.__name__}


def test_every_error_code_is_explained_once_and_no_other() -> None:
    text = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(DIL-[A-Z-]+)` \|", text, re.MULTILINE)

    assert sorted(explained) == sorted({*error_codes().values(), INTERNAL})


def test_the_tree_of_errors_shows_each_class_with_its_code() -> None:
    shown = re.findall(r"(\w+Error) +(DIL-[A-Z-]+)  ", errors.__doc__ or "")

    assert dict(shown) == error_codes()
    assert len(shown) == len(error_codes())


def test_the_quickstart_shows_the_job_that_the_demo_runs() -> None:
    job = (ROOT / "conf/demo/flights.conf").read_text(encoding="utf-8").splitlines()
    shown = [
        line
        for text in blocks(ROOT / "docs/quickstart.md", "properties")
        for line in text.splitlines()
    ]

    assert shown
    assert [line for line in shown if line not in job] == []


def test_the_connector_page_shows_lines_of_the_example() -> None:
    folder = ROOT / "conf/examples/custom_connector"
    example = (folder / "weather.conf").read_text(encoding="utf-8").splitlines()
    shown = blocks(ROOT / "docs/writing-a-connector.md", "properties")[0].splitlines()

    assert [line for line in shown if line not in example] == []


@pytest.mark.parametrize("text", blocks(ROOT / "docs/running.md", "python"))
def test_the_python_of_the_docs_runs(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(text, "docs/running.md", "exec"), {})

    assert "watermark.system." in capsys.readouterr().out


@pytest.mark.parametrize("text", blocks(ROOT / "docs/event-time-reference.md", "python"))
def test_the_python_of_event_time_holds(text: str) -> None:
    assert "assert" in text
    exec(compile(text, "docs/event-time-reference.md", "exec"), {})


def test_the_first_job_of_the_readme_validates_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEMO_TOKEN", "secret")
    [job] = blocks(ROOT / "README.md", "properties")
    (tmp_path / "airlines.conf").write_text(job)
    assert main(["validate", str(tmp_path / "airlines.conf"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["warnings"], len(answer["notices"])) == ([], 1)
