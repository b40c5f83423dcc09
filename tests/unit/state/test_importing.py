"""Rows of another store are taken whole or not at all, with the line of what is wrong."""

import json
from pathlib import Path

import pytest

from dil.errors import ConfigError
from dil.state.amendments.importing import ImportLimits, read_import

SIGNATURE = '[watermark.dt.1000, watermark.unit.{""id"":""x%2Fy""}]'
RAW = '[watermark.dt.1000, watermark.unit.{"id":"x/y"}]'


def write(folder: Path, text: str, name: str = "rows.csv") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_columns_stand_in_any_order_and_signatures_are_decoded(tmp_path: Path) -> None:
    path = write(tmp_path, f'\ufeffhigh,job,signature,more\n2000,j,"{SIGNATURE}",x\n')
    found = read_import(path, "csv", "j")
    assert [(each.signature, each.low, each.high) for each in found.highs] == [(RAW, 1000, 2000)]


def test_other_jobs_equal_repeats_and_failures_are_counted_apart(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f'job,signature,high\nj,"{SIGNATURE}",2000\nj,"{SIGNATURE}",2000\n'
        'other,nonsense,x\n\nj,"[watermark.dt.5, watermark.u.{}]",5\n',
    )
    found = read_import(path, "csv", "j")
    assert (len(found.highs), found.rows, found.unsuccessful) == (1, 4, 1)
    assert found.others == {"other": 1}


def test_lines_of_json_may_have_empty_lines_between_them(tmp_path: Path) -> None:
    row = json.dumps({"job": "j", "signature": RAW, "high": 2000})
    found = read_import(write(tmp_path, f"\n{row}\n  \n\n{row}\n"), "json", "j")
    assert [(each.signature, each.high) for each in found.highs] == [(RAW, 2000)]
    with pytest.raises(ConfigError, match=":4: is no JSON"):
        read_import(write(tmp_path, f"\n{row}\n\n{{"), "json", "j")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (f'j,"{SIGNATURE}",999', "high 999 is before the partition start 1000"),
        (f'j,"{SIGNATURE}",3000', "has high 3000, but an earlier line has 2000"),
        (f'j,"{SIGNATURE}",', "high '' is no instant"),
        (f'j,"{SIGNATURE}",2020-01-01', "is no instant"),
        (f'j,"{SIGNATURE}",99999999999999999999', "is no instant"),
        ("j,[watermark.dt.1000],2000", "is no signature"),
        ("j", "'None' is no signature"),
    ],
)
def test_a_wrong_row_is_told_with_its_line(tmp_path: Path, row: str, what: str) -> None:
    path = write(tmp_path, f'job,signature,high\nj,"{SIGNATURE}",2000\n{row}\n')
    with pytest.raises(ConfigError) as caught:
        read_import(path, "csv", "j")
    assert f"{path}:3" in str(caught.value)
    assert what.replace("'None'", "None") in str(caught.value).replace("'None'", "None")


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (ImportLimits({1000: 1999}, 5000), "high 2000 is after the partition's end 1999"),
        (ImportLimits({1000: 3000}, 1500), "high 2000 is after now, 1500"),
        (ImportLimits({}, 1500), "high 2000 is after now, 1500"),
    ],
)
def test_a_high_that_nobody_can_have_read_is_told_with_its_line(
    tmp_path: Path, limits: ImportLimits, what: str
) -> None:
    path = write(tmp_path, f'job,signature,high\nj,"{SIGNATURE}",2000\n')
    with pytest.raises(ConfigError) as caught:
        read_import(path, "csv", "j", limits=limits)
    assert f"{path}:2" in str(caught.value)
    assert what in str(caught.value)
    assert len(read_import(path, "csv", "j", limits=ImportLimits({7: 1}, 2000)).highs) == 1


def test_all_wrong_rows_are_told_at_once_up_to_twenty(tmp_path: Path) -> None:
    path = write(tmp_path, "job,signature,high\n" + "j,x,1\n" * 50)
    with pytest.raises(ConfigError) as caught:
        read_import(path, "csv", "j")
    assert len(caught.value.problems) == 20


@pytest.mark.parametrize(
    ("text", "form", "what"),
    [
        ("", "csv", "has no header"),
        ("a,b,c\n", "csv", "has no header"),
        ('{"job":"j"}\n', "csv", "give --format json"),
        ('job,signature,high\nj,"open\n', "csv", "is no UTF-8 text of this form"),
        ('{"job":"j"}\n{"job"\n', "json", ":2"),
        ("[1]\n", "json", "is no JSON object"),
        ('{"signature":"x","high":1}\n', "json", "has no job"),
        ('{"job":"j","signature":"[watermark.d.1, watermark.u.{}]","high":1.5}\n', "json", "1.5"),
        ('{"job":"j","signature":"[watermark.d.1, watermark.u.{}]","high":true}\n', "json", "True"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, form: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_import(write(tmp_path, text), form, "j")
    assert what in str(caught.value)
    assert all(problem.fix for problem in caught.value.problems)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        read_import(str(tmp_path / "none.csv"), "csv", "j")
    assert "Name a local file" in str(caught.value)
