"""Files that are odd as text: line ends, byte order marks, encodings, sizes, references."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dil.config import Loaded, load
from dil.errors import ConfigError, Problem

SMALLEST = """\
job.name=orders
source.class=http
ms.extractor.class=json
ms.source.uri=https://shop.test/orders
extract.table.name=orders
data.publisher.final.dir=out
ms.timezone=UTC
"""


def write(folder: Path, content: bytes, name: str = "job.conf") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def problems(path: Path, **overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        load(path, environ={}, overrides=overrides)
    return caught.value.problems


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_byte_order_mark_make_no_difference(tmp_path, line_end, mark):
    text = SMALLEST + 'ms.http.statuses={\n  "success": [200]}\njob.description=a \\\n  b\n'
    path = write(tmp_path, mark + text.replace("\n", line_end).encode())
    loaded = load(path, environ={})
    assert loaded.job.name == "orders"
    assert loaded.job.properties.text("job.description") == "a b"
    assert loaded.notices == ()


@pytest.mark.parametrize(
    ("content", "what", "line"),
    [
        (SMALLEST.encode() + b"job.description=caf\xe9\n", "is not UTF-8 text", 8),
        (SMALLEST.encode("utf-16"), "is not UTF-8 text", 1),
        (SMALLEST.encode("utf-16-le"), "holds a NUL character", 1),
        (SMALLEST.encode() + b"job.description=a\0b\n", "holds a NUL character", 8),
    ],
)
def test_what_is_no_text_in_utf_8_is_told_with_its_line(tmp_path, content, what, line):
    (found,) = problems(write(tmp_path, content))
    assert (found.what, found.origin.line) == (what, line)
    assert "UTF-8" in found.fix


def test_letters_outside_ascii_are_kept(tmp_path):
    path = write(tmp_path, (SMALLEST + "ms.data.field=données.行\n").encode())
    assert load(path, environ={}).job.extraction.data_field == "données.行"


def test_a_value_of_a_million_letters_is_read(tmp_path):
    column = '{"columnName":"c%d","dataType":{"type":"string"}}'
    columns = ",\n".join(column % index for index in range(3000))
    text = f"{SMALLEST}job.description={'x' * 1_000_000}\nms.output.schema=[{columns}]\n"
    schema = load(write(tmp_path, text.encode()), environ={}).job.extraction.output_schema
    assert schema is not None
    assert len(schema) == 3000


def test_a_message_does_not_repeat_a_huge_value(tmp_path):
    text = f"{SMALLEST}ms.work.unit.partition={'x' * 1_000_000}\n"
    (found,) = problems(write(tmp_path, text.encode()))
    assert len(str(found)) < 1000


def test_references_that_grow_without_end_are_refused_before_memory_does(tmp_path):
    doubling = "".join(f"a{index + 1}=${{a{index}}}${{a{index}}}\n" for index in range(60))
    found = problems(write(tmp_path, f"{SMALLEST}a0=0123456789\n{doubling}".encode()))
    assert "when its references are replaced" in found[0].what


def test_references_of_any_depth_are_refused_and_not_a_crash(tmp_path):
    chain = "".join(f"a{index}=${{a{index + 1}}}\n" for index in range(5000))
    found = problems(write(tmp_path, f"{SMALLEST}{chain}a5000=x\n".encode()))
    assert "levels deep" in found[0].what


def test_a_reference_reaches_over_includes_inheritance_the_environment_and_flags(tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    write(tmp_path, b"base=/data/${env:STAGE}\n", "project.properties")
    write(folder, b"extract.namespace=com.${team}\n", "shared.conf")
    text = SMALLEST.replace("final.dir=out", "final.dir=${base}/${sys:area}/${job.name}")
    path = write(folder, f"include=shared.conf\nteam=sales\n{text}".encode())
    loaded = load(path, environ={"STAGE": "dev"}, overrides={"area": "raw", "job.name": "o2"})
    assert loaded.job.publishing.final_dir == "/data/dev/raw/o2"
    assert loaded.job.publishing.dataset_path.startswith("com/sales/")


def test_a_circle_over_two_files_is_told_once_for_each_key_in_it(tmp_path):
    write(tmp_path, b"a=${b}\n", "shared.conf")
    found = problems(write(tmp_path, f"include=shared.conf\nb=${{a}}\n{SMALLEST}".encode()))
    assert {problem.what for problem in found} <= {
        "goes round in a circle: a -> b -> a", "goes round in a circle: b -> a -> b",
    }  # fmt: skip


def test_a_value_that_begins_in_the_line_behind_its_key_is_read(
    load_text: Callable[..., Loaded],
) -> None:
    text = f'{SMALLEST}ms.parameters=\n  [{{"name":"a","value":"1"}},\n   {{"name":"b"}}]\n'
    names = [each.name for each in load_text("job.pull", text).job.extraction.parameters]
    assert names == ["a", "b"]


def test_a_mistake_in_a_value_behind_its_key_is_told_in_its_line(tmp_path):
    text = f'{SMALLEST}ms.parameters=\n  [{{"name":"a"}},\n   {{"name":"b","type":"lst"}}]\n'
    (found,) = problems(write(tmp_path, text.encode()))
    assert found.origin.line == 10


def test_a_required_property_that_is_blank_is_told_in_its_line(tmp_path):
    text = SMALLEST.replace("table.name=orders", "table.name=")
    (found,) = problems(write(tmp_path, text.encode()))
    assert (found.what, found.origin.line) == ("is required and blank", 5)


def test_a_flag_wins_over_every_file_and_a_repeated_key(tmp_path):
    text = f"{SMALLEST}ms.work.unit.partition=daily\nms.work.unit.partition=weekly\n"
    loaded = load(
        write(tmp_path, text.encode()), environ={}, overrides={"ms.work.unit.partition": "none"}
    )
    assert loaded.job.planning.partition == "none"
    assert [notice.what for notice in loaded.notices] == [
        "was set in line 8 already; this one counts"
    ]
