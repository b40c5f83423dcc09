"""The job's settings of SFTP, read once for each attempt."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.files.names import reads_one_file
from connectors.sftp.address import SftpHost
from connectors.sftp.section import SftpSection
from dil.model.job import Job
from dil.model.properties import Properties
from dil.model.secret import Secret
from dil.sections.source import SourceSection


@dataclass(frozen=True, slots=True)
class HostKeyRules:
    """The rules for checking that a server is the intended one.

    ``known_hosts`` is a file in OpenSSH's form; empty means the file of the user who runs the task.
    """

    checks: bool = True
    known_hosts: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class SftpSettings:
    """The connector's view of a job; ``proxy`` is a URL, empty without a proxy.

    A ``timeout_s`` of None means to wait for ever.
    """

    job: Job
    default: SftpHost
    password: Secret | None = None
    private_key: Secret | None = None
    passphrase: Secret | None = None
    host_keys: HostKeyRules = HostKeyRules()
    timeout_s: float | None = 60.0
    proxy: str = ""
    reads_one: bool = False

    @classmethod
    def of(cls, job: Job) -> SftpSettings:
        """Return the settings of a parsed job."""
        properties = job.properties
        sftp, source = properties.section(SftpSection), properties.section(SourceSection)
        return cls(
            job,
            default_server(properties),
            password=job.source.password,
            private_key=sftp.private_key,
            passphrase=sftp.passphrase,
            host_keys=HostKeyRules(sftp.checks_host_key, sftp.known_hosts, sftp.fingerprint),
            timeout_s=sftp.timeout_ms / 1000 if sftp.timeout_ms else None,
            proxy=source.proxy,
            reads_one=reads_one_file(properties),
        )


def default_server(properties: Properties) -> SftpHost:
    """Return the server to use if ``ms.source.uri`` names none."""
    sftp, user = properties.section(SftpSection), properties.section(SourceSection).username
    return SftpHost(sftp.host, sftp.port, user.reveal() if user else "")
