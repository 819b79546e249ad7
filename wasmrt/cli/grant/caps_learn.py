"""`wasmrt caps learn`: run a tool, and build the narrowest capability file for the access that it requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from wasmrt.capabilities import (
    Capabilities,
    PatternProposal,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    find_missing_entries,
    propose_patterns,
    read_narrower_entry,
    with_added_entries,
    with_fewest_entries,
)
from wasmrt.capabilities.file import CapabilityFile, as_tree, format_file, parse
from wasmrt.catalog.find import FoundTool
from wasmrt.catalog.sources import read_capability_file
from wasmrt.cli.grant.caps_subject import find_tool_of, is_capability_file, write_capability_file
from wasmrt.cli.shared.options import json_option, workspace_option
from wasmrt.cli.shared.output import is_interactive, print_message, show, show_json
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import find_named, with_invoked
from wasmrt.core.errors import (
    ConfigurationError,
    InvalidParametersError,
    NotInstalledError,
    ToolError,
    UnknownToolError,
    WasmrtError,
)
from wasmrt.core.model import Addition, Decision

_MAX_ROUNDS = 100
_ANSWERS = ("y", "n", "narrower")
_FOLDERS = (WorkspaceCapability.grant_list, WorkspaceWriteCapability.grant_list)

Run = Callable[[Capabilities, str], list[Decision]]
"""Runs the tool once with a grant and params, and returns the denials."""


@click.command("learn")
@click.argument("tool", metavar="NAME_OR_PATH")
@click.argument("params", nargs=-1, metavar="[--] JSON...")
@click.option("--tool", "part", metavar="NAME", help="Which tool to run, if the component has several.")
@click.option(
    "--capabilities", type=click.Path(path_type=Path), metavar="FILE", help="Start from this file and add to it."
)
@click.option("--user", default="local", show_default=True, help="User whose rate limits apply.")
@click.option("--exact", is_flag=True, help="Keep exact paths, instead of proposing * for segments that differ.")
@workspace_option
@json_option
def learn(
    tool: str,
    params: tuple[str, ...],
    part: str | None,
    capabilities: Path | None,
    user: str,
    exact: bool,
    workspace: Path | None,
    as_json: bool,
) -> None:
    """Run a tool, and propose the narrowest file for the access that it requests. No installed tool's grant changes.

    On a terminal, the command asks about each denial and runs the tool again with the access that you allow, until
    there are no new denials. Every run is real: allowed requests are sent each time. Answer `narrower` to enter an
    entry that allows less than the suggested one.

    Without a terminal, the tool runs once, with the grant of --capabilities or none. A tool that stops at its first
    denial then shows one need per run.

    If requests differ only in some segments of their paths, such as the numbers of issues, the proposal has * for
    these segments, and the command lists the paths. --exact keeps the paths; on a terminal the command asks.

    With --workspace, the tool finds the folder, but can read a file only after you allow it.

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
        return _run_once(found._replace(grant=grant), text, part=part, user=user, workspace=workspace)

    texts = params or ("{}",)
    if as_json or not is_interactive():
        asked = list(dict.fromkeys(d for text in texts for d in run(start.capabilities, text)))
        _report(asked, start, exact=exact, as_json=as_json)
        return
    session = _Session(run, start.capabilities, part)
    try:
        for text in texts:
            session.learn(text)
        if not exact:
            session.ask_patterns()
    finally:  # print the answers given so far even after Ctrl-C
        made = replace(start, capabilities=session.grant)
        if session.has_answers or sys.exception() is None:
            session.report()
            show(format_file(made).removesuffix("\n"))
    if capabilities is not None and made != start and click.confirm(f"Write it to {capabilities.name}?", err=True):
        write_capability_file(capabilities, format_file(made))
        print_message(f"wrote {capabilities.name}")


class _Session:
    """The user's answers about one tool."""

    def __init__(self, run: Run, grant: Capabilities, part: str | None) -> None:
        self._run = run
        self._part = part
        self._start = self.grant = grant
        self._allowed: list[Addition] = []
        self._answered: dict[tuple[str, str], bool] = {}

    def learn(self, text: str) -> None:
        """Run the tool until the user has answered about every denial."""
        for _ in range(_MAX_ROUNDS):
            before = len(self._allowed)
            for decision in dict.fromkeys(self._run(self.grant, text)):
                self._consider(decision)
            if len(self._allowed) == before:
                return
            self.grant = with_added_entries(self._start, self._allowed, self._part)
            print_message("running it again with the access that you allowed")
        print_message(f"it still requests more after {_MAX_ROUNDS} runs; to continue, start from the file below")

    @property
    def has_answers(self) -> bool:
        """True if the user has answered about a denial."""
        return bool(self._answered)

    def ask_patterns(self) -> None:
        """Ask whether patterns should replace the paths that they cover."""
        proposals = propose_patterns(self._allowed)
        _print_patterns(proposals)
        if proposals and click.confirm("Allow these patterns instead of the exact paths?", default=False, err=True):
            self.grant = with_added_entries(self._start, _with_patterns(self._allowed, proposals), self._part)

    def report(self) -> None:
        """Print the number of answers."""
        refused = sum(not allowed for allowed in self._answered.values())
        if not self._answered:
            _print_no_requests(is_new=self._start == Capabilities.none())
        else:
            print_message(f"{len(self._allowed)} allowed, {refused} not; the capability file:")

    def _consider(self, decision: Decision) -> None:
        use = (decision.capability, decision.subject)
        if (allowed := self._answered.get(use)) is not None:
            if allowed:
                self._answered[use] = False
                print_message(f"the entry that you allowed does not cover {decision.subject or decision.capability}")
            return
        suggestion = decision.suggestion
        _print_refusal(decision)
        entry = _ask(decision, suggestion) if isinstance(suggestion, Addition) else None
        if suggestion is not None and not isinstance(suggestion, Addition):
            print_message(f"  no capability file can allow it: {suggestion.hint}")
        self._answered[use] = entry is not None
        if entry is not None:
            self._allowed.append(entry)


def _print_refusal(decision: Decision) -> None:
    print_message(f"requested: {decision.subject or decision.capability} ({decision.reason}: {decision.rule})")


def _print_no_requests(*, is_new: bool) -> None:
    print_message("the tool requested no access" if is_new else "the tool requested no more access")


def _ask(decision: Decision, addition: Addition) -> Addition | None:
    """Ask the user about a denial, and return the entry to add, or None to leave it denied."""
    print_message(f"  to allow it, {addition.hint}")
    while True:
        typed = click.prompt("allow this? y / n / narrower", err=True, prompt_suffix=" ").strip().lower()
        answer = next((known for known in _ANSWERS if typed and known.startswith(typed)), None) or typed
        if typed == "n" or answer in ("no", "n"):
            return None
        if answer in ("y", "yes"):
            return _ask_alias_tools(addition)
        if answer == "narrower" and (entry := _ask_narrower(decision, addition)) is not None:
            return entry


def _ask_narrower(decision: Decision, addition: Addition) -> Addition | None:
    """Ask for an entry, and return it if it allows no more than the suggested one."""
    offered = json.dumps(decision.subject) if addition.to in _FOLDERS else addition.entry
    typed = click.prompt(f"the entry of {addition.to}, as JSON", default=offered, err=True)
    try:
        return read_narrower_entry(addition, typed)
    except ConfigurationError as error:
        problem = "the entry is not narrower" if error.code == "wider" else "the entry cannot be used"
        print_message(f"{problem}: {error.message}")
        return None


def _ask_alias_tools(addition: Addition) -> Addition:
    """Ask for the installed tool behind each alias of an entry; return the entry with these tools filled in."""
    if addition.to != ToolInvokeCapability.grant_list:
        return addition
    aliases = {}
    for alias in json.loads(addition.entry):
        aliases[alias] = click.prompt(f"which installed tool is {alias}?", default=_find_name(alias), err=True)
    return addition._replace(entry=json.dumps(aliases))


def _find_name(name: str) -> str | None:
    try:
        return find_named(name).name
    except WasmrtError:
        return None


def _run_once(found: FoundTool, text: str, *, part: str | None, user: str, workspace: Path | None) -> list[Decision]:
    """Run the tool once, and return its denials, also if the call fails."""
    tools = with_invoked(found)
    with open_runtime(*(each.grant for each in tools), workspace=workspace) as runtime:
        prepared, *_ = [prepare(runtime, each.name, each.component, each.grant, tools=each.tools) for each in tools]
        try:
            tool = prepared if part is None else prepared.tool(part)
            decisions = tool.execute(text, None, user).decisions
        except (InvalidParametersError, NotInstalledError, UnknownToolError):
            raise
        except ToolError as error:
            print_message(f"the tool ended with: {error.message}")
            decisions = error.decisions
    return [decision for decision in decisions if not decision.allowed]


def _print_patterns(proposals: Iterable[PatternProposal]) -> None:
    for proposal in proposals:
        print_message(f"proposed for {len(proposal.seen)} similar requests: {proposal.entry.entry}")
        for each in proposal.seen:
            print_message(f"seen: {each.entry}", indent=2)


def _with_patterns(additions: Iterable[Addition], proposals: Sequence[PatternProposal]) -> list[Addition]:
    """Replace the additions that a proposal covers by the proposal; return the other additions unchanged."""
    covered = {each for proposal in proposals for each in proposal.seen}
    return [*(each for each in additions if each not in covered), *(proposal.entry for proposal in proposals)]


def _report(asked: Iterable[Decision], start: CapabilityFile, *, exact: bool, as_json: bool) -> None:
    asked = list(asked)
    for decision in asked:
        _print_refusal(decision)
    if not asked:
        _print_no_requests(is_new=start == CapabilityFile())
    additions = list(find_missing_entries(asked))
    patterns = [] if exact else propose_patterns(additions)
    proposal = replace(start, capabilities=with_fewest_entries(start.capabilities, _with_patterns(additions, patterns)))
    if patterns and not as_json:
        _print_patterns(patterns)
        print_message("--exact keeps the exact paths")
    if as_json:
        tree = json.loads(format_file(proposal)) if start != CapabilityFile() else as_tree(proposal.capabilities)
        show_json(
            {
                "asked": [decision.as_dict() for decision in asked],
                "proposal": tree,
                "patterns": [each.as_dict() for each in patterns],
            }
        )
    else:
        show(format_file(proposal).removesuffix("\n"))
