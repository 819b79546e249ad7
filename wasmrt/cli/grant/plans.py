"""Show plans of installations, ask for consent and for settings, and report what was installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from wasmrt.agent.builtin.extensions.missing import MissingSecret
from wasmrt.capabilities.file import parse
from wasmrt.catalog import ToolVersion
from wasmrt.catalog.bundled import bundled_names
from wasmrt.catalog.granted import read_granted
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.cli.shared.consent import (
    NotGrantedError,
    ask,
    ask_for_new,
    describe_tool,
    explain_grant,
    explain_more,
    missing_secrets,
    print_difference,
    print_missing,
    print_offer,
    print_request,
)
from wasmrt.cli.shared.output import is_interactive, print_message
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import ConfigurationError, SecretBackendError, SecretNotFoundError
from wasmrt.egress.secrets import DEFAULT_USER, Secret, SecretsStore

_MAX_SHOWN = 300


def ask_settings(version: ToolVersion) -> None:
    """Ask for each missing setting of a package, and store it as a secret; an empty answer skips the setting.

    SECURITY: the prompts are untrusted text, so each is truncated to one printable line. The answers are not echoed.
    """
    wanted = parse(version.sidecar).setup_secrets if version.sidecar else ()
    store = open_secrets() if wanted else None
    missing = [setting for setting in wanted if store is not None and not _is_set(store, setting.name)]
    if store is None or not missing:
        return
    try:
        store.check_writable(DEFAULT_USER, missing[0].name)
    except SecretBackendError:
        return  # the messages after the installation name the steps
    later = store.hint_to_set(DEFAULT_USER, "NAME").removeprefix("run: ")
    print_message(f"{version.name} has settings; leave one empty to set it later: {later}")
    for setting in missing:
        words = "".join(char if char.isprintable() else " " for char in setting.prompt)[:_MAX_SHOWN]
        label = f"{setting.name} ({words})" if words else setting.name
        value: str = click.prompt(label, default="", show_default=False, hide_input=True, err=True)
        if value:
            store.set(DEFAULT_USER, setting.name, Secret(value))


def _is_set(store: SecretsStore, name: str) -> bool:
    try:
        store.get(DEFAULT_USER, name)
    except SecretNotFoundError:
        return False
    return True


def apply_plan(
    installer: Installer, plan: InstallPlan, *, yes: bool, offer: bool | None, is_named: bool, as_json: bool
) -> dict[str, Any]:
    """Show a plan, ask for consent unless `yes`, store it, and return a report for `--json`.

    If `is_named` (the user chose the name), the name of a bundled tool is allowed without a question.
    """
    shadowing = shadow_warnings(plan)
    warnings = [*plan.warnings, *shadowing]
    may_ask = is_interactive() and not as_json
    if not as_json:
        print_plan(plan, warnings)
    if shadowing and not is_named and not yes:
        confirm_shadowing(plan.new.name, may_ask=may_ask)
    version = _decide(installer, plan, granted=yes, offer=offer, may_ask=may_ask)
    if may_ask and plan.new.package is not None:
        ask_settings(version)
    return report_plan(version, plan, warnings, as_json=as_json)


def report_plan(version: ToolVersion, plan: InstallPlan, warnings: list[str], *, as_json: bool) -> dict[str, Any]:
    """Print that a plan was stored, and which secrets are missing. With `--json`, only return the report."""
    missing = _list_missing(plan)
    outcome = {"unchanged": plan.is_installed, "changes": list(plan.changes), "warnings": warnings}
    report = version.as_dict() | outcome | {"missing_secrets": [secret._asdict() for secret in missing]}
    if as_json:
        return report
    if plan.is_installed:
        print_message(f"{version.name} version {version.number} is already installed")
    else:
        print_message(f"installed {version.name} version {version.number} ({version.digest[:12]})")
    print_missing(missing)
    print_offer(version.name, [version.name], version.offer)
    return report


def shadow_warnings(plan: InstallPlan) -> list[str]:
    """Return a warning if a new tool has the name of a bundled tool."""
    name = plan.new.name
    if plan.previous is not None or name not in bundled_names():
        return []
    return [f"a bundled tool is also named {name}; wasmrt run {name} will run the installed one instead"]


def confirm_shadowing(name: str, *, may_ask: bool) -> None:
    """Ask whether a tool may replace the bundled tool with its name.

    Raises:
        ConfigurationError: the user declined, or cannot be asked.
    """
    if may_ask and click.confirm(f"Replace the bundled {name}?", default=False, err=True):
        return
    raise ConfigurationError(
        f"nothing was installed: a bundled tool is named {name}",
        code="bundled-name",
        hint=f"choose another name with --name, or pass --name {name} to replace the bundled tool",
    )


def _list_missing(plan: InstallPlan) -> list[MissingSecret]:
    sidecar = plan.new.sidecar
    if sidecar is None:
        return []
    return missing_secrets(parse(sidecar), granted=plan.grant, tool=plan.new.name)


def print_plan(plan: InstallPlan, warnings: Iterable[str]) -> None:
    """Print the warnings, the differences, the origin and the grant of a plan."""
    for warning in warnings:
        print_message(f"warning: {warning}")
    if plan.is_installed:
        return
    if plan.previous is not None:
        title = f"{plan.new.name} differs from version {plan.previous.number}:"
        print_difference(title, plan.changes[: plan.more], plan.changes[plan.more :])
    sidecar = plan.new.sidecar
    written = None if sidecar is None else parse(sidecar).description
    print_message(plan.summary)
    title = describe_tool(plan.new.name, written or plan.new.info.description)
    print_request(title, explain_grant(plan.grant), _new_sentences(plan))


def _new_sentences(plan: InstallPlan) -> tuple[str, ...]:
    return () if plan.previous is None else explain_more(read_granted(plan.previous), plan.grant)


def _decide(
    installer: Installer, plan: InstallPlan, *, granted: bool, offer: bool | None, may_ask: bool
) -> ToolVersion:
    """Store the plan after the user's consent.

    SECURITY: a new tool is offered to agents only after consent: the user's answer, --yes or --offer. An update keeps
    the decision about the active version, unless --offer or --no-offer changes it.
    """
    name, previous = plan.new.name, plan.previous
    if granted:
        return installer.accept(plan, for_agents=True if offer is None and previous is None else offer)
    if may_ask and previous is None and offer is None:
        return installer.accept(plan, for_agents=ask_for_new(name, grants=plan.needs_decision))
    if not plan.needs_decision:
        return installer.accept(plan, for_agents=offer)
    if may_ask:
        ask(name, for_agents=previous is not None and previous.for_agents if offer is None else offer)
        return installer.accept(plan, for_agents=offer)
    if previous is None:
        raise NotGrantedError(
            f"{name} was not installed: confirming its grant requires a terminal",
            hint="review its request, then install it with --yes",
            asks=explain_grant(plan.grant),
        )
    pending = installer.store_pending(plan)
    raise NotGrantedError(
        f"version {pending.number} of {name} awaits a grant; version {previous.number} stays active",
        hint=f"wasmrt grant {name}",
        asks=explain_grant(plan.grant),
        changes=plan.changes,
        new=_new_sentences(plan),
    )
