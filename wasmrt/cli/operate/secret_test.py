"""`wasmrt secret test`: whether a secret works, told by the tool's own validation request."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities.file import AuthSection, ValidationEndpoint
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.login import author_instructions, find_with_login, login_file_option, print_instructions
from wasmrt.cli.shared.logins import call_for, logins_of, open_gateway
from wasmrt.cli.shared.options import json_option, user_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.secret_messages import store
from wasmrt.core.errors import ConfigurationError, SecretExpiredError, SecretNotFoundError
from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.egress.secrets import checked_name

_VALIDATION = '"validation_endpoint": {"url": "https://api.example.com/v1/me", "method": "GET", "success_status": 200}'


@click.command("test")
@click.argument("name")
@click.option("--tool", required=True, metavar="NAME_OR_PATH", help="The tool whose validation request is made.")
@login_file_option
@user_option
@json_option
@click.pass_context
def test(ctx: click.Context, name: str, tool: str, capabilities: Path | None, user: str, as_json: bool) -> None:
    """Make the tool's own validation request, under its grant, and tell whether the secret works.

    \b
    Examples:
      wasmrt secret test example_token --tool search
    """
    found, name = find_with_login(tool, capabilities), checked_name(name)
    auth, check = _login_of(found, name, tool)
    kept = store()
    instructions = author_instructions(auth)
    try:
        kept.get(user, name)  # a missing one is an error of its own, with the command that sets it
    except (SecretNotFoundError, SecretExpiredError):
        if not as_json:
            print_instructions(found.name, instructions)
        raise
    status, problem = None, None
    with open_gateway() as gateway:
        call = call_for(found.name, user, found.grant, gateway, kept)
        try:
            status = gateway.fetch(call, HttpRequest(check.method, check.url, check.headers)).status
        except HttpFailure as failure:
            problem = failure.message + (f"; {failure.hint}" if failure.hint else "")
    works = status == check.success_status
    if as_json:
        shown = {} if works else instructions
        show_json({"name": name, "works": works, "status": status, "problem": problem, "tool_says": shown})
    elif works:
        print_message(f"{name} works: {check.method} {check.url} answered {status}")
    elif problem:  # no answer says nothing of the secret
        print_message(f"{name} could not be tested: {problem}")
    else:
        print_message(f"{name} does not work: {check.method} {check.url} answered {status}, not {check.success_status}")
        print_instructions(found.name, instructions)
    if not works:
        ctx.exit(FAILED)


def _login_of(found: FoundTool, name: str, tool: str) -> tuple[AuthSection, ValidationEndpoint]:
    """Return the auth section that is about a secret, and its validation request.

    Raises:
        ConfigurationError: the tool has none, it is about another secret, or it names no request.
    """
    example = f'"auth": {{"secret_name": "{name}", {_VALIDATION}}}'
    logins = logins_of(found, hint=f"add one with a request that tells whether the secret works: {example}")
    auth = next((login for login in logins if login.secret_name == name), None)
    if auth is None:
        known = [login.secret_name for login in logins]
        raise ConfigurationError(
            f"the login of {found.name} is about {' and '.join(known)}, not {name}",
            hint=f"wasmrt secret test {known[0]} --tool {tool}",
        )
    if auth.validation_endpoint is None:
        raise ConfigurationError(
            f"the capability file of {found.name} names no request that would test {name}",
            hint=f"add one to its auth section: {_VALIDATION}",
        )
    return auth, auth.validation_endpoint
