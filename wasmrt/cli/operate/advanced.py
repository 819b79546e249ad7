"""`wasmrt advanced`: the commands that few users need."""

from __future__ import annotations

from copy import copy

import click

from wasmrt.cli.grant.caps import caps
from wasmrt.cli.operate.audit import audit
from wasmrt.cli.shared.groups import LazyGroup
from wasmrt.cli.shared.root import HIDDEN

_PARTS = {"audit-head": (audit, "head"), "caps-fmt": (caps, "fmt"), "caps-schema": (caps, "schema")}


@click.group("advanced", cls=LazyGroup, modules={name: f"wasmrt.cli.operate.{name}" for name in HIDDEN})
def advanced() -> None:
    """Use the commands that few users need.

    \b
    Examples:
      wasmrt advanced verify
      wasmrt advanced leaks scan notes.txt
    """


for _name, (_group, _command) in _PARTS.items():
    _shown = copy(_group.commands[_command])
    _shown.hidden = False
    advanced.add_command(_shown, _name)
