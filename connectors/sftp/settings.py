"""What the job says about SFTP, read once for each attempt."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.files.names import reads_one_file
from connectors.sftp.address import Server
from dil.model.job import Job
from dil.model.properties import Properties
from dil.model.secret import Secret


@dataclass(frozen=True, slots=True)
class HostKeyRules:
    """How a server shows that it is the one that is meant.

    ``known_hosts`` is a file of OpenSSH's form, empty for that of the user who runs the task.
    """

    checks: bool = True
    known_hosts: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class SftpSettings:
    """The connector's view of a job; ``proxy`` is host and port, None for none.

    ``timeout_s`` None waits for ever.
    """

    job: Job
    default: Server
    password: Secret | None = None
    private_key: Secret | None = None
    passphrase: Secret | None = None
    host_keys: HostKeyRules = HostKeyRules()
    timeout_s: float | None = 60.0
    proxy: tuple[str, int] | None = None
    reads_one: bool = False

    @classmethod
    def of(cls, job: Job) -> SftpSettings:
        """Read the properties of B13.3 from a parsed job."""
        properties = job.properties
        millis = properties.integer("ms.sftp.conn.timeout.millis")
        host = properties.text("source.conn.use.proxy.url").rpartition("://")[2].strip("/")
        port = properties.integer("source.conn.use.proxy.port")
        return cls(
            job,
            default_server(properties),
            password=job.source.password,
            private_key=properties.secret("source.conn.private.key"),
            passphrase=properties.secret("ms.sftp.private.key.passphrase"),
            host_keys=HostKeyRules(
                properties.boolean("ms.sftp.host.key.check"),
                properties.text("source.conn.known.hosts"),
                properties.text("ms.sftp.host.key.fingerprint"),
            ),
            timeout_s=millis / 1000 if millis else None,
            proxy=(host, port) if host and port > 0 else None,
            reads_one=reads_one_file(properties),
        )


def default_server(properties: Properties) -> Server:
    """Return the server where ``ms.source.uri`` names none."""
    user = properties.secret("source.conn.username")
    return Server(
        properties.text("source.conn.host"),
        properties.integer("source.conn.port"),
        user.reveal() if user else "",
    )
