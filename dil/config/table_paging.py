"""The property table: parameters, paging and sessions."""

from __future__ import annotations

from dil.config.property import Group, Property, Scope, ValueType

PAGING = Group(
    "paging",
    "Parameters, paging and sessions",
    (
        Property(
            "ms.parameters",
            ValueType.JSON_ARRAY,
            "Request parameters in order; each is a variable as well. Names that start with `tmp` "
            "are never sent.",
            variables=True,
            hidden_members="values of type list",
            scope=Scope.TASK,
        ),
        Property(
            "ms.pagination",
            ValueType.JSON_OBJECT,
            "How pages are walked: by page values, by an address of the next page or a flag that "
            "responses hold; and what ends a walk at the latest.",
            scope=Scope.TASK,
        ),
        Property(
            "ms.session.key.field",
            ValueType.JSON_OBJECT,
            "Header or path of a cursor or status: `name`, `initValue`, `condition` (done), "
            "`failCondition` (failed).",
            scope=Scope.TASK,
        ),
        Property(
            "ms.total.count.field",
            ValueType.STRING,
            "Where the response tells the total number of rows: a path, or `header:<name>`.",
            scope=Scope.TASK,
        ),
        Property(
            "ms.call.interval.millis",
            ValueType.LONG,
            "Least time between the starts of two requests of a work unit.",
            default="0",
            low=0,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.wait.timeout.seconds",
            ValueType.LONG,
            "How long a session may take to meet its condition.",
            default="600",
            low=0,
            high=86400,
            scope=Scope.TASK,
            identity=False,
        ),
        Property(
            "ms.state.cursor.commit.seconds",
            ValueType.LONG,
            "With `ms.state.cursor.commit` page: how many seconds of work lie between two savings "
            "of progress inside a work unit; 0 saves after every page.",
            default="1",
            low=0,
            high=86400,
            scope=Scope.TASK,
            identity=False,
        ),
    ),
)
