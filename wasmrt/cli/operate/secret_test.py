"""`wasmrt secret test`: check a secret with the validation request of a tool's capability file."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities.file import AuthSection, ValidationEndpoint
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.logins import (
    author_instructions,
    call_for,
    find_with_login,
    list_logins,
    login_file_option,
    open_gateway,
    print_instructions,
)
from wasmrt.cli.shared.options import json_option, user_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import ConfigurationError, SecretExpiredError, SecretNotFoundError
from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.egress.secrets import normalize_secret_name

_VALIDATION = '"validation_endpoint": {"url": "https://api.example.com/v1/me", "method": "GET", "success_status": 200}'


@click.command("test")
@click.argument("name")
@click.option("--tool", required=True, metavar="NAME_OR_PATH", help="Tool whose validation request is sent.")
@login_file_option
@user_option
@json_option
@click.pass_context
def test(ctx: click.Context, name: str, tool: str, capabilities: Path | None, user: str, as_json: bool) -> None:
    """Send a tool's validation request under its grant, and report whether the secret works.

    \b
    Examples:
      wasmrt secret test example_token --tool search
    """
    found, name = find_with_login(tool, capabilities), normalize_secret_name(name)
    auth, check = _find_validation(found, name, tool)
    store = open_secrets()
    instructions = author_instructions(auth)
    try:
        store.get(user, name)  # if the secret is missing, the error names the command that sets it
    except (SecretNotFoundError, SecretExpiredError):
        if not as_json:
            print_instructions(found.name, instructions)
        raise
    status, problem = None, None
    with open_gateway() as gateway:
        call = call_for(found.name, user, found.grant, gateway, store)
        try:
            status = gateway.fetch(call, HttpRequest(check.method, check.url, check.headers)).status
        except HttpFailure as failure:
            problem = failure.message + (f"; {failure.hint}" if failure.hint else "")
    works = status == check.success_status
    if as_json:
        shown = {} if works else instructions
        show_json({"name": name, "works": works, "status": status, "problem": problem, "tool_says": shown})
    elif works:
        print_message(f"{name} works: {check.method} {check.url} returned {status}")
    elif problem:  # without a response, the secret may still be valid
        print_message(f"{name} could not be tested: {problem}")
    else:
        expected = f"expected {check.success_status}"
        print_message(f"{name} does not work: {check.method} {check.url} returned {status}, {expected}")
        print_instructions(found.name, instructions)
    if not works:
        ctx.exit(FAILED)


def _find_validation(found: FoundTool, name: str, tool: str) -> tuple[AuthSection, ValidationEndpoint]:
    """Return the auth section of a secret, and its validation request.

    Raises:
        ConfigurationError: the tool has no auth section for this secret, or the section has no validation request.
    """
    example = f'"auth": {{"secret_name": "{name}", {_VALIDATION}}}'
    logins = list_logins(found, hint=f"add one with a request that checks the secret: {example}")
    auth = next((login for login in logins if login.secret_name == name), None)
    if auth is None:
        known = [login.secret_name for login in logins]
        raise ConfigurationError(
            f"the login of {found.name} uses {' and '.join(known)}, not {name}",
            hint=f"to test it, run: wasmrt secret test {known[0]} --tool {tool}",
        )
    if auth.validation_endpoint is None:
        raise ConfigurationError(
            f"the capability file of {found.name} has no validation request for {name}",
            hint=f"add one to its auth section: {_VALIDATION}",
        )
    return auth, auth.validation_endpoint
