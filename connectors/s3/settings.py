"""The job's settings of S3, read once for each attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.files.names import reads_one_file
from connectors.s3.section import S3Section, S3Settings
from dil.model.job import Job
from dil.model.secret import Secret
from dil.model.settings import TlsSettings
from dil.sections.source import SourceSection


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The connector's view of a job; ``proxy`` is an address, empty for none."""

    job: Job
    s3: S3Settings = field(default_factory=S3Settings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    key: Secret | None = None
    secret: Secret | None = None
    proxy: str = ""
    list_keys: int = 1000
    reads_one: bool = False

    @classmethod
    def of(cls, job: Job) -> JobSettings:
        """Return the settings of a parsed job."""
        properties = job.properties
        s3, source = properties.section(S3Section), properties.section(SourceSection)
        return cls(
            job,
            s3.parameters,
            source.tls,
            job.source.username,
            job.source.password,
            proxy=source.proxy,
            list_keys=s3.list_keys,
            reads_one=reads_one_file(properties),
        )
