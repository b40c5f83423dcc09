"""How work units are executed: properties, and the part of a job that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.config.egress import ProgressSection, resumes
from dil.config.findings import Findings
from dil.config.identity import JobSection
from dil.config.publishing import AT_JOB_LEVEL, REPLACES, PublishingSection
from dil.model.job import CommitPolicy, RunningSpec
from dil.model.properties import Properties
from dil.model.section import (
    ONE_OF,
    Bool,
    Int,
    Long,
    Reported,
    Section,
    Text,
    Texts,
    ValueType,
    Written,
    no_effect,
    prop,
    refused,
)

_MEMORY, _COMMIT_POLICY = "ms.task.memory.max.bytes", "job.commit.policy"
_LEAST_MEMORY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ExecutionSection(Section):
    """The parallelism and the retries of work units, and the effect of a failure."""

    threads: Annotated[Int, Ge(1)] = prop(
        "taskexecutor.threadpool.size",
        "Work units that run at the same moment.",
        default=10,
        identity=False,
    )
    max_retries: Annotated[Int, Ge(0)] = prop(
        "task.maxretries",
        "How often a failed work unit is tried again inside a run.",
        default=4,
        identity=False,
    )
    retry_interval_s: Annotated[Long, Ge(0)] | None = prop(
        "task.retry.intervalinsec",
        "Retry k waits k - 1 times this many seconds. Unset: a random wait that grows from 1 "
        "to 60 seconds.",
        default=None,
        identity=False,
    )
    memory_bytes: Annotated[Long, Ge(0)] | None = prop(
        _MEMORY,
        "Most memory that a worker, a Python process that runs work units, may take; a work unit "
        "that needs more fails with DIL-SRC-CONTRACT. 0 is no limit. Unset: half of the memory of "
        "the machine or its container, divided by the number of workers that run at once, and at "
        "least 1 GiB.",
        default=None,
        example="4294967296",
        identity=False,
    )
    commit_policy: Annotated[Literal["full", "successful", "partial"], ONE_OF] = prop(
        _COMMIT_POLICY,
        "full publishes nothing if a work unit failed; successful publishes the work units that "
        "succeeded; partial is an older word for successful.",
        default="full",
        identity=False,
    )
    workunit_retry_enabled: Bool = no_effect(
        "workunit.retry.enabled",
        "Gobblin's switch; failed work units are always due again.",
        default=True,
    )
    workunit_retry_policy: Annotated[Literal["always", "onfull", "onpartial", "never"], ONE_OF] = (
        no_effect(
            "workunit.retry.policy",
            "Gobblin's policy for `workunit.retry.enabled`.",
            default="always",
        )
    )
    qualitychecker_task_policies: Texts = refused(
        "qualitychecker.task.policies",
        "Gobblin's Java classes that check a task's totals, which do not run here. Use "
        "`ms.work.unit.min.records`, `ms.validation.attributes`, or a converter of your own.",
        default=(),
    )
    qualitychecker_task_policy_types: Texts = no_effect(
        "qualitychecker.task.policy.types",
        "Gobblin's word for each class of `qualitychecker.task.policies`; has no effect without "
        "them.",
        default=(),
    )
    qualitychecker_row_policies: Texts = refused(
        "qualitychecker.row.policies",
        "Gobblin's Java classes that check rows, which do not run here. Use `isNullable` in "
        "`ms.output.schema`, `ms.schema.contract`, or a converter of your own.",
        default=(),
    )
    qualitychecker_row_policy_types: Texts = no_effect(
        "qualitychecker.row.policy.types",
        "Gobblin's word for each class of `qualitychecker.row.policies`; has no effect without "
        "them.",
        default=(),
    )
    qualitychecker_row_err_file: Text = no_effect(
        "qualitychecker.row.err.file",
        "Gobblin's file of rejected rows. Here rows that do not fit go to quarantine, see "
        "`ms.quarantine.enabled`.",
    )


@dataclass(frozen=True, slots=True)
class EventsSection(Section):
    """Events that LinkedIn's DIL sends to Kafka; here plans and reports have what events say."""

    metrics_enabled: Bool = no_effect(
        "ms.metrics.enabled",
        "DIL's planning events. Here `dil plan --json` prints the plan, and a report has its "
        "outcome.",
        default=False,
        reported=Reported.ALONE,
    )
    reporter_class: Text = no_effect(
        "ms.reporter.class",
        "DIL's class that sends events.",
        default="com.linkedin.cdi.factory.producer.KafkaEventReporter",
    )
    kafka: Annotated[object, Written(ValueType.JSON_OBJECT)] = no_effect(
        "ms.kafka", "DIL's Kafka producer of events.", default=None, hidden_members="the passwords"
    )
    kafka_events_topic_name: Text = no_effect(
        "ms.kafka.events.topic.name", "DIL's topic of planning events."
    )


def running_section(
    values: Properties, plugin_folders: tuple[str, ...], findings: Findings
) -> RunningSpec:
    """Return the running part of a job: how work units are executed."""
    job, execution = values.section(JobSection), values.section(ExecutionSection)
    most, progress = execution.memory_bytes, values.section(ProgressSection)
    if most and most < _LEAST_MEMORY:
        what = f"is {most:,}; a worker uses most of that before it reads anything"
        findings.problem(_MEMORY, what, f"Write {_LEAST_MEMORY} or more, or 0 for no limit.")
    page_commit_s = None if progress.commit == "unit" else progress.commit_s
    return RunningSpec(
        commit_policy=_commit_policy(values, findings),
        max_retries=execution.max_retries,
        retry_interval_s=execution.retry_interval_s,
        threads=execution.threads,
        lease_s=job.lease_s,
        disabled=job.is_disabled,
        plugin_path=plugin_folders,
        page_commit_s=0 if resumes(values) else page_commit_s,
    )


def _commit_policy(values: Properties, findings: Findings) -> CommitPolicy:
    """Return the commit policy: the effect of a failed work unit on the others.

    If tasks publish by themselves (rule U11), each task that succeeds is published. Here the run
    publishes them together at its end, so that readers see all their rows at once.
    """
    policy = values.section(ExecutionSection).commit_policy
    if policy == "partial":
        findings.notice(_COMMIT_POLICY, 'is "partial"', "Write successful; it means the same.")
    publishing = values.section(PublishingSection)
    if publishing.is_at_job_level:
        return CommitPolicy.FULL if policy == "full" else CommitPolicy.SUCCESSFUL
    if publishing.replaces:
        findings.problem(
            AT_JOB_LEVEL,
            f"is false, and {REPLACES} is true: each task would remove the rows that other tasks "
            "published",
            "Leave one of them out.",
        )
    else:
        findings.notice(
            AT_JOB_LEVEL,
            "is false: the run publishes work units that succeed even if others fail, all at its "
            "end",
            "Write job.commit.policy=successful; it means the same here.",
        )
    return CommitPolicy.SUCCESSFUL
