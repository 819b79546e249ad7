"""The hosts to which calls of a tool were approved before, so that an approver sees the first request to a host."""

from __future__ import annotations

import json
from collections.abc import Iterable

from blake3 import blake3

from wasmrt.agent.approvals._model import ApprovalRequest
from wasmrt.agent.approvals._targets import network_hosts
from wasmrt.core.database import Store
from wasmrt.core.limits import MAX_KNOWN_HOSTS

_COUNT = "SELECT count(*) FROM counter WHERE name LIKE 'host %'"


class KnownHosts:
    """Counters in the approvals database, one for each user, tool and host.

    The names of the counters are digests. The database does not keep the parameters of answered requests, and must
    therefore not keep the hosts in these parameters either.
    """

    def __init__(self, database: Store) -> None:
        self._database = database

    def find_new(self, request: ApprovalRequest) -> tuple[str, ...]:
        """Return the hosts of a call to which no call of this tool and user was approved before.

        Raises:
            ApprovalError: the database cannot be read.
        """
        hosts = network_hosts(request.params, request.effects)
        if not hosts or not self._database.exists:
            return hosts
        with self._database.reading() as db:
            known = "SELECT 1 FROM counter WHERE name = ?"
            return tuple(
                host for host in hosts if db.execute(known, (_get_entry_name(request, host),)).fetchone() is None
            )

    def add(self, request: ApprovalRequest, hosts: Iterable[str]) -> None:
        """Record that a call to these hosts was approved. If too many hosts are known, no other host becomes known.

        Raises:
            ApprovalError: the database cannot be written.
        """
        with self._database.writing() as db:
            for host in hosts:
                if db.execute(_COUNT).fetchone()[0] < MAX_KNOWN_HOSTS:
                    db.execute(
                        "INSERT INTO counter VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value = counter.value + 1",
                        (_get_entry_name(request, host),),
                    )


def _get_entry_name(request: ApprovalRequest, host: str) -> str:
    return f"host {blake3(json.dumps([request.user, request.tool, host]).encode()).hexdigest()}"
