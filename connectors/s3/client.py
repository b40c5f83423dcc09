"""Makes clients of botocore with the job's credentials, proxy, time-outs and signing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config

from connectors.s3.address import S3Service, is_of_aws
from connectors.s3.section import S3Section, S3Settings
from dil import __version__
from dil.model.job import Job
from dil.model.secret import Secret
from dil.model.settings import TlsSettings
from dil.sections.source import SourceSection
from dil.storage.s3.client import models, repeat_torn_answers

_SECONDS = 60  # A request without a time-out could block a task for ever.


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The connector's view of a job; ``proxy`` is an address, empty for none."""

    job: Job
    s3: S3Settings
    tls: TlsSettings
    key: Secret | None
    secret: Secret | None
    proxy: str
    list_keys: int

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
        )


def make_client(settings: JobSettings, service: S3Service) -> Any:  # no types
    """Return a client of a service; it sends nothing yet.

    The client tries a request up to three times. It ignores the environment's proxies. If the job
    names no endpoint but the environment does, the client uses that endpoint; the bucket is then in
    the path unless the job says otherwise.
    """
    client = _client(settings, service, by_path=service.path_style)
    if service.path_style or settings.s3.path_style is not None:
        return client
    if is_of_aws(client.meta.endpoint_url.partition("://")[2]):
        return client
    return _client(settings, service, by_path=True)


def _client(settings: JobSettings, service: S3Service, *, by_path: bool) -> Any:
    s3 = settings.s3
    signs = settings.key or settings.secret or s3.credentials == "default"
    connect_s = s3.connect_timeout_s or s3.connect_timeout_old_s or _SECONDS
    session = botocore.session.Session()
    session.register_component("data_loader", models())
    client = session.create_client(
        "s3",
        region_name=service.region,
        endpoint_url=service.endpoint or None,
        verify=settings.tls.trust_store_path or None,
        config=Config(
            signature_version=None if signs else UNSIGNED,
            # In this library these are also the seconds for each send.
            connect_timeout=max(connect_s, s3.write_timeout_s or 0),
            read_timeout=s3.read_timeout_s or _SECONDS,
            proxies={"http": settings.proxy, "https": settings.proxy} if settings.proxy else {},
            retries={"total_max_attempts": 3, "mode": "standard"},
            s3={"addressing_style": "path" if by_path else "virtual"},
            user_agent_extra=f"dil-spark/{__version__}",
            # Each upload carries its MD5, which every service compares.
            request_checksum_calculation="when_required",
        ),
        **_credentials(settings),
    )
    repeat_torn_answers(client)
    return client


def _credentials(settings: JobSettings) -> dict[str, str]:
    """Return the job's own credentials; empty for AWS's default chain and unsigned requests."""
    if not (settings.key or settings.secret):
        return {}
    found = {
        "aws_access_key_id": settings.key.reveal() if settings.key else "",
        "aws_secret_access_key": settings.secret.reveal() if settings.secret else "",
    }
    token = settings.s3.session_token
    return {**found, "aws_session_token": token.reveal()} if token else found
