"""`wasmrt search`: find tools in the lists that the operator names."""

from __future__ import annotations

from shlex import quote

import click

from wasmrt.agent.builtin.extensions.lists import Found, Lists, search_lists
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.options import json_option, quiet_option
from wasmrt.cli.shared.output import print_message, show, show_json, show_line
from wasmrt.cli.shared.registries import configured_policy, download_with, registry_access
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.setting_commands import append_command


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@quiet_option
@json_option
@click.pass_context
def search(ctx: click.Context, words: tuple[str, ...], quiet: bool, as_json: bool) -> None:
    """Find tools by WORDS in the lists that the operator names.

    The setting install.search names index files (paths or https URLs), registries (oci://HOST/PREFIX), and domains
    with wkg's well-known file (https://HOST). Words match names and descriptions; a registry lists only names. The
    texts are those of the lists: nobody has checked them.

    Each result has the command that installs it. The exit code is 1 if no list could be read.

    \b
    Examples:
      wasmrt search json query
      wasmrt search json --json
    """
    policy = configured_policy()
    if not policy.search:
        raise ConfigurationError(
            "there is no list to search: the setting install.search is empty",
            hint=append_command("install.search", "https://HOST/index.json"),
        )
    found = search_lists(" ".join(words), Lists(policy.search, registry_access(policy), download_with(policy)))
    if as_json:
        tools = [tool._asdict() for tool in found.tools]
        show_json({"tools": tools, "more": found.more, "problems": found.problems})
    else:
        _show(found)
    if not found.is_readable:
        ctx.exit(FAILED)


def _show(found: Found) -> None:
    for tool in found.tools:
        show_line(f"{tool.name}: {tool.description}" if tool.description else tool.name)
        show(f"  wasmrt install {quote(tool.reference)}")
    for problem in found.problems:
        print_message(problem)
    if found.more:
        print_message(f"{found.more} more tools match; add words")
    elif not found.tools:
        print_message("no tool matches; try other words")
