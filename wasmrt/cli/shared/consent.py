"""Show a tool's capabilities and missing secrets, and ask for a grant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from wasmrt.agent.builtin.extensions.missing import MissingSecret, missing_from
from wasmrt.agent.policy import ExternalFilter, decide_filter
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import CapabilityFile
from wasmrt.capabilities.sentences import explain, explain_added, tool_groups
from wasmrt.capabilities.services import Service, known_services
from wasmrt.cli.shared.output import Style, print_message
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import GrantRequiredError
from wasmrt.core.places import find_places
from wasmrt.core.tool_defaults import Offer
from wasmrt.core.url import Network


def explain_grant(capabilities: Capabilities) -> tuple[str, ...]:
    """Describe capabilities in sentences, with the services and exempted networks of the configuration file."""
    services, networks = _load_services()
    return explain(capabilities, services=services, networks=networks)


def explain_more(before: Capabilities, after: Capabilities) -> tuple[str, ...]:
    """Return the sentences on permissions of `after` that are new, as `capabilities.sentences.explain_added` does."""
    services, networks = _load_services()
    return explain_added(before, after, services=services, networks=networks)


def explain_groups(capabilities: Capabilities) -> dict[tuple[str, ...], list[str]]:
    """Group a package's tools by their permissions, as `capabilities.sentences.tool_groups` does."""
    services, networks = _load_services()
    return tool_groups(capabilities, services=services, networks=networks)


def describe_tool(name: str, description: str | None) -> str:
    """Return a tool's name with its description, marked as the author's words."""
    words = " ".join((description or "").split())
    return f"{name}, in its author's words: {words}" if words else name


def _load_services() -> tuple[tuple[Service, ...], tuple[Network, ...]]:
    """Return the known services, configured ones first, and the exempted networks."""
    path = find_places().config
    if not path.exists():
        return known_services(), ()
    from wasmrt.agent.config import read_config_file  # loads the network modules

    config = read_config_file(path)
    return (*config.services, *known_services()), config.network.networks


def print_request(title: str, sentences: Iterable[str], new: Sequence[str] = ()) -> None:
    """Print a tool's name, and below it what the tool would be allowed to do: new sentences first, marked and red."""
    print_message(title, Style.STRONG)
    for sentence in new:
        print_message(f"+ new: {sentence}", Style.ALARM, indent=2)
    for sentence in sentences:
        if sentence not in new:
            print_message(sentence, indent=4 if new else 2)


def print_difference(title: str, added: Iterable[str], other: Iterable[str]) -> None:
    """Print the changes of a grant: additions first and in red, then the other changes."""
    print_message(title)
    for sentence in added:
        print_message(f"+ {sentence}", Style.ALARM, indent=2)
    for sentence in other:
        print_message(sentence, indent=4)


class NotGrantedError(GrantRequiredError):
    """A denial with the details of the request, for programs that ask the user themselves."""

    def __init__(
        self, message: str, *, hint: str, asks: Sequence[str], changes: Sequence[str] = (), new: Sequence[str] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.asks = tuple(asks)
        self.changes = tuple(changes)
        self.new = tuple(new)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"asks": list(self.asks), "changes": list(self.changes), "new": list(self.new)}


def ask(name: str, *, for_agents: bool) -> None:
    """Ask for the grant on the terminal; `for_agents` is whether the tool stays offered to agents.

    Raises:
        GrantRequiredError: the user declined.
    """
    whose = ", which agents can use" if for_agents else ""
    if not click.confirm(f"Grant this to {name}{whose}?", default=False, err=True):
        raise GrantRequiredError(
            f"nothing was granted to {name}", hint="to grant only a part of the request, use --grant FILE"
        )


def ask_for_new(name: str, *, grants: bool) -> bool:
    """Ask on the terminal whether to install a new tool; return whether to offer it to agents, too.

    `grants` is whether the tool gets capabilities.

    Raises:
        GrantRequiredError: the user declined.
    """
    answer = ask_to_add(f"Grant this to {name}" if grants else f"Install {name}", "it")
    if answer is None:
        raise GrantRequiredError(
            f"{name} was not installed: nothing was granted",
            hint="to grant only a part of the request, use --grant FILE",
        )
    return answer


def ask_to_add(action: str, tools: str) -> bool | None:
    """Ask on the terminal whether to do `action`. Return None for no, else whether to offer the tools to agents."""
    print_message(f"{action}, and offer {tools} to the agents of this installation?", Style.STRONG)
    print_message("y: yes; me: yes, but only for the command line (wasmrt run); n: no", indent=2)
    answer: str = click.prompt("[y/me/N]", default="n", show_default=False, value_proc=_read_answer, err=True)
    return None if answer == "n" else answer == "y"


def ask_to_offer(name: str) -> None:
    """Ask on the terminal whether to offer an installed tool to agents.

    Raises:
        GrantRequiredError: the user declined.
    """
    if not click.confirm(f"Offer {name} to the agents of this installation?", default=False, err=True):
        raise GrantRequiredError(f"{name} was not offered to agents", hint=f"call it yourself: wasmrt run {name}")


def _read_answer(text: str) -> str:
    answer = {"yes": "y", "m": "me", "no": "n"}.get(text.strip().casefold(), text.strip().casefold())
    if answer not in ("y", "me", "n"):
        raise click.UsageError(f"expected y, me or n, got {text!r:.20}")
    return answer


def print_offer(what: str, tools: Iterable[str], offer: Offer) -> None:
    """Print whether agents can use tools under the configured filter, and the command that changes it.

    `what` is the text that the message uses for all tools together.
    """
    rule = _load_filter()
    decisions = [decide_filter(rule, name, external=True, offer=offer) for name in tools]
    found = [decision for decision in decisions if decision is not None]
    denials = [decision for decision in found if not decision.allowed]
    for denial in denials[:1]:
        denied = what if len(denials) == len(found) else f"{len(denials)} of them, such as {denial.subject}"
        print_message(f"agents cannot use {denied}: {denial.rule}; {denial.hint}")
    if found and not denials:
        changing = f" (wasmrt serve); to change this: {offer.command} --no-offer"
        print_message(f"agents can use {what}" + (changing if offer.agreed else f": {found[0].rule}"))


def _load_filter() -> ExternalFilter:
    path = find_places().config
    if not path.exists():
        return ExternalFilter()
    from wasmrt.agent.config import read_config_file  # loads the network modules

    return read_config_file(path).policy.filter


def missing_secrets(file: CapabilityFile, **settings: Any) -> list[MissingSecret]:
    """Return the secrets that a file needs and the store lacks; see `missing_from` for the settings."""
    return missing_from(file, open_secrets, **settings)


def print_missing(missing: Iterable[MissingSecret]) -> None:
    """Print a warning with the suggested fix for each missing secret."""
    for secret in missing:
        print_message(f"warning: {secret.problem}" + (f"; {secret.hint}" if secret.hint else ""))
