"""Decides one use of one power: the same answer in `explain` and before a running guest's import."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from wasmrt.capabilities._addresses import Network, parse_networks
from wasmrt.capabilities._allowlist import AllowlistValidator, describe_request, entry_for, judge_addresses, judge_host
from wasmrt.capabilities._credential import read_secret_name
from wasmrt.capabilities._url import InvalidUrlError, parse_url
from wasmrt.capabilities._workspace_path import path_problem
from wasmrt.errors import ConfigurationError
from wasmrt.model import Decision, Reason

if TYPE_CHECKING:
    from wasmrt.capabilities._model import Capabilities

_SHOWN = 200


def decide_http(
    capabilities: Capabilities,
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
        return Decision(False, Reason.INVALID_URL, problem.message, hint=problem.hint, capability="http")
    subject = describe_request(parsed, method)
    if capabilities.http is None:
        hint = _grant_hint(method, url)
        return Decision(False, Reason.NOT_GRANTED, "no http section", hint=hint, capability="http", subject=subject)
    decision = AllowlistValidator(capabilities.http.allowlist).check(parsed, method)
    if not decision.allowed:
        return decision
    refused = judge_host(parsed, networks)
    if refused is not None:
        return refused
    if resolves_to is not None and not (answers := judge_addresses(resolves_to, networks, subject)).allowed:
        return answers
    return decision


def _grant_hint(method: str, url: str) -> str | None:
    try:
        entry = entry_for(parse_url(url), method).as_dict()
    except (ConfigurationError, ValueError):
        return 'add "http": {"allowlist": [...]}'
    return f'add "http": {json.dumps({"allowlist": [entry]})}'


def decide_workspace(capabilities: Capabilities, path: str) -> Decision:
    """Decide a workspace path by its text alone."""
    problem = path_problem(path)
    subject = json.dumps(path[:_SHOWN])[1:-1] if isinstance(path, str) else ""
    if problem:
        hint = "write it relative to the workspace, with forward slashes, like context/notes.md"
        return Decision(False, Reason.INVALID_PATH, problem, hint=hint, capability="workspace", subject=subject)
    folder = path.rpartition("/")[0]
    prefix = json.dumps(f"{folder}/" if folder else path)
    if capabilities.workspace_read is None:
        hint = f'add "workspace": {{"allowed_prefixes": [{prefix}]}}'
        return Decision(
            False, Reason.NOT_GRANTED, "no workspace section", hint=hint, capability="workspace", subject=subject
        )
    for index, allowed in enumerate(capabilities.workspace_read.allowed_prefixes):
        if type(capabilities.workspace_read)((allowed,)).allows(path):
            rule = f"workspace.allowed_prefixes[{index}]"
            return Decision(True, Reason.ALLOWED, rule, capability="workspace", subject=subject)
    return Decision(
        False,
        Reason.PREFIX_NOT_ALLOWED,
        "no entry of workspace.allowed_prefixes covers this path",
        hint=f"add to workspace.allowed_prefixes: {prefix}",
        capability="workspace",
        subject=subject,
    )


def decide_secret(capabilities: Capabilities, name: str) -> Decision:
    """Decide whether a guest may learn that a secret exists."""
    try:
        sound = read_secret_name(name)
    except ConfigurationError as problem:
        rule = "the name is not one that a secret can have"
        return Decision(False, Reason.SECRET_NOT_ALLOWED, rule, hint=problem.hint, capability="secrets")
    granted = capabilities.secrets
    if granted is None:
        hint = f'add "secrets": {{"allowed_names": ["{sound}"]}}'
        return Decision(False, Reason.NOT_GRANTED, "no secrets section", hint=hint, capability="secrets", subject=sound)
    if not granted.allows(sound):
        rule = "no entry of secrets.allowed_names covers this name"
        hint = f'add to secrets.allowed_names: "{sound}"'
        return Decision(False, Reason.SECRET_NOT_ALLOWED, rule, hint=hint, capability="secrets", subject=sound)
    return Decision(True, Reason.ALLOWED, "secrets.allowed_names", capability="secrets", subject=sound)


def decide_tool(capabilities: Capabilities, alias: str) -> Decision:
    """Decide whether a guest may call the tool behind an alias."""
    granted = capabilities.tool_invoke
    shown = json.dumps(alias[:64]) if isinstance(alias, str) else '""'
    line = f'{shown}: "NAME-OF-THE-TOOL"'
    subject = shown[1:-1]
    if granted is None:
        hint = f'add "tool_invoke": {{"aliases": {{{line}}}}}'
        rule = "no tool_invoke section"
        return Decision(False, Reason.NOT_GRANTED, rule, hint=hint, capability="tool_invoke", subject=subject)
    if not isinstance(alias, str) or granted.resolve(alias) is None:
        rule = "tool_invoke.aliases has no such alias"
        hint = f"add to tool_invoke.aliases: {line}"
        return Decision(False, Reason.ALIAS_NOT_ALLOWED, rule, hint=hint, capability="tool_invoke", subject=subject)
    return Decision(True, Reason.ALLOWED, f"tool_invoke.aliases.{subject}", capability="tool_invoke", subject=subject)
