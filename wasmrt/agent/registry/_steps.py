"""The steps that a call goes through before it runs. `explain` walks them too.

Each returns its decision, or in words that there was nothing to decide; it raises where the call is wrong.
"""

from __future__ import annotations

from functools import partial

from wasmrt.agent.approvals import params_digest
from wasmrt.agent.policy import NO_TIGHTENING, Permission, decide_filter, decide_permission
from wasmrt.agent.registry._calls import parse_arguments
from wasmrt.agent.registry._registered import RegisteredTool
from wasmrt.agent.registry._restrictions import decide_effects
from wasmrt.agent.registry._state import CallState
from wasmrt.agent.registry._tool import ToolSource
from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.effects import EVERY_EFFECT, Effect, in_words
from wasmrt.core.errors import InvalidParametersError, NotAuthorizedError, RateLimitedError, UnknownToolError
from wasmrt.core.model import Decision, Reason
from wasmrt.core.names import did_you_mean
from wasmrt.core.strict_toml import section_of
from wasmrt.core.traits import Traits

Step = Decision | str
"""A decision, or why there was none to make."""
BUILTIN_RATE = RateLimitConfig(60, 1000)
"""Calls of one user and one built-in tool that changes or asks something outside, where no rule says otherwise."""


def parse(state: CallState) -> Step:
    """Read the arguments.

    Raises:
        InvalidParametersError: they are no JSON object.
    """
    state.params = parse_arguments(state.request.arguments)
    return "they are a JSON object"


def look_up(state: CallState) -> Step:
    """Find the tool, its traits under the policy, and the effects that this view holds it to.

    Raises:
        UnknownToolError: there is none.
    """
    entry = state.services.store.find(state.request.name)
    if entry is None:
        raise unknown(state)
    state.entry = state.registered = entry
    bound = entry.tool.in_conversation(state.request.user, state.request.trace)
    state.bound = None if bound is entry.tool else bound
    derive(state)
    return f"source: {entry.source}"


def check_program(state: CallState) -> Step:
    """Decide whether a program of the model's may call the tool at all."""
    if not state.request.parent_id:
        return "no program calls it"
    if in_programs(state.known):
        return "programs may call it"
    # SECURITY: what changes the agent's tools is asked for by itself, where a person sees it; no program runs another.
    rule = "no program calls it: programs neither run programs nor change tools, skills and grants"
    return Decision(False, Reason.NOT_IN_VIEW, rule, "call it by itself", "tool.program", state.known.name)


def runs_programs(entry: RegisteredTool) -> bool:
    """Tell whether a tool runs programs. SECURITY: one of our own alone, since its programs get the caller's tools."""
    return entry.source is ToolSource.BUILTIN and entry.tool.runs_programs


def in_programs(entry: RegisteredTool) -> bool:
    """Tell whether programs may call a tool: none that runs programs, or that says it changes tools."""
    traits = entry.tool.traits
    changes = traits.declared and Effect.MODIFY_TOOLS in traits.effects and traits.effects != EVERY_EFFECT
    return entry.tool.in_programs and not changes


def derive(state: CallState) -> None:
    """Take over the tool's traits under the policy, and the effects that the view holds it to."""
    state.traits = state.known.traits(state.services.policy)
    state.view_effects = state.restrictions.allowed_effects(state.traits)
    state.effects = state.traits.effects & state.view_effects


def check_schema(state: CallState) -> Step:
    """Hold the arguments against the tool's schema, and read what is unambiguously another type as that type.

    Raises:
        InvalidParametersError: they do not fit; the message is for the model, which can correct them.
    """
    validator = state.known.validator
    if validator is None:
        return "checked where the tool lives"
    try:
        state.params = validator.accept(state.params)
    except InvalidParametersError as error:
        error.hint = f"wasmrt tools describe {state.known.name} shows them; in Python, definitions() does"
        raise
    return "the arguments fit"


def check_view(state: CallState) -> Step:
    """Decide whether the view that was asked has this tool, and this action of it."""
    name, traits = state.known.name, state.traits
    state.effects = traits.effects_of(state.params) & state.view_effects
    refused = state.restrictions.decide_access(name, traits)
    if refused is None:
        refused = decide_effects(name, traits, state.view_effects, state.params, wider=state.restrictions.wider)
    return _step(refused, "within the view")


def check_filter(state: CallState) -> Step:
    """Decide by the filter of external tools."""
    entry = state.known
    found = decide_filter(state.services.policy.filter, entry.name, external=entry.source.external)
    return _step(found, "not external")


def check_preset(state: CallState) -> Step:
    """Decide by the presets: the active one, and those of the view."""
    found = state.restrictions.decide_presets(state.known.name, state.traits)
    return _step(found, "no preset")


def check_rules(state: CallState) -> Step:
    """Decide by the operator's rules for this tool, and by its author's wish to have it denied."""
    name = state.known.name
    policy = state.services.policy
    permission = policy.permission_for(name)
    rule = next((rule.tool for rule in policy.rules_for(name) if rule.permission is permission), "")
    tightened = state.traits.tightening != NO_TIGHTENING
    author = state.tool.default_permission
    found = decide_permission(permission, name, rule, author=author)
    return _step(found, _asking_rules(state) if tightened else "no rule")


def check_exfiltration(state: CallState) -> Step:
    """Decide by the guards against exfiltration."""
    guard = state.services.policy.guard
    return _step(state.restrictions.decide_guards(guard, state.known.name, state.traits), "nothing is guarded")


def check_confirmation(state: CallState) -> Step:
    """Find whether a person, or a confirmation token in place of one, has to approve the call."""
    name, traits, effects = state.known.name, state.traits, state.effects
    permission = state.services.policy.permission_for(name)
    asked = bool(state.tool.requires_approval(state.params))
    derived = Traits(effects=traits.effects).needs_confirmation(effects)
    tightened = traits.tightening != NO_TIGHTENING and traits.needs_confirmation(effects)
    ruled = permission is Permission.ASK or tightened
    wished = _author_asks(state)
    if not (asked or ruled or derived or wished):
        return f"the risk is {traits.risk(effects)}, and nobody has to confirm it"
    said = f"{_asking_rules(state)} asks for it" if ruled else "the tool asks for it" if asked else None
    said = said or ("its package asks for it" if wished else f"the call can {in_words(effects)}")
    # It approves what effects, or the package, ask for alone.
    if permission is Permission.ALLOW and not (asked or ruled):
        state.approved_by = ("rule", "operator", "always")
        return _passed("confirmation", f"the operator's rule approves it: {said}", name)
    state.approval_needed = Decision(
        False, Reason.APPROVAL_REQUIRED, said, "a person has to approve it", "tool.approval", name
    )
    return f"a person is asked: {said}"


def check_unattended(state: CallState) -> Step:
    """Decide whether a tool may run because another one invokes it, with nobody to ask in between.

    Its effects are among those of the caller, for which somebody was asked where that had to be. What the operator
    wants a person for by name is refused.
    """
    policy, name = state.services.policy, state.known.name
    rule = policy.permission_for(name)
    tightened = state.traits.tightening != NO_TIGHTENING and state.traits.needs_confirmation(state.effects)
    if rule is Permission.ALLOW and not tightened:
        return "a rule approves it"
    wished = _author_asks(state) and rule is not Permission.ALLOW
    if rule is Permission.ASK or tightened or wished:
        who = "its package" if wished else _asking_rules(state)
        said = f"{who} wants a person to be asked, and another tool invokes it"
        return Decision(False, Reason.APPROVAL_REQUIRED, said, "have the agent call it itself", "tool.approval", name)
    return "its effects are its caller's"


def check_tool_policy(state: CallState) -> Step:
    """Let the tool itself decide on the params: its workspace and its commands."""
    found = state.tool.check(state.params)
    return found if isinstance(found, Decision) else "nothing is against it"


def check_rate(state: CallState, *, record: bool = True) -> Step:
    """Count the call, or with `record` false only look whether it would be counted.

    Raises:
        RateLimitedError: the user's window for this tool is full.
    """
    entry = state.known
    rate = state.services.policy.rate_for(entry.name)
    counted = not state.traits.read_only or state.traits.network_outbound
    if rate is None and entry.source is ToolSource.BUILTIN and counted:
        rate = BUILTIN_RATE
    if rate is None:
        return "no rate is set"
    rates = state.services.rates
    if record:
        rates.check_and_record(state.request.user, entry.name, rate, what="tool", setting=partial(_rate_setting, state))
    elif not all(rates.remaining(state.request.user, entry.name, rate, what="tool")):
        hint = f"wait, or raise {_rate_setting(state, 'minute')} and {_rate_setting(state, 'hour')}"
        raise RateLimitedError("the rate of calls is spent", retry_after_seconds=0.0, hint=hint)
    return _passed("rate", f"{rate.requests_per_minute} a minute, {rate.requests_per_hour} an hour", entry.name)


def _rate_setting(state: CallState, window: str) -> str:
    """Return the setting that bounds the calls of a tool in a window: that of the narrowest rule."""
    key, name = f"requests_per_{window}", state.known.name
    rules = [rule for rule in state.services.policy.rules_for(name) if rule.rate is not None]
    named = min(rules, key=lambda rule: getattr(rule.rate, key)).tool if rules else name
    return f"{key} in [{section_of('tools.rules', named)}]"


def unknown(state: CallState) -> UnknownToolError:
    """Return the error of a tool that is not there, with the one that was probably meant."""
    store = state.services.store
    if (step := store.step_for(state.request.name)) is not None:
        return UnknownToolError(f"the tool {state.request.name!r:.80} cannot be used here", hint=step)
    names = store.names()
    near = did_you_mean(state.request.name, names)
    hint = f"did you mean {near}?" if near else "call one of the tools that are offered"
    return UnknownToolError(f"there is no tool {state.request.name!r:.80}", hint=hint)


def _step(decision: Decision | None, otherwise: str) -> Step:
    """Return the decision, or the words where there was none to make. A denial is false, so `or` would lose it."""
    return otherwise if decision is None else decision


def _asking_rules(state: CallState) -> str:
    """Return the rules of the policy that want a person, by their heads in the file."""
    asking = [
        rule.tool
        for rule in state.services.policy.rules_for(state.known.name)
        if rule.permission is Permission.ASK or rule.tightening != NO_TIGHTENING
    ]
    return " and ".join(f"[{section_of('tools.rules', tool)}]" for tool in asking) or "a rule of the policy"


def approving_line(state: CallState) -> str:
    """Return the line of the configuration file by which nobody is asked about such a call; empty without one."""
    if state.tool.requires_approval(state.params):
        return ""
    if state.finding is not None:
        return "name its destination under known in [tools.flows]"
    name, policy, traits = state.known.name, state.services.policy, state.traits
    if traits.tightening != NO_TIGHTENING and traits.needs_confirmation(state.effects):
        return f"take out what asks for it in {_asking_rules(state)}"
    asking = next((rule.tool for rule in policy.rules_for(name) if rule.permission is Permission.ASK), name)
    return f'approve it: permission = "allow" in [{section_of("tools.rules", asking)}]'


def _author_asks(state: CallState) -> bool:
    return state.tool.default_permission == Permission.ASK


def redeem(state: CallState) -> Decision:
    """Use up the confirmation token, after everything else has let the call through.

    Raises:
        NotAuthorizedError: it is not good for this call.
    """
    tokens = state.services.tokens
    name = state.known.name
    if tokens is None:
        raise NotAuthorizedError("no confirmation tokens are taken here", hint="call it without a token")
    tokens.redeem(
        state.request.token or "", trace=state.request.trace, tool=name, effects=state.effects,
        params_digest=params_digest(state.params),
    )  # fmt: skip
    state.approved_by = ("token", "", "once")
    return _passed("confirmation", "a confirmation token was redeemed", name)


def _passed(what: str, rule: str, subject: str = "") -> Decision:
    return Decision(True, Reason.ALLOWED, rule, None, f"tool.{what}", subject)
