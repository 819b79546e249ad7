"""HostTool: a tool that cannot be a component, because it works on wasmrt itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from wasmrt.core.component_bytes import digest_of
from wasmrt.core.effects import Effect
from wasmrt.core.errors import NotAuthorizedError
from wasmrt.core.model import Decision, Reason, ToolOutput
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import NO_TERMS, OwnTerms, Traits
from wasmrt.core.version import VERSION
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.schema import Validator

Params = Mapping[str, Any]
_PLANNED_SECONDS = 180.0
"""Time limit of a planned change, which may compile a large component."""


class Plan(NamedTuple):
    """A planned change."""

    shown: str
    """A description of the change for the approver, with digests of everything that the change depends on."""
    apply: Callable[[ToolContext], Any]
    """Makes exactly this change, and returns JSON data."""


def trust_none(_: Any) -> bool:
    """Return True, for tools whose results always contain untrusted text."""
    return True


@dataclass(eq=False)
class HostTool(ToolDefaults):
    """A tool that calls a function with the params and the context of a call.

    Attributes:
        properties: JSON Schemas of the params; `required` has the names of the required ones.
        run: Executes a call. It returns JSON data, or a `ToolOutput` to set labels.
        plan: Used instead of `run` by tools that change the agent's tools or skills: an approver sees the plan of every
            call, and exactly that plan is applied. A remembered approval, a confirmation token or a rule does not
            replace this approval.
        effects: Reading wasmrt's own folders is not an effect, because only this installation writes to these folders.
        approval: True if every call requires approval, regardless of the operator's rules.
        decide: Returns a refusal of the params, or None. Called before an approval is requested.
        command: Returns the command line that does the same as the call.
        untrusted: Returns whether a result contains untrusted text. Called with None, returns whether any result can
            contain it.
        versioned: True if an approval may be remembered until wasmrt or the schema changes.
    """

    name: str
    description: str
    properties: InitVar[Mapping[str, Mapping[str, Any]]]
    run: Callable[[Params, ToolContext], Any] | None = None
    _: KW_ONLY
    plan: Callable[[Params], Plan] | None = None
    required: InitVar[Iterable[str]] = ()
    effects: InitVar[Iterable[Effect]] = ()
    approval: bool = False
    decide: Callable[[Params], Decision | None] | None = None
    command: Callable[[Params], str] | None = None
    untrusted: Callable[[Any], bool] | None = None
    versioned: InitVar[bool] = False
    in_programs: bool = True
    destinations: tuple[str, ...] | None = ()
    own: OwnTerms = NO_TERMS
    timeout_seconds: float = ToolDefaults.timeout_seconds
    schema: dict[str, Any] = field(init=False)
    traits: Traits = field(init=False)

    def __post_init__(
        self,
        properties: Mapping[str, Mapping[str, Any]],
        required: Iterable[str],
        effects: Iterable[Effect],
        versioned: bool,
    ) -> None:
        assert (self.run is None) != (self.plan is None)
        self.schema = {
            "type": "object",
            "properties": {key: dict(value) for key, value in properties.items()},
            "required": list(required),
            "additionalProperties": False,
        }
        self.traits = Traits.of(effects)
        if versioned:
            self.digest = digest_of(f"{self.name}\n{VERSION}\n{self.schema}".encode())
        if self.plan is not None:
            self.approval, self.timeout_seconds = True, _PLANNED_SECONDS

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.schema)

    def requires_approval(self, params: Any) -> bool:
        """Return whether every call requires approval."""
        return self.approval

    def check(self, params: Any) -> Decision | None:
        """Return a refusal of the params, or None."""
        return None if self.decide is None else self.decide(params)

    def preview(self, params: Any, context: ToolContext) -> str | None:
        """Return a description of the planned change for the approver, or None."""
        return None if self.plan is None else self.plan(params).shown

    def manual_command(self, params: Any) -> str:
        """Return the command line that does the same as the call, or an empty string."""
        return "" if self.command is None else self.command(params)

    def untrusted_result(self, result: Any) -> bool:
        """Return whether `result` contains untrusted text; if it is None, whether any result of the tool may."""
        return self.untrusted is not None and self.untrusted(result)

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput:
        """Run the tool.

        Raises:
            WasmrtError: the params are invalid, or the call was refused or failed.
        """
        started, context = time.monotonic(), context or ToolContext()
        params = self._validator.accept(params)
        if self.plan is not None:
            plan = self.plan(params)
            self._check_shown(plan, params, context)
            result = plan.apply(context)
        else:
            assert self.run is not None
            result = self.run(params, context)
        output = result if isinstance(result, ToolOutput) else ToolOutput(result=result)
        return output._replace(duration=round(time.monotonic() - started, 6))

    def _check_shown(self, plan: Plan, params: Params, context: ToolContext) -> None:
        """Check that the approver of this call saw exactly this plan.

        SECURITY: an approval covers only the shown plan, and a source may have changed since then.
        """
        if context.shown == plan.shown:
            return
        rule = "no approver saw what this call does" if context.shown is None else "what was shown has changed since"
        hint = f"call again, or run it yourself: {self.manual_command(params)}"
        decision = Decision(False, Reason.APPROVAL_REQUIRED, rule, hint, "tool.approval", self.name)
        raise NotAuthorizedError.of(decision, code="not-shown")
