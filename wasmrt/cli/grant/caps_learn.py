"""`wasmrt caps learn`: the narrowest capability file for what a tool asks, put together with a person or without."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import click

from wasmrt.capabilities import Capabilities, extended, grown, narrowed, wanted
from wasmrt.capabilities.file import CapabilityFile, as_tree, format_file, parse
from wasmrt.catalog.find import FoundTool
from wasmrt.catalog.sources import read_capability_file
from wasmrt.cli.grant.caps_subject import find_tool_of, is_capability_file, write_capability_file
from wasmrt.cli.shared.options import json_option, workspace_option
from wasmrt.cli.shared.output import is_interactive, print_message, show, show_json
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import find_named, with_invoked
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, NotInstalledError, ToolError, WasmrtError
from wasmrt.core.model import Addition, Decision, GrantList

_MAX_ROUNDS = 100
_ANSWERS = ("y", "n", "narrower")
_FOLDERS = (GrantList.WORKSPACE, GrantList.WORKSPACE_WRITE)

Run = Callable[[Capabilities, str], list[Decision]]
"""Runs the tool once under a grant with params, and returns what was refused."""


@click.command("learn")
@click.argument("tool", metavar="NAME_OR_PATH")
@click.argument("params", nargs=-1, metavar="[--] JSON...")
@click.option("--tool", "part", metavar="NAME", help="Which tool, where the component holds several.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Start from what this file allows, and add to it.",
)
@click.option("--user", default="local", show_default=True, help="Whose rate limits count.")
@workspace_option
@json_option
def learn(
    tool: str,
    params: tuple[str, ...],
    part: str | None,
    capabilities: Path | None,
    user: str,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Run a tool, and propose the narrowest file for what it asked. It grants nothing to an installed tool.

    On a terminal it asks about each refusal, and runs the tool again with what you allow, until nothing new is
    refused. What you allow is really done, in every run: requests are sent. At a question, `narrower` takes an entry
    of your own that allows less than what was asked.

    Without a terminal it runs once, without any grant or with that of --capabilities, and allows nothing: a tool that
    stops at its first refusal shows one need at a time.

    With --workspace, a tool that looks for files finds the folder, and none of its files may be read before you allow
    it.

    \b
    Examples:
      wasmrt caps learn ./search.wasm -- '{"query": "a"}' '{"query": "b"}'
      wasmrt caps learn ./search.wasm --capabilities own.json -- '{"query": "a"}'
      wasmrt caps learn ./count.wasm --workspace . -- '{"path": "notes/today.md"}'
    """
    found = find_tool_of(tool)
    if capabilities is None and is_capability_file(tool):
        capabilities = Path(tool)
    start = CapabilityFile() if capabilities is None else parse(read_capability_file(capabilities))

    def run(grant: Capabilities, text: str) -> list[Decision]:
        return _refused(found._replace(grant=grant), text, part=part, user=user, workspace=workspace)

    texts = params or ("{}",)
    if as_json or not is_interactive():
        asked = list(dict.fromkeys(d for text in texts for d in run(start.capabilities, text)))
        _report(asked, start, as_json=as_json)
        return
    session = _Session(run, start.capabilities, part)
    try:
        for text in texts:
            session.learn(text)
    finally:  # also where the person went away: nothing that was answered is lost
        session.report()
        made = replace(start, capabilities=session.grant)
        show(format_file(made).removesuffix("\n"))
    if capabilities is not None and made != start and click.confirm(f"Write it to {capabilities.name}?", err=True):
        write_capability_file(capabilities, format_file(made))
        print_message(f"wrote {capabilities.name}")


class _Session:
    """A person's answers about one tool."""

    def __init__(self, run: Run, grant: Capabilities, part: str | None) -> None:
        self._run = run
        self._part = part
        self._start = self.grant = grant
        self._allowed: list[Addition] = []
        self._answered: dict[tuple[str, str], bool] = {}

    def learn(self, text: str) -> None:
        """Run the tool until nothing is refused that was not asked about."""
        for _ in range(_MAX_ROUNDS):
            before = len(self._allowed)
            for decision in dict.fromkeys(self._run(self.grant, text)):
                self._consider(decision)
            if len(self._allowed) == before:
                return
            self.grant = grown(self._start, self._allowed, self._part)
            print_message("running it again with what you allowed")
        print_message(f"it still asks for more after {_MAX_ROUNDS} runs; start again from what is below")

    def report(self) -> None:
        """Say how it went."""
        refused = sum(not allowed for allowed in self._answered.values())
        if not self._answered:
            print_message("the tool asked for nothing" + ("" if self._start == Capabilities.none() else " more"))
        else:
            print_message(f"{len(self._allowed)} allowed, {refused} not; what a file would say:")

    def _consider(self, decision: Decision) -> None:
        what = (decision.capability, decision.subject)
        if (allowed := self._answered.get(what)) is not None:
            if allowed:
                self._answered[what] = False
                print_message(f"what you allowed does not cover {decision.subject or decision.capability}")
            return
        suggestion = decision.suggestion
        _tell(decision)
        entry = _ask(decision, suggestion) if isinstance(suggestion, Addition) else None
        if suggestion is not None and not isinstance(suggestion, Addition):
            print_message(f"  no capability file can allow it: {suggestion.hint}")
        self._answered[what] = entry is not None
        if entry is not None:
            self._allowed.append(entry)


def _tell(decision: Decision) -> None:
    print_message(f"asked: {decision.subject or decision.capability} ({decision.reason}: {decision.rule})")


def _ask(decision: Decision, addition: Addition) -> Addition | None:
    """Ask a person about a refusal, and return the entry to add; None for no."""
    print_message(f"  to allow it, {addition.hint}")
    while True:
        said = click.prompt("allow this? y / n / narrower", err=True, prompt_suffix=" ").strip().lower()
        answer = next((known for known in _ANSWERS if said and known.startswith(said)), None) or said
        if said == "n" or answer in ("no", "n"):
            return None
        if answer in ("y", "yes"):
            return _named(addition)
        if answer == "narrower" and (entry := _narrower(decision, addition)) is not None:
            return entry


def _narrower(decision: Decision, addition: Addition) -> Addition | None:
    """Ask for an entry, and return it where it allows no more than the one that was suggested."""
    offered = json.dumps(decision.subject) if addition.to in _FOLDERS else addition.entry
    typed = click.prompt(f"the entry of {addition.to}, as JSON", default=offered, err=True)
    try:
        return narrowed(addition, typed)
    except ConfigurationError as error:
        told = "that is no narrower" if error.code == "wider" else "it cannot be used"
        print_message(f"{told}: {error.message}")
        return None


def _named(addition: Addition) -> Addition:
    """Return the entry, with the tool that is meant by an alias: only a person knows."""
    if addition.to is not GrantList.TOOLS:
        return addition
    aliases = {}
    for alias in json.loads(addition.entry):
        aliases[alias] = click.prompt(f"which installed tool is {alias}?", default=_installed(alias), err=True)
    return addition._replace(entry=json.dumps(aliases))


def _installed(name: str) -> str | None:
    try:
        return find_named(name).name
    except WasmrtError:
        return None


def _refused(found: FoundTool, text: str, *, part: str | None, user: str, workspace: Path | None) -> list[Decision]:
    """Run once; every refusal is kept, whether the run ends well or not."""
    tools = with_invoked(found)
    with open_runtime(*(each.grant for each in tools), workspace=workspace) as runtime:
        prepared, *_ = [prepare(runtime, each.name, each.component, each.grant, tools=each.tools) for each in tools]
        try:
            tool = prepared if part is None else prepared.tool(part)
            decisions = tool.execute(text, None, user).decisions
        except (InvalidParametersError, NotInstalledError):
            raise
        except ToolError as error:
            print_message(f"the tool ended with: {error.message}")
            decisions = error.decisions
    return [decision for decision in decisions if not decision.allowed]


def _report(asked: Iterable[Decision], start: CapabilityFile, *, as_json: bool) -> None:
    asked = list(asked)
    for decision in asked:
        _tell(decision)
    if not asked:
        print_message("the tool asked for nothing" + ("" if start == CapabilityFile() else " more"))
    proposal = replace(start, capabilities=extended(start.capabilities, wanted(asked)))
    if as_json:
        tree = json.loads(format_file(proposal)) if start != CapabilityFile() else as_tree(proposal.capabilities)
        show_json({"asked": [decision.as_dict() for decision in asked], "proposal": tree})
    else:
        show(format_file(proposal).removesuffix("\n"))
