"""The host's side of a prepared component, shared by all calls of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wasmrt.call._state import Backends
from wasmrt.capabilities import Capabilities
from wasmrt.component import ToolSpec
from wasmrt.guest.runner import GuestComponent
from wasmrt.limits import ResourceLimits

if TYPE_CHECKING:
    from wasmrt.schema import Validator


class CallTarget:
    """A linked component under a grant, by the name that it was prepared under."""

    def __init__(
        self, name: str, digest: str, component: GuestComponent, grant: Capabilities, backends: Backends
    ) -> None:
        self.name = name
        self.digest = digest
        self.component = component
        self.grant = grant
        self.backends = backends
        self._validators: dict[str, Validator] = {}
        self._lock = threading.Lock()

    @property
    def limits(self) -> ResourceLimits:
        return self.component.limits

    @property
    def specs(self) -> dict[str, ToolSpec]:
        """Its tools by name."""
        return self.component.description.specs

    def validator(self, tool: str) -> Validator:
        """Return the compiled schema of a tool, built when first needed."""
        from wasmrt.schema import Validator  # see `GuestComponent.checks_params`

        validator = self._validators.get(tool)
        if validator is None:
            with self._lock:
                validator = self._validators.setdefault(tool, Validator(self.specs[tool].schema))
        return validator
