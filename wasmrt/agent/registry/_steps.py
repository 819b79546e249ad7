"""The steps of a call before its tool runs. `explain` uses them, too.

Each step returns its decision, or a text if there was nothing to decide. It raises an error if the call is invalid.
"""

from __future__ import annotations

from functools import partial
from shlex import quote

from wasmrt.agent.approvals import params_digest
from wasmrt.agent.policy import NO_TIGHTENING, Permission, decide_filter, decide_permission
from wasmrt.agent.registry._calls import parse_arguments
from wasmrt.agent.registry._registered import RegisteredTool, ToolSource, decide_effects, is_visible
from wasmrt.agent.registry._state import CallState
from wasmrt.capabilities import RateLimitConfig
from wasmrt.catalog.bundled import CREATE_JOB
from wasmrt.core.effects import EVERY_EFFECT, Effect, in_words
from wasmrt.core.errors import InvalidParametersError, NotAuthorizedError, RateLimitedError, UnknownToolError
from wasmrt.core.model import Decision, Reason
from wasmrt.core.names import did_you_mean
from wasmrt.core.setting_commands import append_command, set_command, write_dotted_key
from wasmrt.core.traits import Traits

Step = Decision | str
"""A decision, or the reason why there was nothing to decide."""
BUILTIN_RATE = RateLimitConfig(60, 1000)
"""The default rate limit, for each user and tool, of built-in tools that change something or use the network."""
_BUILTIN_RATES = {CREATE_JOB: RateLimitConfig(5, 30)}
"""Lower default rate limits of single built-in tools."""


def parse(state: CallState) -> Step:
    """Parse the arguments.

    Raises:
        InvalidParametersError: the arguments are not a JSON object.
    """
    state.params = parse_arguments(state.request.arguments)
    return "the arguments are a JSON object"


def look_up(state: CallState) -> Step:
    """Find the tool of a call, the traits that it has under the policy, and the effects that the view allows.

    Raises:
        UnknownToolError: no tool has this name.
    """
    entry = state.services.store.find(state.request.name)
    if entry is None:
        raise unknown_tool_error(state)
    state.entry = state.registered = entry
    bound = entry.tool.in_conversation(state.request.user, state.request.trace)
    state.bound = None if bound is entry.tool else bound
    derive(state)
    return f"source: {entry.source}"


def check_program(state: CallState) -> Step:
    """Decide whether a program or a job may make this call. Other calls are not affected."""
    if not state.request.chain:
        return "no program or job makes this call"
    if is_for_programs(state.known):
        return "programs and jobs may call the tool"
    # SECURITY: changes of the agent's tools must be visible to the user as separate calls. Programs do not nest.
    rule = "programs and jobs cannot call this tool: they can neither run programs nor change tools, skills or grants"
    hint = "call the tool directly, not from a program or a job"
    return Decision(False, Reason.NOT_IN_VIEW, rule, hint, "tool.program", state.known.name)


def runs_programs(entry: RegisteredTool) -> bool:
    """Return whether a tool runs programs.

    SECURITY: only built-in tools can run programs, because programs can call the tools of the caller.
    """
    return entry.source is ToolSource.BUILTIN and entry.tool.runs_programs


def is_for_programs(entry: RegisteredTool) -> bool:
    """Return whether programs and jobs may call a tool. Tools that run programs or change tools are excluded."""
    traits = entry.tool.traits
    changes = traits.declared and Effect.MODIFY_TOOLS in traits.effects and traits.effects != EVERY_EFFECT
    return entry.tool.in_programs and not changes


def derive(state: CallState) -> None:
    """Set the traits that the tool has under the policy, and the effects that the view allows."""
    state.traits = state.known.traits(state.services.policy)
    state.view_effects = state.restrictions.get_allowed_effects(state.traits)
    state.effects = state.traits.effects & state.view_effects


def check_schema(state: CallState) -> Step:
    """Validate the arguments against the tool's schema, and convert values whose intended type is unambiguous.

    Raises:
        InvalidParametersError: the arguments do not match the schema. The message helps the model to correct them.
    """
    validator = state.known.validator
    if validator is None:
        return "the tool's worker process checks the arguments"
    try:
        state.params = validator.accept(state.params)
    except InvalidParametersError as error:
        error.hint = f"list the tool's parameters: wasmrt tools describe {quote(state.known.name)}"
        raise
    return "the arguments match the schema"


def check_view(state: CallState) -> Step:
    """Decide whether the view includes this tool, and allows the action that the params choose."""
    name, traits = state.known.name, state.traits
    state.effects = traits.effects_of(state.params) & state.view_effects
    refused = state.restrictions.decide_access(state.known.names, traits)
    if refused is None:
        refused = decide_effects(
            name, traits, state.view_effects, state.params, wider=state.restrictions.make_wider_hint
        )
    return _choose_decision(refused, "the view allows the call")


def check_filter(state: CallState) -> Step:
    """Decide by the filter for external tools."""
    entry = state.known
    external = entry.source.external
    found = decide_filter(state.services.policy.filter, entry.names, external=external, offer=entry.tool.offer)
    return _choose_decision(found, "the tool is not external")


def check_preset(state: CallState) -> Step:
    """Decide by the active preset and the view's presets."""
    found = state.restrictions.decide_presets(state.known.names, state.traits)
    return _choose_decision(found, "no preset applies")


def check_rules(state: CallState) -> Step:
    """Decide by the operator's rules for this tool, and by the default permission that its author set."""
    name = state.known.name
    policy = state.services.policy
    permission = policy.find_permission(state.known.names)
    rule = next((rule.tool for rule in policy.iter_rules(state.known.names) if rule.permission is permission), "")
    tightened = state.traits.tightening != NO_TIGHTENING
    author = state.tool.default_permission
    found = decide_permission(permission, name, rule, author=author)
    return _choose_decision(found, _list_asking_rules(state) if tightened else "no rule applies")


def find_hiding_decision(state: CallState) -> Decision | None:
    """Return the denial that hides a tool from a view, or None. It does not depend on params."""
    name, traits = state.known.name, state.traits
    checks = (check_program, check_filter, check_preset, check_rules, check_exfiltration)
    found = (state.restrictions.decide_access(state.known.names, traits), *(check(state) for check in checks))
    denial = next((each for each in found if isinstance(each, Decision) and not each.allowed), None)
    if denial is None and not is_visible(traits, state.restrictions.get_allowed_effects(traits)):
        hint = state.restrictions.make_wider_hint()
        return Decision(False, Reason.EFFECT_NOT_ALLOWED, "the view allows no action of it", hint, "tool.effects", name)
    return denial


def check_exfiltration(state: CallState) -> Step:
    """Decide by the guards against exfiltration."""
    guard = state.services.policy.guard
    return _choose_decision(
        state.restrictions.decide_guards(guard, state.known.names, state.traits), "no guard applies"
    )


def check_confirmation(state: CallState) -> Step:
    """Determine whether the call requires approval. A user or a confirmation token can then approve it."""
    name, traits, effects = state.known.name, state.traits, state.effects
    permission = state.services.policy.find_permission(state.known.names)
    asked = bool(state.tool.requires_approval(state.params))
    derived = Traits(effects=traits.effects).needs_confirmation(effects)
    tightened = traits.tightening != NO_TIGHTENING and traits.needs_confirmation(effects)
    ruled = permission is Permission.ASK or tightened
    wished = _is_asked_by_author(state)
    if not (asked or ruled or derived or wished):
        return f"the risk is {traits.risk(effects)}: no approval is required"
    why = f"{_list_asking_rules(state)} requires it" if ruled else state.tool.approval_reason if asked else None
    why = why or ("its package requires it" if wished else f"the call can {in_words(effects)}")
    # If only the effects or the package require the approval, a plan or the rule "allow" of an operator approves it.
    if state.planned is not None and not (asked or ruled):
        state.approved_by = ("plan", state.planned.by, state.planned.name)
        return _allow("confirmation", f"approved by a plan: {why}", name)
    if permission is Permission.ALLOW and not (asked or ruled):
        state.approved_by = ("rule", "operator", "always")
        return _allow("confirmation", f"approved by the operator's rule: {why}", name)
    state.approval_needed = Decision(
        False, Reason.APPROVAL_REQUIRED, why, "the user has to approve it", "tool.approval", name
    )
    return f"approval is required: {why}"


def check_unattended(state: CallState) -> Step:
    """Decide whether another tool may invoke this tool. No approval can be requested for such a call.

    The invoking tool has all effects of this tool, and the call of the invoking tool was approved if that was
    necessary. The call of this tool is denied if the operator's rules or the package of this tool require approval.
    """
    policy, name = state.services.policy, state.known.name
    rule = policy.find_permission(state.known.names)
    tightened = state.traits.tightening != NO_TIGHTENING and state.traits.needs_confirmation(state.effects)
    if rule is Permission.ALLOW and not tightened:
        return "a rule of the policy approves the call"
    wished = _is_asked_by_author(state) and rule is not Permission.ALLOW
    if rule is Permission.ASK or tightened or wished:
        source = "its package" if wished else _list_asking_rules(state)
        why = f"{source} requires approval, which cannot be requested if another tool invokes this tool"
        hint = "have the agent call this tool directly"
        return Decision(False, Reason.APPROVAL_REQUIRED, why, hint, "tool.approval", name)
    return "the invoking tool has all effects of this tool"


def check_tool_policy(state: CallState) -> Step:
    """Let the tool itself decide on the params, for example by its workspace or its rules for commands."""
    found = state.tool.check(state.params)
    return found if isinstance(found, Decision) else "the tool itself does not deny the call"


def check_rate(state: CallState, *, record: bool = True) -> Step:
    """Count the call against the rate limit of the tool. If `record` is false, only check the limit.

    Raises:
        RateLimitedError: the user has reached the limit for this tool.
    """
    entry = state.known
    rate = state.services.policy.find_rate_limits(entry.names)
    counted = not state.traits.read_only or state.traits.network_outbound
    if rate is None and entry.source is ToolSource.BUILTIN and counted:
        rate = _BUILTIN_RATES.get(entry.name, BUILTIN_RATE)
    if rate is None:
        return "no rate limit is set"
    rates = state.services.rates
    if record:
        rates.check_and_record(
            state.request.user, entry.name, rate, what="tool", setting=partial(_suggest_raising, state)
        )
    elif not all(rates.remaining(state.request.user, entry.name, rate, what="tool")):
        hint = f"wait, or {_suggest_raising(state, 'minute', rate.requests_per_minute)}"
        raise RateLimitedError("the rate limit is reached", retry_after_seconds=0.0, hint=hint)
    return _allow("rate", f"{rate.requests_per_minute} a minute, {rate.requests_per_hour} an hour", entry.name)


def _suggest_raising(state: CallState, window: str, limit: int) -> str:
    """Return the command that raises the limit of a tool's calls in a window (`minute` or `hour`).

    If several rules set a limit, the command changes the lowest limit.
    """
    key, name = f"requests_per_{window}", state.known.name
    rules = [rule for rule in state.services.policy.iter_rules(state.known.names) if rule.rate is not None]
    named = min(rules, key=lambda rule: getattr(rule.rate, key)).tool if rules else name
    return f"raise the limit: {set_command(f'tools.rules.NAME.{key}', 2 * limit, named)}"


def unknown_tool_error(state: CallState) -> UnknownToolError:
    """Return the error for a call of an unknown tool. Its hint suggests a similar name if there is one."""
    store = state.services.store
    if (step := store.step_for(state.request.name)) is not None:
        return UnknownToolError(f"the tool {state.request.name!r:.80} cannot be used here", hint=step)
    names = store.names()
    near = did_you_mean(state.request.name, names)
    hint = f"did you mean {near}?" if near else "call one of the offered tools"
    return UnknownToolError(f"there is no tool {state.request.name!r:.80}", hint=hint)


def _choose_decision(decision: Decision | None, otherwise: str) -> Step:
    """Return `decision`, or `otherwise` if it is None. An expression with `or` would drop denials: they are falsy."""
    return otherwise if decision is None else decision


def _list_asking_rules(state: CallState) -> str:
    """Return the section names of the policy's rules that require approval of the tool, joined by "and"."""
    asking = [
        rule.tool
        for rule in state.services.policy.iter_rules(state.known.names)
        if rule.permission is Permission.ASK or rule.tightening != NO_TIGHTENING
    ]
    return " and ".join(f"[{write_dotted_key(['tools', 'rules', tool])}]" for tool in asking) or "a rule of the policy"


def suggest_approval(state: CallState) -> str:
    """Return the configuration change after which such a call needs no approval; an empty string if there is none."""
    if state.tool.requires_approval(state.params):
        return ""
    if state.finding is not None:
        return f"allow the destination: {append_command('tools.flows.known', 'DESTINATION')}"
    name, policy, traits = state.known.name, state.services.policy, state.traits
    if traits.tightening != NO_TIGHTENING and traits.needs_confirmation(state.effects):
        return f"remove the settings that require approval from {_list_asking_rules(state)}"
    rules = policy.iter_rules(state.known.names)
    asking = next((rule.tool for rule in rules if rule.permission is Permission.ASK), name)
    return f"approve such calls: {set_command('tools.rules.NAME.permission', 'allow', asking)}"


def _is_asked_by_author(state: CallState) -> bool:
    return state.tool.default_permission == Permission.ASK


def redeem(state: CallState) -> Decision:
    """Redeem the confirmation token of a call that all other steps have allowed.

    Raises:
        NotAuthorizedError: the token is not valid for this call.
    """
    tokens = state.services.tokens
    name = state.known.name
    if tokens is None:
        raise NotAuthorizedError("confirmation tokens are not enabled here", hint="call the tool without a token")
    redeemed = tokens.redeem(
        state.request.token or "", trace=state.request.trace, tool=name, effects=state.effects,
        params_digest=params_digest(state.params),
    )  # fmt: skip
    state.confirmed_content = redeemed.content
    state.approved_by = ("token", "", "once")
    return _allow("confirmation", "a confirmation token was redeemed", name)


def _allow(what: str, rule: str, subject: str = "") -> Decision:
    return Decision(True, Reason.ALLOWED, rule, None, f"tool.{what}", subject)
