"""`wasmrt search`: find tools in the lists that the operator names."""

from __future__ import annotations

from shlex import quote

import click

from wasmrt.agent.builtin.ranking import rank_rows
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.registry import Access, Listed, list_tools, with_tag
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.options import json_option, quiet_option
from wasmrt.cli.shared.output import print_message, show, show_json, show_line
from wasmrt.cli.shared.registries import configured_policy, download_with, registry_access
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.setting_commands import append_command

_MAX_SHOWN = 20


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
    access = registry_access(policy)
    listed, problems = _read_lists(policy, access)
    ranked = rank_rows(" ".join(words), [tool._asdict() for tool in listed])
    found = _with_tags([Listed(**row) for row in ranked[:_MAX_SHOWN]], access, problems)
    if as_json:
        show_json({"tools": [tool._asdict() for tool in found], "more": len(ranked[_MAX_SHOWN:]), "problems": problems})
    else:
        _show(found, len(ranked[_MAX_SHOWN:]), problems)
    if not listed and problems:
        ctx.exit(FAILED)


def _read_lists(policy: InstallPolicy, access: Access) -> tuple[list[Listed], list[str]]:
    """Return the tools of all lists, and a sentence for each problem."""
    tools: list[Listed] = []
    problems: list[str] = []
    for source in policy.search:
        try:
            listing = list_tools(source, access, download_with(policy))
        except SourceError as error:
            problems.append(f"{source} cannot be searched: {error.message}")
            continue
        tools += listing.tools
        problems += [f"{source}: {problem}" for problem in listing.problems]
    return tools, problems


def _with_tags(tools: list[Listed], access: Access, problems: list[str]) -> list[Listed]:
    found = []
    for tool in tools:
        try:
            tagged = with_tag(tool, access)
        except SourceError as error:
            problems.append(f"{tool.reference} has no list of tags: {error.message}")
            continue
        if tagged is not None:
            found.append(tagged)
    return found


def _show(found: list[Listed], more: int, problems: list[str]) -> None:
    for tool in found:
        show_line(f"{tool.name}: {tool.description}" if tool.description else tool.name)
        show(f"  wasmrt install {quote(tool.reference)}")
    for problem in problems:
        print_message(problem)
    if more:
        print_message(f"{more} more tools match; add words")
    elif not found:
        print_message("no tool matches; try other words")
