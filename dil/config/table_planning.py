"""The property table: watermarks, work units, planning."""

from __future__ import annotations

from dil.config.partitions import WORDS
from dil.config.property import Group, Property
from dil.model.section import Scope, Support, ValueType

PLANNING = Group(
    "planning",
    "Watermarks and work units",
    (
        Property(
            "ms.watermark",
            ValueType.JSON_ARRAY,
            "At most one `datetime` watermark with a range, and at most one `unit` watermark with "
            "a list. Without the first: 2019-01-01 to now; without the second: one unit `{}`.",
            scope=Scope.JOB,
        ),
        Property(
            "ms.timezone",
            ValueType.ZONE,
            "Zone of every text and duration in watermarks and parameters that names none.",
            default="America/Los_Angeles",
        ),
        Property(
            "ms.work.unit.partition",
            ValueType.WORD_OR_OBJECT,
            "How the time range is cut. An object such as "
            '`{"monthly":["2020-01-01","2024-01-01"],"daily":["2024-01-01","-"]}` cuts parts of '
            "the range differently.",
            default="none",
            words=WORDS,
            scope=Scope.JOB,
        ),
        Property(
            "ms.work.unit.partial.partition",
            ValueType.BOOL,
            "Whether a last partition that is shorter than its step is read.",
            default="true",
            scope=Scope.JOB,
        ),
        Property(
            "ms.grace.period.days",
            ValueType.INT,
            "Days, of 24 hours each, before the last high watermark that are read again for late "
            "data.",
            default="0",
            low=0,
            scope=Scope.JOB,
        ),
        Property(
            "ms.grace.period",
            ValueType.DURATION,
            "The same as an ISO duration such as `PT6H`, in place of the days.",
            scope=Scope.JOB,
        ),
        Property(
            "ms.abstinent.period.days",
            ValueType.INT,
            "Days, of 24 hours each, for which a work unit is left alone after it was read.",
            default="0",
            low=0,
            scope=Scope.JOB,
        ),
        Property(
            "ms.abstinent.period",
            ValueType.DURATION,
            "The same as an ISO duration such as `PT6H`, in place of the days.",
            scope=Scope.JOB,
        ),
        Property(
            "ms.backfill",
            ValueType.BOOL,
            "Plans the whole configured range, whatever was read before. The run counts as "
            "incremental; recorded watermarks are never lowered.",
            default="false",
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.enable.dynamic.full.load",
            ValueType.BOOL,
            "Makes the first run of a job a full extract.",
            default="true",
            scope=Scope.JOB,
        ),
        Property(
            "ms.work.unit.parallelism.max",
            ValueType.INT,
            "Most work units that one run takes; the rest waits for the next. 0 stands for 500, -1 "
            "for no limit. How many run at once is `taskexecutor.threadpool.size`.",
            default="500",
            low=-1,
            high=5000,
            special={0: 500},
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.work.unit.min.units",
            ValueType.LONG,
            "Fewer planned work units than this fail the run before any is read.",
            default="0",
            low=0,
            scope=Scope.JOB,
            identity=False,
        ),
        Property(
            "ms.work.unit.min.records",
            ValueType.LONG,
            "Fewer rows than this, as read from the source, fail the work unit.",
            default="0",
            low=0,
            scope=Scope.TASK,
        ),
        Property(
            "ms.work.unit.pacing.seconds",
            ValueType.INT,
            "Work unit i (from 0) sends nothing before planning time plus i times this.",
            default="0",
            low=0,
            identity=False,
        ),
        Property(
            "ms.work.unit.scheduling.starttime",
            ValueType.LONG,
            "When a paced work unit may start, epoch milliseconds.",
            default="0",
            scope=Scope.TASK,
            support=Support.INTERNAL,
            identity=False,
        ),
        Property(
            "ms.watermark.groups",
            ValueType.JSON_ARRAY,
            "The names of both watermarks of a work unit.",
            scope=Scope.TASK,
            support=Support.INTERNAL,
            identity=False,
        ),
        Property(
            "ms.activation.property",
            ValueType.JSON_OBJECT,
            "The work unit's unit together with its authentication fields.",
            scope=Scope.TASK,
            support=Support.INTERNAL,
            identity=False,
        ),
        Property(
            "ms.payload.property",
            ValueType.JSON_ARRAY,
            "The payload entries of a work unit.",
            scope=Scope.TASK,
            support=Support.INTERNAL,
            variables=True,
            identity=False,
        ),
        Property(
            "ms.secondary.input",
            ValueType.JSON_ARRAY,
            "Output of earlier jobs to read first: `activation` rows become units, "
            "`authentication` gives variables. `payload` gives rows to send, one in each "
            "request, `validation` rows to compare with.",
        ),
        Property(
            "ms.hdfs.reader.parse.json.strings",
            ValueType.BOOL,
            "Whether texts of secondary input that look like JSON, `{...}` or `[...]`, are read as "
            "JSON.",
            default="false",
        ),
        Property(
            "ms.aux.keys",
            ValueType.JSON_OBJECT,
            "Rare switches of DIL's; work units without a range do not occur here.",
            scope=Scope.JOB,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.state.cursor.commit",
            ValueType.ENUM,
            "How often progress inside a work unit is kept: `unit` at its end, `page` also between "
            "its pages, so that a later attempt or run goes on from there.",
            default="unit",
            words=("unit", "page"),
            identity=False,
        ),
    ),
)
