"""The property table: source and connection."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, Support, ValueType

_DEFAULT_FACTORY = "com.linkedin.cdi.factory.DefaultConnectionClientFactory"

SOURCE = Group(
    "source",
    "Source and connection",
    (
        Property(
            "ms.source.uri",
            ValueType.URI_TEMPLATE,
            "Where the data is, for HTTP `https://host/path?query`. Values put in for `{{name}}` "
            "are URL-encoded.",
            required=True,
            variables=True,
            scope=Scope.TASK,
        ),
        Property(
            "ms.connection.client.factory",
            ValueType.ENUM,
            "DIL's class that makes clients. Both are taken; `ms.ssl` alone tells whether there is "
            "a client certificate.",
            default=_DEFAULT_FACTORY,
            words=(
                _DEFAULT_FACTORY,
                "DefaultConnectionClientFactory",
                "com.linkedin.cdi.factory.SecureConnectionClientFactory",
                "SecureConnectionClientFactory",
            ),
            scope=Scope.TASK,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "source.conn.username",
            ValueType.STRING,
            "User name, for `ms.authentication` without a token.",
            secret=True,
            scope=Scope.TASK,
        ),
        Property(
            "source.conn.password",
            ValueType.STRING,
            "Password that goes with the user name.",
            secret=True,
            scope=Scope.TASK,
        ),
        Property(
            "source.conn.use.proxy.url",
            ValueType.STRING,
            "Host of the proxy; used when the port is given as well.",
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "source.conn.use.proxy.port",
            ValueType.INT,
            "Port of the proxy, -1 for none.",
            default="-1",
            low=-1,
            high=65535,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.ssl",
            ValueType.JSON_OBJECT,
            "Client certificate, trust store, least version of TLS, and the time-outs of every "
            "HTTP client (`connectionTimeoutSeconds`, `socketTimeoutSeconds`, 60 each). Host names "
            "are always verified.",
            hidden_members="the four passwords",
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "source.conn.host",
            ValueType.STRING,
            "Host of an SFTP source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.conn.port",
            ValueType.INT,
            "Port of an SFTP source.",
            default="22",
            low=1,
            high=65535,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.conn.private.key",
            ValueType.STRING,
            "Private key file of an SFTP source.",
            secret=True,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.conn.known.hosts",
            ValueType.STRING,
            "Known hosts file of an SFTP source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "source.filebased.fs.uri",
            ValueType.FILE_SYSTEM,
            "File system of an HDFS source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.source.files.pattern",
            ValueType.REGEX,
            "Keeps the listed objects (S3) or files (SFTP) whose whole path matches.",
            default=".*",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.jdbc.statement",
            ValueType.STRING,
            "SQL of a database source.",
            variables=True,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.jdbc.schema.refactor",
            ValueType.ENUM,
            "Letter case of the column names of a database source.",
            default="none",
            words=("none", "toupper", "tolower"),
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.source.s3.parameters",
            ValueType.JSON_OBJECT,
            "Region, bucket, endpoint and time-outs of an S3 source.",
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.s3.list.max.keys",
            ValueType.INT,
            "Keys asked for per list call of an S3 source; all pages are read.",
            default="1000",
            low=1,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
        Property(
            "ms.sftp.conn.timeout.millis",
            ValueType.INT,
            "Time-out of an SFTP source, 0 for none.",
            default="60000",
            low=0,
            scope=Scope.TASK,
            support=Support.LATER,
        ),
    ),
)
