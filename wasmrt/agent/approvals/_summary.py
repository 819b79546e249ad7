"""Summarize a request for an approver: what the call does, why it requires approval, and what is unusual.

SECURITY: effects, the kind of call and the real parameters decide, never the description of the tool. All surfaces show
this summary: the terminal, the form of an MCP client, and the pages. Untrusted text is a `Quoted` part of a phrase.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from wasmrt.agent.approvals._model import ApprovalRequest
from wasmrt.agent.approvals._targets import FILE_EFFECTS, RUNNING, Targets, find_targets
from wasmrt.agent.approvals._warnings import Caution, find_cautions
from wasmrt.agent.approvals._words import Phrase, Quoted, end_of, shorten_middle, start_of, to_plain_text
from wasmrt.agent.flows import PROPOSE_PLAN, Plan
from wasmrt.core.effects import EVERY_EFFECT, Effect, in_words
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import InvalidUrlError, parse_url

_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_KINDS: tuple[tuple[Effect, str], ...] = (
    (Effect.FINANCIAL, "Spends money"),
    (Effect.DELETE_FILESYSTEM, "Deletes files"),
    (Effect.MODIFY_TOOLS, "Changes tools"),
    (Effect.CONTROL_DESKTOP, "Uses the mouse or the keyboard"),
    (Effect.SPAWN_PROCESS, "Runs a command"),
    (Effect.EXECUTE_CODE, "Runs code"),
    (Effect.EXTERNAL_WRITE, "Sends data out"),
    (Effect.WRITE_FILESYSTEM, "Changes files"),
    (Effect.WRITE_MEMORY, "Changes its memory"),
    (Effect.WRITE_DESKTOP, "Changes the clipboard"),
    (Effect.READ_DESKTOP, "Reads the clipboard or the screen"),
    (Effect.NETWORK, "Uses the network"),
    (Effect.READ_FILESYSTEM, "Reads files"),
)
"""Effects, the most serious first. The first of them that a call has selects the headline."""
_FLOW_REASONS = {
    "untrusted-destination": "Only text that others wrote names this destination.",
    "carried-link": "The call sends on a link that only text of others contains.",
    "unsaid-destination": "You did not name this destination, and private and untrusted text was read before.",
    "new-host": "You did not name this host, and private and untrusted text was read before.",
    "private-body": "The call would send private text that was read before.",
    "deletion": "You did not request this deletion, and untrusted text was read before.",
    "payment": "You did not name every value of this payment.",
    "unstated-action": "You did not request this action, and untrusted text was read before.",
    "hidden-file": "You did not name this hidden file, and untrusted text was read before.",
}
_CLAIMS = frozenset(["reason", "justification", "explanation", "rationale", "purpose"])
"""Parameters in which agents state why they make a call."""
_MAIL_PARTS = ("subject", "text", "body", "message")
_LABELS = {
    "body": "Body", "text": "Text", "subject": "Subject", "message": "Message", "to": "To", "cc": "Cc", "bcc": "Bcc",
    "path": "Path", "paths": "Paths", "files": "Files", "method": "Method", "command": "Command",
    "content": "Content", "headers": "Headers", "query": "Query", "cwd": "Folder", "workdir": "Folder",
    "amount": "Amount", "payee": "Payee", "account": "Account", "iban": "Account",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One parameter of a call, in a readable form."""

    label: str
    """wasmrt's label of a common parameter; empty for others."""
    name: str
    """The name of the parameter. It is untrusted."""
    value: str
    """The whole value: a string as it is, other values as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The first lines that an approver reads."""

    kind: str
    headline: Phrase
    effects: tuple[Effect, ...]
    """The effects of the call; for a proposed plan, those of the calls that it would approve."""
    reason: Phrase
    claim: Detail | None
    """The parameter in which the agent states its own reason. It proves nothing; None if the call has none."""
    cautions: tuple[Caution, ...]
    details: tuple[Detail, ...]
    covers: Phrase
    """The calls to which an answer for the session applies."""

    @property
    def has_severe_caution(self) -> bool:
        """True if there is evidence that others steer the call."""
        return any(each.is_severe for each in self.cautions)


def summarize(request: ApprovalRequest) -> Summary:
    """Return the summary of a request. A call that cannot be summarized is named by its tool and effects."""
    targets = find_targets(request.params)
    planned = _find_planned_effects(request)
    effects = planned or frozenset(request.effects)
    kind = next((words for effect, words in _KINDS if effect in effects), "Has no effects")
    headline = None if effects >= EVERY_EFFECT else _find_headline(request, targets)
    subject = "its calls" if request.tool == PROPOSE_PLAN else "it"
    details = tuple(_iter_details(request))
    return Summary(
        kind="May do anything" if effects >= EVERY_EFFECT else kind,
        headline=headline or ("Use ", Quoted(start_of(request.tool, 48)), f": {subject} may {in_words(effects)}"),
        effects=tuple(sorted(planned)) or request.effects,
        reason=_explain(request),
        cautions=find_cautions(request, targets),
        claim=next(filter(partial(_is_claim, request), details), None),
        details=details,
        covers=_describe_reach(request, targets),
    )


def _is_claim(request: ApprovalRequest, detail: Detail) -> bool:
    value = request.params[detail.name]
    return detail.name.lower() in _CLAIMS and isinstance(value, str) and bool(value.strip())


def _find_planned_effects(request: ApprovalRequest) -> frozenset[Effect]:
    """Return the effects of the calls that a proposed plan would approve. For other requests, return no effects."""
    try:
        return Plan.of(request.params["plan"]).effects if request.tool == PROPOSE_PLAN else frozenset()
    except (ConfigurationError, KeyError):
        return EVERY_EFFECT


def headline_text(request: ApprovalRequest) -> str:
    """Return the headline as one line of text."""
    return to_plain_text(summarize(request).headline)


def _find_headline(request: ApprovalRequest, targets: Targets) -> Phrase | None:
    effects = frozenset(request.effects)
    makers: tuple[tuple[Effect, Callable[[Targets, frozenset[Effect]], Phrase | None]], ...] = (
        (Effect.FINANCIAL, _describe_payment),
        (Effect.DELETE_FILESYSTEM, _describe_deletion),
        (Effect.MODIFY_TOOLS, lambda *_: None),
        (Effect.CONTROL_DESKTOP, lambda *_: None),
        (Effect.SPAWN_PROCESS, _describe_command),
        (Effect.EXECUTE_CODE, _describe_command),
        (Effect.EXTERNAL_WRITE, _describe_sending),
        (Effect.WRITE_FILESYSTEM, lambda targets, _: _describe_files("Change", targets)),
        (Effect.WRITE_MEMORY, lambda *_: None),
        (Effect.WRITE_DESKTOP, lambda *_: None),
        (Effect.READ_DESKTOP, lambda *_: None),
        (Effect.NETWORK, _describe_fetching),
        (Effect.READ_FILESYSTEM, lambda targets, _: _describe_files("Read", targets)),
    )
    make = next((make for effect, make in makers if effect in effects), None)
    return None if make is None or targets.cut else make(targets, effects)


def _describe_payment(targets: Targets, effects: frozenset[Effect]) -> Phrase | None:
    payees = (*targets.recipients, *targets.others)
    if len(targets.amounts) != 1 or len(payees) != 1 or targets.hosts:
        return None
    return "Pay ", Quoted(start_of(targets.amounts[0], 24)), " to ", Quoted(start_of(payees[0], 45))


def _describe_deletion(targets: Targets, effects: frozenset[Effect]) -> Phrase | None:
    if targets.hosts or targets.recipients or Effect.EXTERNAL_WRITE in effects:
        return None
    return _describe_files("Change or delete" if Effect.WRITE_FILESYSTEM in effects else "Delete", targets)


def _describe_command(targets: Targets, effects: frozenset[Effect]) -> Phrase | None:
    if not targets.command.strip():
        return None
    return "Run ", Quoted(start_of(targets.command.strip().split("\n")[0], 90))


def _describe_sending(targets: Targets, effects: frozenset[Effect]) -> Phrase | None:
    if targets.hosts and not targets.recipients:
        verb = f"{targets.method} to " if targets.method else "Send data to "
        return verb, *_quote_first(targets.hosts, end_of)
    if targets.recipients and not targets.urls:
        return "Send mail to ", *_quote_first((*targets.recipients, *targets.others), end_of)
    if targets.others and not targets.urls:
        return "Send to ", *_quote_first(targets.others, end_of)
    return None


def _describe_fetching(targets: Targets, effects: frozenset[Effect]) -> Phrase | None:
    if not targets.hosts:
        return None
    if targets.method and targets.method not in _READING_METHODS:
        return f"{targets.method} to ", *_quote_first(targets.hosts, end_of)
    return "Read from ", *_quote_first(targets.hosts, end_of)


def _describe_files(verb: str, targets: Targets) -> Phrase | None:
    if not targets.paths:
        return None
    if len(targets.paths) == 1:
        return f"{verb} ", Quoted(shorten_middle(targets.paths[0]))
    folders = {posixpath.dirname(path.rstrip("/")) for path in targets.paths}
    if len(folders) == 1 and (folder := folders.pop()):
        return f"{verb} {len(targets.paths)} files in ", Quoted(shorten_middle(f"{folder.rstrip('/')}/"))
    return f"{verb} {len(targets.paths)} files: ", *_quote_first(targets.paths, shorten_middle)


def _quote_first(values: tuple[str, ...], shorten: Callable[[str], str]) -> Phrase:
    more = f" and {len(values) - 1} more" if len(values) > 1 else ""
    return (Quoted(shorten(values[0])), *((more,) if more else ()))


def _explain(request: ApprovalRequest) -> Phrase:
    """Return the reason for the request. Text that wasmrt did not write is quoted."""
    rule = request.why.rule
    flow = next((words for name, words in _FLOW_REASONS.items() if rule.startswith(f"flows.{name}: ")), None)
    if flow is not None:
        return (flow,)
    if rule == f"the call can {in_words(frozenset(request.effects))}":
        return (f"Calls that can {in_words(frozenset(request.effects))} require approval.",)
    known = {"the tool requires it": "The tool asks for it.", "its package requires it": "Its package asks for it."}
    return (known[rule],) if rule in known else (Quoted(request.why.refusal),)


def _describe_reach(request: ApprovalRequest, targets: Targets) -> Phrase:
    """Return the calls to which an answer for the session applies, in the words of `session_reach`."""
    tool = Quoted(start_of(request.tool, 48))
    effects = frozenset(request.effects)
    if targets.cut or effects & RUNNING:
        return tool, " with exactly these parameters"
    places = (*targets.hosts, *targets.recipients, *targets.others)
    if places:
        verb = f"{targets.method} to " if targets.method else "to "
        amount = " with the same amount" if targets.amounts else ""
        others = "The rest of the address and texts" if targets.hosts else "Texts"
        return tool, ": ", verb, *_quote_first(places, end_of), f"{amount}. {others} may differ"
    if targets.paths and effects <= FILE_EFFECTS:
        return tool, " with files in the same folders. Other parameters may differ"
    return tool, " with the same action, targets and identifiers. Other parameters may differ"


def _iter_details(request: ApprovalRequest) -> Iterable[Detail]:
    names = sorted(request.params, key=lambda name: name.lower() in _MAIL_PARTS)  # texts last: they are long
    for name in names:
        value = request.params[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        label = _LABELS.get(name.lower(), "")
        if isinstance(value, str) and (target := _get_unambiguous_url(value)):
            yield Detail(label="Address", name=name, value=target)
        else:
            yield Detail(label=label, name=name, value=text)


def _get_unambiguous_url(value: str) -> str:
    """Return a URL as a whole if it is unambiguous, otherwise an empty string."""
    try:
        parse_url(value)
    except InvalidUrlError:
        return ""
    return value
