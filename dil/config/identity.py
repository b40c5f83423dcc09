"""The properties that name a job and its dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from dil.model.job import TableType
from dil.model.section import (
    ONE_OF,
    Bool,
    Int,
    PathText,
    Reported,
    Section,
    Text,
    Texts,
    ValueType,
    Written,
    Zone,
    internal,
    no_effect,
    prop,
)
from dil.spi.registry import PluginKind, known_name

CLASS, NAMESPACE, TABLE_NAME = "source.class", "extract.namespace", "extract.table.name"
TABLE_TYPE = "extract.table.type"
KEYS, DELTAS = "extract.primary.key.fields", "extract.delta.fields"
NAME, TEMPLATE, PLUGIN_PATH = "job.name", "job.template", "ms.plugin.path"
_Connector = Annotated[str, Written(ValueType.CLASS, plugin=PluginKind.CONNECTOR)]


@dataclass(frozen=True, slots=True)
class JobSection(Section):
    """The name of a job, its connector, and properties of the launcher."""

    source_class: _Connector = prop(
        CLASS,
        "The connector: a short name such as `http`, a Java name of DIL's, or "
        "`package.module:Class`.",
        default="",
        example="http",
        required=True,
    )
    name: Text = prop(
        NAME,
        "Name of the job, and the key of all its state: a renamed job starts "
        "from scratch. Letters, digits, dot, dash, underscore, and single blanks between them.",
        default="",
        example="orders",
        required=True,
        identity=False,
    )
    group: Text = no_effect("job.group", "Label for people.", reported=Reported.NEVER)
    description: Text = no_effect(
        "job.description", "Free text for people.", reported=Reported.NEVER
    )
    folder: Text = no_effect(
        "job.dir",
        "A folder to be used as `${job.dir}` in other properties.",
        reported=Reported.NEVER,
    )
    schedule: Text = no_effect(
        "job.schedule",
        "Cron text of Gobblin's scheduler; start the job from cron or a workflow tool.",
        reported=Reported.ALONE,
    )
    runs_once: Bool = no_effect(
        "job.runonce", "Belongs to Gobblin's scheduler; here each run happens once.", default=False
    )
    is_disabled: Bool = prop(
        "job.disabled",
        "If true, a run does nothing and ends with success.",
        default=False,
        identity=False,
    )
    locks: Bool = no_effect(
        "job.lock.enabled",
        "Gobblin's switch. One run of the job is active at a time, always: the lease cannot be "
        "switched off.",
        default=True,
        reported=Reported.ALONE,
    )
    lease_s: Annotated[Int, Ge(1)] = prop(
        "ms.lease.seconds",
        "How long a run on another host keeps the job's lease after its last sign of life.",
        default=60,
        identity=False,
    )
    template: PathText = prop(
        TEMPLATE,
        "File of properties that apply unless the job, or a file that it inherits or includes, "
        "sets them. A relative path, or the path after `resource:///`, is looked for in the folder "
        "of the job file, then in the folders of `ms.plugin.path`. A template may inherit another "
        "template by `gobblin.template.inherit`, and list the keys that a job has to set in "
        "`gobblin.template.required_attributes`.",
        default="",
        example="resource:///templates/orders.template",
        identity=False,
    )
    plugin_path: Texts = prop(
        PLUGIN_PATH,
        "Folders, comma separated, in which classes of your own are looked for after the "
        "installed packages and the job file's folder.",
        default=(),
        identity=False,
    )

    @property
    def connector(self) -> str:
        """Return the short name of a built-in connector, any other value as it is written."""
        return known_name(PluginKind.CONNECTOR, self.source_class)


@dataclass(frozen=True, slots=True)
class DatasetSection(Section):
    """The name of a dataset, its load type, and the columns that distinguish its rows."""

    namespace: Text = prop(
        NAMESPACE,
        "Name space of the Avro record, separated by dots; with slashes in place of the dots, also "
        "a part of the output folder.",
        default="",
        example="com.acme.crm",
    )
    table: Text = prop(
        TABLE_NAME,
        "Name of the dataset, of its folder and of the Avro record.",
        default="",
        example="orders",
        required=True,
    )
    table_type: Annotated[TableType, ONE_OF] = prop(
        TABLE_TYPE,
        "SNAPSHOT_ONLY reads the whole dataset, APPEND_ONLY new rows, and SNAPSHOT_APPEND new "
        "versions of rows. If `ms.publish.mode` is not set, this property chooses the mode of "
        "tables and warehouses. A job that publishes plain files reads each work unit once, "
        "whatever this property says, unless `ms.publish.mode` is replace.",
        default=TableType.SNAPSHOT_ONLY,
    )
    is_full: Bool = prop(
        "extract.is.full",
        "Asks for a full extract; planning decides whether a run is a full extract (which chooses "
        "the element of a list parameter "
        "with two values, and the suffix of the output folder).",
        default=False,
    )
    primary_keys: Texts = prop(
        KEYS,
        "Columns that identify a row. If there are neither rows nor a schema, they become columns "
        "of text.",
        default=(),
        example="id",
    )
    delta_fields: Texts = prop(
        DELTAS,
        "Columns that order the versions of a row. If there are neither rows nor a schema, they "
        "become timestamps.",
        default=(),
        example="updated_at",
    )
    extract_id_zone: Zone = prop(
        "extract.extractIdTimeZone",
        "Zone of the extract id (`yyyyMMddHHmmss`) in the default output folder.",
        default="UTC",
    )
    urn: Text = internal("dataset.urn", "The work unit's signature as stored.", default="")
