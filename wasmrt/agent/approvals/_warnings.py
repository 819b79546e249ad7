"""Find what is unusual about a request: evidence of steering, secrets, look-alike hosts, hidden text, and loss."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from wasmrt.agent.approvals._model import ApprovalRequest
from wasmrt.agent.approvals._targets import Targets
from wasmrt.agent.approvals._words import Phrase, Quoted, end_of, shorten_middle, start_of
from wasmrt.core.effects import EVERY_EFFECT, Effect
from wasmrt.core.terminal import to_single_line
from wasmrt.core.url import InvalidUrlError, parse_url

_STOPPING = {
    "untrusted-destination": "You did not name this destination. Others wrote it:",
    "carried-link": "The call sends a link that you did not name. Others wrote it:",
}
_FLOWS = {
    "unsaid-destination": ("You did not name this destination.", ""),
    "new-host": ("New host:", " you did not name this host."),
    "private-body": ("Private text:", " the call sends text that was read from your files, memory or mail."),
    "payment": ("Payment:", " you did not name every value."),
    "unstated-action": ("Action:", " you did not request it."),
    "hidden-file": ("Hidden file:", " you did not name it."),
}
_PRIVATE_LINE = "the payload includes private text read earlier in this trace"
_LOSING = re.compile(
    r"(?<![\w-])(?:--force(?:-with-lease)?|--hard|--no-verify|-rf?|-fr|--delete|--purge|--no-preserve-root|rm|rmdir|shred"
    r"|dd|mkfs[.\w]*|truncate|sudo|doas|chmod|chown|kill|killall|drop|reset|clean)(?![\w-])",
    re.IGNORECASE,
)
_PIPED_SHELL = re.compile(r"\|\s*(?:sudo\s+)?(?:\S*/)?(?:(?:ba|da|z|k|fi)?sh|python|perl|ruby|node)[\d.]*\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """One unusual property of a request."""

    title: str
    text: Phrase = ()
    quotation: tuple[str, ...] = ()
    """Untrusted lines, with their source."""
    is_severe: bool = False
    """True if it is evidence that others steer the call."""


def find_cautions(request: ApprovalRequest, targets: Targets) -> tuple[Caution, ...]:
    """Return the unusual facts of a request; evidence that untrusted text caused the call comes first."""
    found = (*_iter_flows(request), *_iter_hosts(targets), *_iter_new(request), *_iter_effects(request, targets),
             *_iter_texts(request))  # fmt: skip
    return tuple(sorted(found, key=lambda each: not each.is_severe))


def _iter_flows(request: ApprovalRequest) -> Iterator[Caution]:
    rule = request.why.rule.partition(": ")[0].removeprefix("flows.") if request.why.rule.startswith("flows.") else ""
    lines = tuple(request.provenance)
    if rule in _STOPPING:
        quoted = tuple(line for line in lines if line.startswith("  "))  # sentences and their sources
        yield Caution(title=_STOPPING[rule], quotation=quoted, is_severe=True)
    elif rule in _FLOWS:
        title, text = _FLOWS[rule]
        yield Caution(title=title, text=(text,))
    if _PRIVATE_LINE in lines and rule != "private-body":
        title, text = _FLOWS["private-body"]
        yield Caution(title=title, text=(text,))


def _iter_hosts(targets: Targets) -> Iterator[Caution]:
    for url in targets.urls:
        try:
            parsed = parse_url(url)
        except InvalidUrlError:
            if "://" in url or "@" in url or not url.isascii():
                yield Caution(
                    title="Unclear address:",
                    text=(" programs can take different parts of ", Quoted(end_of(url)), " for the host."),
                )
            continue
        if any(label.startswith("xn--") for label in parsed.host.split(".")):
            yield Caution(
                title="Look-alike letters:",
                text=(" ", Quoted(end_of(parsed.host)), " is code for a name that can look like another one."),
            )
        if parsed.address is not None:
            yield Caution(title="No host name:", text=(" the address is ", Quoted(end_of(parsed.host)), "."))
        if parsed.scheme == "http":
            yield Caution(title="Not encrypted:", text=(" others on the network can read and change it.",))
    for address in (*targets.recipients, *targets.others):
        if not address.isascii():
            yield Caution(
                title="Look-alike letters:", text=(" ", Quoted(end_of(address)), " can look like another address.")
            )


def _iter_new(request: ApprovalRequest) -> Iterator[Caution]:
    if request.new_hosts:
        more = f" and {len(request.new_hosts) - 1} more" if len(request.new_hosts) > 1 else ""
        yield Caution(title="First request to", text=(" ", Quoted(end_of(request.new_hosts[0])), f"{more}."))


def _iter_effects(request: ApprovalRequest, targets: Targets) -> Iterator[Caution]:
    effects = frozenset(request.effects)
    if effects >= EVERY_EFFECT:
        yield Caution(title="No declared effects:", text=(" the tool may do anything that its program can do.",))
    elif Effect.USE_SECRET in effects:
        yield Caution(title="Uses a stored credential.", text=(" The agent does not see its value.",))
    if targets.command:
        words = tuple(dict.fromkeys(found[0] for found in _LOSING.finditer(targets.command)))
        if words:
            yield Caution(
                title="May be irreversible:", text=(" it contains ", Quoted(start_of(", ".join(words), 60)), ".")
            )
        if _PIPED_SHELL.search(targets.command):
            yield Caution(title="Runs what it receives:", text=(" the output of one program is run as commands.",))
    elif effects & {Effect.DELETE_FILESYSTEM, Effect.WRITE_FILESYSTEM}:
        outside = [path for path in targets.paths if path.startswith(("/", "~")) or ".." in re.split(r"[/\\]", path)]
        if outside:
            yield Caution(title="May be outside the workspace:", text=(" ", Quoted(shorten_middle(outside[0])), "."))


def _iter_texts(request: ApprovalRequest) -> Iterator[Caution]:
    text = json.dumps(request.params, ensure_ascii=False)
    if to_single_line(text) != text:
        yield Caution(
            title="Hidden characters:", text=(" some are invisible or change the order. They are shown as \\u....",)
        )
