"""HostTool: one of the agent's own tools that cannot be a component, since it works on wasmrt itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from wasmrt.core.effects import Effect
from wasmrt.core.errors import NotAuthorizedError
from wasmrt.core.model import Decision, Reason, ToolOutput
from wasmrt.core.traits import ToolDefaults, Traits
from wasmrt.runtime.context import ToolContext

Params = Mapping[str, Any]


class Plan(NamedTuple):
    """A change before it is made."""

    shown: str
    """The change in lines for a person, with digests of all that it depends on."""
    apply: Callable[[ToolContext], Any]
    """Makes exactly this change, and returns JSON data."""


class HostTool(ToolDefaults):
    """A tool around a function of params and the circumstances of the call, which returns JSON data.

    Args:
        run: Does it. An error of ours that it raises is the tool's failure.
        effects: Reading wasmrt's own folders is none: nobody but this installation writes there.
        approval: A person has to approve every call, whatever the operator's rules say.
        check: Decides on params before anybody is asked.
        by_hand: Returns the command with which a person does the same; empty where there is none.
        foreign: Tells whether strangers wrote a part of a result; of any result, where it gets None.
        in_programs: False for one that programs of the model's do not call.
    """

    destinations: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Mapping[str, Any]],
        run: Callable[[Params, ToolContext], Any],
        *,
        required: Iterable[str] = (),
        effects: Iterable[Effect] = (),
        approval: bool = False,
        check: Callable[[Params], Decision | None] | None = None,
        by_hand: Callable[[Params], str] | None = None,
        foreign: Callable[[Any], bool] | None = None,
        in_programs: bool = True,
    ) -> None:
        self.name = name
        self.in_programs = in_programs
        self.description = description
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {key: dict(value) for key, value in properties.items()},
            "required": list(required),
            "additionalProperties": False,
        }
        self.traits = Traits.of(effects)
        self._run = run
        self._approval = approval
        self._foreign = foreign
        self.check = check
        self.by_hand = by_hand

    def requires_approval(self, params: Any) -> bool:
        """Tell whether a person has to approve every call."""
        return self._approval

    def foreign(self, result: Any) -> bool:
        """Tell whether strangers wrote a part of a result; of any result, where it is None."""
        return self._foreign is not None and self._foreign(result)

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput:
        """Do it. A registry has held the params against the schema.

        Raises:
            WasmrtError: it was refused, or failed.
        """
        started = time.monotonic()
        result = self._run(params, context or ToolContext())
        return ToolOutput(result=result, duration=round(time.monotonic() - started, 6))


class PlannedTool(HostTool):
    """A tool that changes what the agent has. A person sees the plan of every call, and nothing else is done.

    An answer that was remembered, a confirmation token or a rule of the operator's is no look at the plan.
    """

    timeout_seconds = 180.0
    """A large component is compiled before it is kept."""

    def __init__(
        self,
        name: str,
        description: str,
        properties: Mapping[str, Mapping[str, Any]],
        plan: Callable[[Params], Plan],
        *,
        by_hand: Callable[[Params], str],
        **settings: Any,
    ) -> None:
        super().__init__(name, description, properties, self._planned, by_hand=by_hand, approval=True, **settings)
        self._plan = plan

    def preview(self, params: Params) -> str:
        """Return what a call would change, for the person who is asked."""
        return self._plan(params).shown

    def _planned(self, params: Params, context: ToolContext) -> Any:
        plan = self._plan(params)
        # SECURITY: what a person agreed to is what they were shown, and a source may be another one by now.
        if context.shown != plan.shown:
            assert self.by_hand is not None
            what = (
                "nobody was shown what this call does" if context.shown is None else "what was shown changed meanwhile"
            )
            hint = f"ask again, or have a person do it: {self.by_hand(params)}"
            decision = Decision(False, Reason.APPROVAL_REQUIRED, what, hint, "tool.approval", self.name)
            raise NotAuthorizedError.of(decision, code="not-shown")
        return plan.apply(context)
