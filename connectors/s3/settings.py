"""What the job says about S3, read once for each attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.files.names import reads_one_file
from dil.model.job import Job
from dil.model.s3_settings import S3Settings
from dil.model.secret import Secret
from dil.model.settings import TlsSettings
from dil.spi.source import SourceSection


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
        """Read the properties of B13.2 from a parsed job."""
        properties = job.properties
        source = properties.section(SourceSection)
        return cls(
            job,
            properties.typed("ms.source.s3.parameters", S3Settings),
            source.tls,
            job.source.username,
            job.source.password,
            proxy=source.proxy,
            list_keys=properties.integer("ms.s3.list.max.keys"),
            reads_one=reads_one_file(properties),
        )
