"""Keys of Gobblin, its launchers and metrics: real job files set them, without effect here.

Source: Gobblin's ``ConfigurationKeys`` and the ``.pull`` files of LinkedIn's DIL. These keys steer
how Gobblin runs a job, not which rows Gobblin writes. Keys that decide about the rows stay unknown,
so that a warning names them.
"""

from __future__ import annotations

# Prefixes of keys that belong to a part of Gobblin, Azkaban, Kafka or the JVM.
_PARTS = (
    "admin.",
    "azkaban.",
    "email.",
    "fork.",
    "gobblin.",
    "job.commit.parallel",
    "job.lock.",
    "jobconf.",
    "jobexecutor.",
    "kafka.schemaRegistry.",
    "metrics.",
    "mr.",
    "scheduler.",
    "task.execution.",
    "task.state.collector.",
    "taskretry.",
    "tasktracker.",
    "yarn.",
)
OF_GOBBLIN = frozenset(
    {
        "Xms",
        "Xmx",
        "bootstrap.servers",
        "cleanup.old.job.data",
        "cleanup.staging.data.by.initializer",
        "cleanup.staging.data.per.task",
        "data.publisher.canBeSkipped",
        "data.publisher.extract.type",
        "data.publisher.final.name",
        "data.publisher.metadata.output.dir",
        "data.publisher.overwrite.enabled",
        "event.metadata.generator.class",
        "job.class",
        "job.config.path",
        "job.dependencies",
        "job.hdfs.files",
        "job.hdfs.jars",
        "job.jars",
        "job.jars.uploading.retry.maximum",
        "job.listeners",
        "job.local.files",
        "job.max.failures",
        "job.retriggering.enabled",
        "job.tag",
        "job.tracking.url",
        "key.serializer",
        "launcher.type",
        "overwrite.configs.in.statestore",
        "retention.job.class",
        "source.max.number.of.partitions",
        "state.store.compress.values",
        "state.store.db.conn.min.evictable.idle.time",
        "state.store.factory.class",
        "task.ignoreCloseFailures",
        "task.status.reportintervalinms",
        "task.timeout.seconds",
        "taskexecutor.threadpool.maxsize",
        "user.to.proxy",
        "value.serializer",
        "workunit.creation.and.run.interval",
        "workunit.enableTrackingLogs",
        "writer.addTaskTimestamp",
        "writer.eager.initialization",
        "writer.group.name",
        "writer.preserve.file.name",
    }
)


def is_of_gobblin(key: str) -> bool:
    """Return whether a key belongs to Gobblin and has no meaning here.

    >>> is_of_gobblin("launcher.type"), is_of_gobblin("metrics.log.dir"), is_of_gobblin("writer.x")
    (True, True, False)
    """
    return key in OF_GOBBLIN or key.startswith(_PARTS)
