"""Chains of derived datasets on a server, and inputs of another store than the dataset's own."""

from __future__ import annotations

import json
from collections import Counter
from urllib.parse import quote

import pytest

from tests.derived import Lake
from tests.servers.postgresql import PASSWORD

BIG = "SELECT id, amount FROM orders WHERE amount >= 50"


@pytest.mark.parametrize("place", ["the dataset", "the input"])
def test_a_chain_on_a_server_is_derived_or_is_read(tmp_path, postgresql_server, place):
    lake = Lake(tmp_path)
    plain = postgresql_server.add_database(f"derived_{place.rpartition(' ')[2]}")
    url = plain.replace("://", f"://admin:{quote(PASSWORD, safe='')}@", 1)
    state = {"state.store.type": "postgresql", "state.store.db.url": url}
    if place == "the input":
        lake.orders.write_text(
            lake.orders.read_text() + "".join(f"{key}={text}\n" for key, text in state.items())
        )
        inputs = [{"dataset": "orders", "as": "orders",
                   "state.store": {"type": "postgresql", "url": url}}]  # fmt: skip
        big = lake.derive("big", BIG, ms__query__inputs=json.dumps(inputs))
    else:
        changes = {key.replace(".", "__"): text for key, text in state.items()}
        big = lake.derive("big", BIG, **changes)
    for start in (0, 10):
        lake.feed(*range(start, start + 10))
        lake.run(big)

    assert lake.ids("big") == Counter(range(5, 20))
    assert lake.run(big).status == "nothing_due"
    assert lake.verify(big).problems == ()
