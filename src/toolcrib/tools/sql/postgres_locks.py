"""Which tables and views a transaction has touched, by the locks that it holds.

A plan shows neither the views it was made from, nor the parents of partitions, nor what a
function reads. PostgreSQL locks each of them until the transaction ends.
"""

from __future__ import annotations

from typing import Any

from toolcrib.errors import Denial
from toolcrib.tools.sql.policy import SqlPolicy

# By functions only, and with operators of fixed schemas: asking takes no lock itself, and a search
# path that a statement has changed does not change the question. 1259 is pg_class.
_LOCKED = """
SELECT DISTINCT named.type, named.object_names[1], named.object_names[2]
FROM pg_catalog.pg_lock_status() AS held,
    LATERAL pg_catalog.pg_identify_object_as_address(1259, held.relation, 0) AS named
WHERE held.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
    AND held.locktype OPERATOR(pg_catalog.=) 'relation'
"""
_PARTS = frozenset({"index", "toast table"})
"""They are locked together with the tables that they belong to."""


async def check_locks(connection: Any, policy: SqlPolicy) -> None:
    """Refuse a transaction that has touched what the policy does not allow."""
    found = sorted(tuple(row) for row in await connection.fetch(_LOCKED))
    for kind, schema, name in found:
        if kind in _PARTS:
            continue
        # What numbers the rows of an allowed table need not be listed itself.
        wrong = (
            policy.denies_table(name, schema)
            if kind == "sequence"
            else not policy.allows_table(name, schema)
        )
        if wrong:
            raise Denial("table_not_allowed", f"the {kind} {schema}.{name} is not allowed")
