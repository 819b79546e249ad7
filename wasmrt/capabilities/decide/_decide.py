"""Decides one use of one capability: the same answer in `explain` and before a running guest's import."""

from __future__ import annotations

import json
from collections.abc import Iterable

from wasmrt.capabilities.decide._allowlist import AllowlistValidator, suggest_entry
from wasmrt.capabilities.decide._hosts import check_addresses, check_host
from wasmrt.capabilities.decide._subjects import describe_request, describe_unread
from wasmrt.capabilities.model import (
    HttpCapability,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    exposed_credential,
    is_under_prefixes,
    path_problem,
    plain_path,
    protected_problem,
    read_alias,
    read_secret_name,
)
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_PATH_BYTES
from wasmrt.core.model import Addition, Decision, GrantList, Reason, Suggestion
from wasmrt.core.url import InvalidUrlError, Network, parse_networks, parse_url

SOME_TOOL = "NAME-OF-THE-TOOL"
"""Stands in a suggested entry for an alias: only a person knows the tool that is meant by it."""


def decide_http(
    granted: HttpCapability | None,
    method: str,
    url: str,
    resolves_to: Iterable[str] | None,
    unsafe_allowed_networks: Iterable[Network | str],
) -> Decision:
    """Decide a request by its URL, and by the addresses its host is said to have."""
    networks = parse_networks(unsafe_allowed_networks)
    try:
        parsed = parse_url(url)
    except InvalidUrlError as problem:
        shown = describe_unread(url, method)
        return Decision(False, Reason.INVALID_URL, problem.message, problem.hint, "http", shown)
    subject = describe_request(parsed, method)
    if granted is None:
        suggestion = suggest_entry(parsed, method, networks, new_section=True)
        return Decision(False, Reason.NOT_GRANTED, "no http section", suggestion, "http", subject)
    allowlist = AllowlistValidator(granted.allowlist, networks, granted.credentials)
    decision = allowlist.check(parsed, method)
    if not decision.allowed:
        return decision
    networks = tuple(allowlist.networks_for(parsed, method))
    refused = check_host(parsed, networks)
    if refused is None and resolves_to is not None:
        answers = check_addresses(resolves_to, networks, subject)
        refused = None if answers.allowed else answers
    if refused is not None:
        return allowlist.with_step(refused, parsed, method)
    exposed = exposed_credential(granted.credentials, parsed)
    if exposed is not None:  # the injector's refusal, which comes after the addresses
        rule = f"http.credentials.{exposed.name}: a credential goes over https only"
        hint = "ask for the URL over https"
        return Decision(False, Reason.CREDENTIAL_INSECURE, rule, hint, "http", subject)
    return decision


def decide_workspace(granted: WorkspaceCapability | None, path: str) -> Decision:
    """Decide a workspace path that is read by its text alone."""
    return _decide_path(granted, path, GrantList.WORKSPACE)


def decide_workspace_write(granted: WorkspaceWriteCapability | None, path: str) -> Decision:
    """Decide a workspace path that is written, moved or removed by its text alone."""
    return _decide_path(granted, path, GrantList.WORKSPACE_WRITE)


def _decide_path(
    granted: WorkspaceCapability | WorkspaceWriteCapability | None, path: str, grants: GrantList
) -> Decision:
    section = grants.partition(".")[0]

    def deny(reason: Reason, rule: str, suggestion: str | Suggestion) -> Decision:
        return Decision(False, reason, rule, suggestion, section, subject)

    subject = path[:MAX_PATH_BYTES].encode("unicode_escape").decode("ascii") if isinstance(path, str) else ""
    problem = path_problem(path)
    if problem:
        return deny(Reason.INVALID_PATH, problem, "write it relative to the workspace, like context/notes.md")
    if grants is GrantList.WORKSPACE_WRITE and (problem := protected_problem(path)) is not None:
        # SECURITY: before the grant, so that no denial suggests an entry that would change nothing.
        return deny(Reason.PROTECTED_FILE, problem, "have the tool write another file")
    plain = plain_path(path)
    folder = plain.rpartition("/")[0]
    prefix = json.dumps(f"{folder}/" if folder else plain)
    if granted is None:
        addition = Addition(grants, prefix, new_section=True)
        return deny(Reason.NOT_GRANTED, f"no {section} section", addition)
    for index, allowed in enumerate(granted.allowed_prefixes):
        if is_under_prefixes(path, (allowed,)):
            return Decision(True, Reason.ALLOWED, f"{grants}[{index}]", capability=section, subject=subject)
    rule = f"no entry of {grants} covers this path"
    return deny(Reason.PREFIX_NOT_ALLOWED, rule, Addition(grants, prefix))


def decide_secret(granted: SecretsCapability | None, name: str) -> Decision:
    """Decide whether a guest may learn that a secret exists."""
    try:
        spelled = read_secret_name(name)
    except ConfigurationError as problem:
        rule = "the name is not one that a secret can have"
        return Decision(False, Reason.SECRET_NOT_ALLOWED, rule, problem.message, "secrets")
    if granted is None:
        addition = Addition(GrantList.SECRETS, json.dumps(spelled), new_section=True)
        return Decision(False, Reason.NOT_GRANTED, "no secrets section", addition, "secrets", spelled)
    if not granted.allows(spelled):
        rule = "no entry of secrets.allowed_names covers this name"
        addition = Addition(GrantList.SECRETS, json.dumps(spelled))
        return Decision(False, Reason.SECRET_NOT_ALLOWED, rule, addition, "secrets", spelled)
    return Decision(True, Reason.ALLOWED, "secrets.allowed_names", capability="secrets", subject=spelled)


def decide_tool(granted: ToolInvokeCapability | None, alias: str) -> Decision:
    """Decide whether a guest may call the tool behind an alias."""
    try:
        spelled = read_alias(alias)
    except ConfigurationError as problem:
        rule = "the alias is not one that a tool can have"
        return Decision(False, Reason.ALIAS_NOT_ALLOWED, rule, problem.message, "tool_invoke")
    if granted is None:
        addition = Addition(GrantList.TOOLS, json.dumps({spelled: SOME_TOOL}), new_section=True)
        return Decision(False, Reason.NOT_GRANTED, "no tool_invoke section", addition, "tool_invoke", spelled)
    if granted.resolve(spelled) is None:
        rule = "tool_invoke.aliases has no such alias"
        addition = Addition(GrantList.TOOLS, json.dumps({spelled: SOME_TOOL}))
        return Decision(False, Reason.ALIAS_NOT_ALLOWED, rule, addition, "tool_invoke", spelled)
    return Decision(True, Reason.ALLOWED, f"tool_invoke.aliases.{spelled}", capability="tool_invoke", subject=spelled)
