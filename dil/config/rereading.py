"""Checks for rows that runs would read and keep twice, or would never read.

See rules G35, P19 and U15.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from dil.config.findings import Findings
from dil.config.grace import GRACE_MODE
from dil.config.merging import MISSING, MergingSection
from dil.config.parts import JobParts
from dil.config.planning import is_asked_by_window
from dil.config.requests import sends_low_watermark, sent_watermarks
from dil.config.state import DATASET_KIND, ENABLED, KIND
from dil.config.timelabels import LABEL_COLUMN, SPLIT
from dil.config.watermarks import ABSTINENT, GRACE, PARTITION, WATERMARK, instant
from dil.model.grace import GraceMode
from dil.model.job import PlanningSpec, PublishMode
from dil.model.properties import Properties
from dil.model.settings import Parameter
from dil.sections.parameters import PARAMETERS
from dil.sections.source import ONCE
from dil.text.joda_tokens import tokenize
from dil.text.zones import find_zone

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAYS_AGO = re.compile(r"P[0-9]+D(?:\..+)?")
_MINUTES_AGO = re.compile(r"P[0-9]+DT(?:[0-9]+H)?[0-9]+M(?:\..+)?")
_HOURS_AGO = re.compile(r"P[0-9]+DT[0-9]+H(?:\..+)?")
# Only the rules that a zone has from now on count; its former rules do no harm any more.
_YEAR = 2037
_HOURS = frozenset("hHkK")


def check_rereading(parts: JobParts, values: Properties, findings: Findings) -> None:
    """Report settings by which rows would be read and kept twice, or never be read."""
    if not findings.is_sound(WATERMARK, PARTITION):
        return
    planning, mode = parts.planning, parts.publishing.mode
    if values.section(MergingSection).deletes_missing:
        what = "deletes the rows that a run did not read, and "
        if planning.once:
            what += "this job reads each file once"
            findings.problem(MISSING, what, "Leave it out; mark deleted rows by ms.merge.op.field.")
        elif sends_low_watermark(values, planning):
            findings.problem(
                MISSING,
                f"{what}the source is asked from the low watermark on: all older rows would be "
                "missing",
                "Leave it out, or ask for everything: send no parameter with the low watermark.",
            )
    # A timeseries replaces timelabels, and a dump replaces the file of the same name. A backfill
    # reads the same unit.
    is_other = planning.timelabel is not None or parts.is_dump or planning.backfill
    if planning.once == "version" and mode is PublishMode.WINDOW_REPLACE and not is_other:
        findings.problem(
            ONCE,
            'is "version", and ms.publish.mode is "window_replace": a changed file is another work '
            "unit, which replaces nothing, so its rows would be there twice",
            f"Set {ONCE}=path to read each path once, ms.publish.mode=append to keep the rows of "
            "all versions, or merge by key: ms.publish.mode=merge.",
        )
    if planning.grace_range_ms[1] > 0 and parts.appends and not planning.once:
        is_fixed = planning.grace.mode is GraceMode.FIXED
        findings.notice(
            _period_key(values, GRACE) if is_fixed else GRACE_MODE,
            "reads rows again, and plain append keeps each version",
            "Set ms.publish.mode=window_replace to keep the newest reading only.",
        )
    if parts.appends and not parts.state.enabled:
        keys = (ENABLED, DATASET_KIND, KIND)
        findings.notice(
            next((key for key in keys if key in values.explicit), ENABLED),
            "keeps no watermarks: each run reads and appends everything",
            "Set ms.publish.mode=replace to keep the last run only, or keep the state.",
        )
    if planning.start.startswith("P"):
        _check_starts(parts, findings)
    if _is_read_in_parts(planning):
        _check_parts(planning, values, findings)
    _check_split(planning, values, findings)


def _check_starts(parts: JobParts, findings: Findings) -> None:
    """Report partitions of a moving range whose starts move, so that no run finds their records.

    Starts move with every run, or when the clocks of a zone change by half an hour.
    """
    planning, words = parts.planning, set(parts.planning.words)
    is_replaced = parts.publishing.mode is PublishMode.WINDOW_REPLACE
    is_recorded = parts.state.enabled and (parts.appends or is_replaced)
    if _starts_move(planning):
        cut = (
            "its one partition"
            if words == {"none"}
            else f"{' and '.join(sorted(words))} partitions"
        )
        what = (
            f'has the from "{planning.start}", which moves with every run, and so do the starts of '
            f"{cut}"
        )
        if is_replaced:
            findings.problem(
                WATERMARK,
                f"{what}: no run would find the files that it has to replace",
                'Write a date as from, or cut the range daily or hourly from a "PnD".',
            )
        elif is_recorded:
            findings.notice(
                WATERMARK,
                f"{what}: each run has new signatures, and reads and appends the whole range",
                "Write a date as from, or set ms.publish.mode=replace.",
            )
    elif "hourly" in words and is_recorded:
        zone = instant(planning.start, planning.zone, end=False).zone
        if len({offset % timedelta(hours=1) for offset in _offsets(zone)}) > 1:
            findings.notice(
                WATERMARK,
                f'has the from "{planning.start}" in {zone}, where clocks change by half an hour: '
                "after each change hourly partitions start elsewhere, and rows of the whole range "
                "are read and published again",
                "Write a date as from, or count the hours in UTC: "
                f'"{planning.start.partition(".")[0]}.UTC".',
            )


def _check_parts(planning: PlanningSpec, values: Properties, findings: Findings) -> None:
    """Report rows between two readings of a partition that no run reads, or that two runs read."""
    # A later reading begins after the end of the earlier one.
    is_apart = planning.abstinent_ms > planning.grace_range_ms[0]
    if is_apart and sends_low_watermark(values, planning):
        findings.notice(
            _period_key(values, ABSTINENT),
            "is longer than the grace period, and the low watermark is sent: time inside the "
            "abstinent period is never read",
            "Leave the abstinent period out, or set ms.publish.mode=window_replace, which reads "
            "partitions from their start.",
        )
    # Windows that end at whole hours are safe: if two of their ends have equal texts in the hour
    # that comes twice, one window is empty and the next has both hours.
    if planning.end != "-" and not _MINUTES_AGO.fullmatch(planning.end):
        return
    found = [each for each in sent_watermarks(values, planning) if is_ambiguous(each)]
    if found:
        names = " and ".join(dict.fromkeys(f'"{each.name}"' for each in found))
        findings.notice(
            PARAMETERS,
            f"{names}: local time of {found[0].timezone} without its offset; windows that end in "
            "the hour that comes twice a year may miss rows, or give them twice",
            'Add ZZ, the offset, to the pattern, or use "timezone":"UTC" or '
            '"format":"epoch-second". If the source has local times only, end the range at '
            'whole hours or days, such as "to":"P0D".',
        )


def _check_split(planning: PlanningSpec, values: Properties, findings: Findings) -> None:
    """Refuse work units of an API if a unit with several timelabels would give all rows to one.

    Also refuse them if each work unit would read the same rows.
    """
    labels = planning.timelabel
    if labels is None or not labels.is_dated or not is_asked_by_window(values):
        return
    sends_window = any(True for _ in sent_watermarks(values, planning))
    if sends_window and not labels.splits:
        findings.problem(
            SPLIT,
            'is "none", and all rows of a work unit would go to the last timelabel that it touches',
            "Leave it out, so that work units are split; or name a column that distinguishes"
            f" rows in {LABEL_COLUMN}.",
        )
    elif labels.splits and not sends_window and SPLIT not in values.explicit:
        findings.problem(
            WATERMARK,
            "is sent by no parameter, and work units are split by timelabel, as an API's are for a "
            "timeseries: each of them would read the same rows",
            "Send its low and high by parameters of type watermark; or if each run reads "
            f"everything, leave the datetime watermark out, or set {SPLIT}=none.",
        )


def _starts_move(planning: PlanningSpec) -> bool:
    """Return whether the starts of partitions differ from run to run."""
    if not planning.start.startswith("P"):
        return False
    words = set(planning.words)
    if words <= {"hourly", "daily"} and _DAYS_AGO.fullmatch(planning.start):
        return False
    return not (words == {"hourly"} and _HOURS_AGO.fullmatch(planning.start))


def _is_read_in_parts(planning: PlanningSpec) -> bool:
    """Return whether a run can read a partition before its end, and a later run the rest."""
    is_open = planning.end == "-" or planning.end.startswith("P")
    if not is_open or _starts_move(planning):
        return False
    if planning.read_from_partition_start or planning.ignore_history:
        return False
    words = set(planning.words)
    if "none" in words:
        return True
    ends_whole = words <= {"hourly", "daily"} and bool(
        _DAY.fullmatch(planning.start) and _DAYS_AGO.fullmatch(planning.end)
    )
    return planning.partial and not ends_whole


def _period_key(values: Properties, name: str) -> str:
    return name if name in values.explicit else f"{name}.days"


def is_ambiguous(parameter: Parameter) -> bool:
    """Return whether a watermark is sent as a local time that the zone has twice a year.

    A zone id (ZZZ) does not distinguish the two; an offset or a short name (CET, CEST) does.
    """
    if parameter.format != "datetime":
        return False
    fields = [token for token in tokenize(parameter.pattern) if token.letter]
    says_offset = any(field.letter in "zZ" and not field.is_zone_id for field in fields)
    says_hour = any(field.letter in _HOURS for field in fields)
    if says_offset or not says_hour:
        return False
    return len(_offsets(parameter.timezone)) > 1


def _offsets(zone: str) -> set[timedelta]:
    """Return the distances from UTC that a zone has in a year."""
    months = (datetime(_YEAR, month, 1, tzinfo=find_zone(zone)) for month in range(1, 13))
    return {month.utcoffset() or timedelta() for month in months}
