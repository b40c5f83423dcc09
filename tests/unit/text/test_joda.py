"""Joda date patterns; expected values were made with Joda-Time 2.14."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dil.text.joda import compile_pattern

LA = "America/Los_Angeles"
MOMENT = 1577865600123  # 2020-01-01T00:00:00.123 in Los Angeles


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss'Z'", "2020-01-01T00:00:00Z"),
        ("yyyy-MM-dd'T'HH:mmZ", "2020-01-01T00:00-0800"),
        ("ZZ ZZZ", "-08:00 America/Los_Angeles"),
        ("ss.SSSSSS", "00.123000"),
        ("S SS", "1 12"),
        ("EEE, dd MMM yyyy HH:mm:ss z", "Wed, 01 Jan 2020 00:00:00 PST"),
        ("EEEE d MMMM yy", "Wednesday 1 January 20"),
        ("h:mm a K k", "12:00 AM 0 24"),
        ("xxxx-'W'ww-e", "2020-W01-3"),
        ("DDD/D", "001/1"),
        ("YYYY G C", "2020 AD 20"),
        ("yyyyy", "02020"),
        ("yyyy'''year'''", "2020'year'"),
        ("HH 'o''clock'", "00 o'clock"),
    ],
)
def test_letters_write_what_joda_writes(pattern: str, expected: str) -> None:
    assert compile_pattern(pattern).format(MOMENT, LA) == expected


def test_offsets_of_fixed_zones_are_written_with_their_minutes() -> None:
    assert compile_pattern("HH:mm ZZ ZZZ").format(MOMENT, "+05:30") == "13:30 +05:30 +05:30"


@pytest.mark.parametrize("pattern", ["", "yyyy-bb", "T", "yyyy zzzz", "j", "yyyyTHH"])
def test_letters_without_meaning_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        compile_pattern(pattern)


@pytest.mark.parametrize(("zone", "name"), [("GMT", "GMT"), ("Etc/UTC", "UTC"), (LA, "PST")])
def test_a_short_zone_name_is_that_of_java(zone: str, name: str) -> None:
    pattern = compile_pattern("HH:mm z")
    assert not pattern.unwritable(zone)
    assert pattern.format(MOMENT, zone).endswith(f" {name}")


def test_a_short_zone_name_that_java_may_spell_otherwise_is_refused() -> None:
    with pytest.raises(ValueError, match="certain name"):
        compile_pattern("z").format(0, "America/Sao_Paulo")
    assert compile_pattern("z").unwritable("America/Sao_Paulo")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyy-MM-dd", "2020-01-01", 1577836800000),
        ("yyyy-MM-dd", "2020-1-2", 1577923200000),
        ("yyyy-MM-dd HH:mm:ss", "2020-01-02 3:04:05", 1577934245000),
        ("HH:mm:ss", "08:30:00", 30600000),
        ("yyyyMMddHHmmss", "20200102030405", 1577934245000),
        ("MM-dd", "02-29", 951782400000),
        ("yyyy", "2020", 1577836800000),
        ("yyyy-DDD", "2020-366", 1609372800000),
        ("dd-MMM-yyyy", "02-JAN-2020", 1577923200000),
        ("d MMMM yyyy", "2 jan 2020", 1577923200000),
        ("h:mm a", "12:05 am", 300000),
        ("h:mm a", "1:00 PM", 46800000),
        ("K:mm a", "0:00 PM", 43200000),
        ("kk", "24", 0),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2020-01-02t03:04:05.5", 1577934245500),
        ("s.S", "7.9", 7900),
        ("EEE, dd MMM yyyy", "Thu, 02 Jan 2020", 1577923200000),
        ("EEEEMM", "Monday08", 967420800000),
        ("EEEE yyyy", "Monday 2006", 1167004800000),
        ("yyyy-MM-ddZ", "2020-01-02Z", 1577923200000),
        ("yyyy-MM-ddZ", "2020-01-02+01", 1577919600000),
        ("yyyy-MM-ddZ", "2020-01-02+0130", 1577917800000),
        ("yyyy-MM-ddZZ", "2020-01-02-08:00", 1577952000000),
        ("yyyy-MM-dd z", "2020-01-02 PST", 1577952000000),
        ("yyyy-MM-dd ZZZ", "2020-01-02 Asia/Kolkata", 1577903400000),
        ("MM/dd/yy", "1/2/20", 1577923200000),
        ("MM/dd/yy", "01/02/1999", 915235200000),
        ("MM/dd/yy", "01/02/+99", -59042908800000),
        ("dd-MMM-YY", "02-JAN-20", 1577923200000),
        ("yy-MM-dd", "2020-01-02", 1577923200000),
        ("yyDDD", "20002", 1577923200000),
        ("yyMMddHHmmss", "200102030405", 1577934245000),
    ],
)
def test_texts_are_read_as_joda_reads_them(pattern: str, text: str, expected: int) -> None:
    assert compile_pattern(pattern).parse(text, "UTC", run_now=MOMENT) == expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss", "2020-01-01"),
        ("yyyy-MM-dd", "2020-01-01 "),
        ("yyyy-MM-dd", "2021-02-29"),
        ("yyyy-MM-dd", "2020-13-01"),
        ("yyyy-MM-dd", "2020-001-01"),
        ("yyyy-MM-dd", "x"),
        ("yyyy-DDD", "2021-366"),
        ("HH:mm:ss", "24:00:00"),
        ("HH:mm:ss", "08:30:60"),
        ("h a", "13 PM"),
        ("dd MMM yyyy", "01 jAN 2020"),
        ("dd MMM yyyy", "01 Janu 2020"),
        ("yyyy-MM-ddZ", "2020-01-01+1"),
        ("yyyy-MM-ddZ", "2020-01-01+24"),
        ("yyyy-MM-dd z", "2020-01-01 CET"),
        ("yyyy-MM-dd ZZZ", "2020-01-01 Nowhere/City"),
        ("yyyy-MM-dd", "٢٠٢٠-01-01"),
        ("yyMMdd", "20200102"),
        ("yyMMdd", "+20102"),
        ("yyMMdd", "2"),
        ("MM/dd/yy", "01/02/0"),
    ],
)
def test_texts_that_do_not_fit_are_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"fit|range|year|month|zone|offset"):
        compile_pattern(pattern).parse(text, "UTC", run_now=MOMENT)


@pytest.mark.parametrize("this_year", [1970, 2020, 2026, 2099])
@pytest.mark.parametrize("form", ["MM/dd/yy", "yyMMdd", "dd-MMM-YY"])
def test_two_digits_are_a_year_from_80_before_to_19_after_the_year_of_the_run(
    form: str, this_year: int
) -> None:
    pattern, year = compile_pattern(form), compile_pattern("yyyy")
    moments = [
        year.parse(str(each), "UTC", run_now=0) for each in range(this_year - 81, this_year + 21)
    ]
    begin, end = moments[81], moments[82] - 1
    for run_now in (begin, end):
        read = [
            pattern.parse(pattern.format(moment, "UTC"), "UTC", run_now=run_now)
            for moment in moments
        ]
        assert read[1:-1] == moments[1:-1]
        assert (read[0], read[-1]) == (moments[100], moments[1])


def test_gap_is_refused_and_overlap_is_the_earlier_time() -> None:
    pattern = compile_pattern("yyyy-MM-dd HH:mm")

    assert pattern.parse("2021-11-07 01:30", LA, run_now=MOMENT) == 1636273800000
    with pytest.raises(ValueError, match="clocks go"):
        pattern.parse("2021-03-14 02:30", LA, run_now=MOMENT)


@pytest.mark.parametrize("pattern", ["xx-'W'ww", "xxxx-'W'ww-e", "G yyyy", "CC"])
def test_what_cannot_be_read_back_says_why(pattern: str) -> None:
    compiled = compile_pattern(pattern)

    assert compiled.unreadable
    with pytest.raises(ValueError, match="cannot be read back"):
        compiled.parse("20", "UTC", run_now=MOMENT)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("HH:mm Z", True), ("HH:mm z", True), ("ZZZ", True), ("HH:mm 'Z'", False)],
)
def test_a_pattern_knows_whether_it_reads_a_zone(pattern: str, expected: bool) -> None:
    assert compile_pattern(pattern).reads_zone is expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss", "%Y-%m-%d %H:%M:%S"),
        ("MM/dd/yyyy '100%'", "%m/%d/%Y 100%%"),
        ("yyyyMMdd", "%Y%m%d"),
        ("yyyy-M-d", None),
        ("HH:mm:ss", None),
        ("yyyy-MM-dd HH:mm:ss.SSS", None),
        ("yyyy-MM-dd yyyy", None),
    ],
)
def test_only_fixed_width_patterns_have_a_strptime_format(
    pattern: str, expected: str | None
) -> None:
    assert compile_pattern(pattern).strptime == expected


def test_vectorised_values_that_format_back_to_their_text_equal_parse() -> None:
    compiled = compile_pattern("yyyy-MM-dd HH:mm:ss")
    texts = [
        "2020-01-02 03:04:05",
        "2021-02-30 00:00:00",
        "2020-01-01 00:00:60",
        "2020- 1-02 0:0:0",
    ]
    values = pc.strptime(pa.array(texts), format=compiled.strptime, unit="s", error_is_null=True)
    same = pc.fill_null(
        pc.equal(pc.strftime(values, format=compiled.strptime), pa.array(texts)), False
    )

    assert same.to_pylist() == [True, False, False, False]
    assert values[0].cast(pa.int64()).as_py() * 1000 == compiled.parse(
        texts[0], "UTC", run_now=MOMENT
    )


@pytest.mark.parametrize(
    ("pattern", "agrees"),
    [
        ("yyyy-MM-dd HH:mm:ss", True),
        ("HH:mm:ss.SSS", True),
        ("yyyy-MM-dd", True),
        ("yyyy-dd-MM", False),
        ("mm:ss", False),
        ("ss:mm:HH", False),
        ("yyyy-MM-dd hh:mm:ss", False),
        ("yyyy-MM-dd kk:mm", False),
    ],
)
def test_iso_stands_beside_patterns_that_read_it_the_same_way(pattern: str, agrees: bool) -> None:
    assert compile_pattern(pattern).agrees_with_iso("UTC") is agrees
