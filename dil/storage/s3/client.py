"""A botocore client with the settings of the AWS tools: credentials, region, endpoint, profile."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from dil import __version__
from dil.errors import WriteError
from dil.storage.s3.torn_answers import repeat_torn_answers

# Seconds. A request without a time-out could block a task for ever.
_CONNECT, _READ = 20, 120
_AWS = re.compile(r"https?://(?:[^/]*\.)?amazonaws\.com(?:\.cn)?(?::\d+)?/?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class S3Connection:
    """A client, and the session whose credentials the client uses."""

    session: Any
    client: Any

    @property
    def is_by_host(self) -> bool:
        """Return whether the settings put the bucket into the host name of addresses."""
        return (self.client.meta.config.s3 or {}).get("addressing_style") == "virtual"

    def client_in(self, region: str) -> Any:
        """Return a client of another region."""
        return _client(self.session, {}, region)


def connect() -> S3Connection:
    """Return the client of this process; services other than AWS get the bucket in the path.

    No request is sent yet. The tasks of one process share the client and its open connections.

    Raises:
        WriteError: the client library is not installed, or its configuration cannot be used.
    """
    environ = os.environ  # noqa: TID251 - variables that botocore reads
    given = sorted(each for each in environ.items() if each[0].startswith("AWS_"))
    places = (
        environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    return _connected(os.getpid(), tuple(given), tuple(map(_changed_at, places)))


def _changed_at(place: str) -> int:
    """Return when a settings file last changed, in ns: another program may renew the file."""
    try:
        return Path(place).expanduser().stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _connected(*state: object) -> S3Connection:
    """Return a new client; clients are cached for each process and each state of the settings."""
    del state
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError as error:
        raise WriteError(
            "a place on S3 needs botocore, which is not installed",
            "Install it on every machine that runs tasks: pip install 'dil-spark[s3]'.",
        ) from error
    try:
        session = botocore.session.Session()
        session.register_component("data_loader", _models())
        client = _client(session, {})
        asked = (session.get_scoped_config().get("s3") or {}).get("addressing_style")
        if not asked and not is_of_aws(client):
            client = _client(session, {"addressing_style": "path"})
        return S3Connection(session, client)
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise WriteError(
            f"the client of S3 cannot be created: {error}",
            "Check the AWS_ variables of the environment and ~/.aws/config.",
        ) from error


def is_of_aws(client: Any) -> bool:  # botocore has no types
    """Return whether a client connects to AWS itself."""
    return _AWS.fullmatch(client.meta.endpoint_url) is not None


def _client(session: Any, s3: dict[str, str], region: str | None = None) -> Any:
    from botocore.config import Config

    client = session.create_client(
        "s3",
        region_name=region,
        config=Config(
            connect_timeout=_CONNECT,
            read_timeout=_READ,
            retries={"total_max_attempts": 4, "mode": "standard"},
            s3=s3,
            user_agent_extra=f"dil-spark/{__version__}",
            # Requests carry the MD5 of their data, which every service compares.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    repeat_torn_answers(client)
    return client


@cache
def _models() -> Any:
    """Return the loader of the library's description of S3; cached, because it takes 0.1 s."""
    from botocore.loaders import create_loader

    return create_loader()
