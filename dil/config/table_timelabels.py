"""The property table: timelabels. Source: timelabels.md 2 and 3."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, ValueType

TIMELABELS = Group(
    "timelabels",
    "Timelabels",
    (
        Property(
            "ms.timelabel.schedule",
            ValueType.STRING,
            "Cron expression of the job's schedule: five fields, or `@hourly`, `@daily`, "
            "`@weekly`, `@monthly`, `@yearly`. It starts nothing; its periods are what work units "
            "are named after.",
            scope=Scope.JOB,
        ),
        Property(
            "ms.timelabel.every",
            ValueType.STRING,
            "In place of a cron expression: an interval of whole minutes, counted from 1970-01-01 "
            "UTC, such as `PT90M` or `90m`.",
            scope=Scope.JOB,
        ),
        Property(
            "ms.timelabel.unit",
            ValueType.ENUM,
            "In place of both, for jobs without a schedule: the label is the start of the minute, "
            "hour, day or month in which the work unit begins.",
            words=("minute", "hour", "day", "month"),
            scope=Scope.JOB,
        ),
        Property(
            "ms.timelabel.timezone",
            ValueType.ZONE,
            "Zone in which the cron expression or the unit is evaluated. Labels are UTC, always.",
            default="UTC",
            scope=Scope.JOB,
        ),
        Property(
            "ms.timelabel.column",
            ValueType.STRING,
            "Column by whose time rows are split among timelabels: timestamps, dates or epoch "
            "milliseconds. Unset: where files are put into folders by timelabel, the column that "
            "has the watermark's name, if the rows have it and the work unit spans several.",
            scope=Scope.JOB,
        ),
        Property(
            "ms.timelabel.split",
            ValueType.ENUM,
            "Whether a work unit that spans several timelabels is split before it is read: `units` "
            "cuts it where a period ends. Unset: `units` where rows of an API go to a timeseries "
            "table and `ms.timelabel.column` names no column, else `none`.",
            default="none",
            words=("none", "units"),
            scope=Scope.JOB,
        ),
        Property(
            "ms.timelabel.catchup",
            ValueType.BOOL,
            "Whether periods are read that no run was there for. If not, a run reads its own one, "
            "and records those that were missed as SKIPPED; plan and run name them, and `dil "
            "backfill` reads them. What a run was there for stays due until it is read.",
            default="true",
            scope=Scope.JOB,
        ),
        Property(
            "ms.timelabel.first.run",
            ValueType.ENUM,
            "What the first run reads: `history` is the whole range of the watermark, as DIL reads "
            "it; `period` is the run's period alone, and nothing older is read later either.",
            default="history",
            words=("history", "period"),
            scope=Scope.JOB,
        ),
    ),
)
