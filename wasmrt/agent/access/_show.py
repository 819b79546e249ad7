"""An access request in lines for a person: our words at the margin, everything that others chose indented as data."""

from __future__ import annotations

from wasmrt.agent.access._model import AccessRequest
from wasmrt.agent.approvals import Shown, bounded

_WORDS = {"once": "once", "session": "for this session", "keep": "for good"}


def access_parts(request: AccessRequest, *, whole: bool = False) -> list[tuple[str, Shown]]:
    """Return the parts of a request that have lines, each with its title.

    SECURITY: tools and models choose paths, hosts and parameters. None of their characters reaches a terminal that
    could obey it, and none stands in a sentence of ours.
    """
    wish = request.wish
    parts = (
        ("the line", (wish.addition.hint,)),
        ("it would allow", wish.sentences),
        ("with it goes", wish.limited),
        ("allowed once before, and needed again", tuple(each.hint for each in wish.again)),
        ("refused", (wish.refused,) if wish.refused else ()),
        ("where it comes from", wish.origins),
        ("parameters of the call", tuple(wish.params.split("\n")) if wish.params else ()),
    )
    return [(title, bounded(lines, whole=whole)) for title, lines in parts if lines]


def access_lines(request: AccessRequest, *, whole: bool = False) -> tuple[list[str], bool]:
    """Return a request in lines, and whether something was cut: long lines and long lists, unless all is wanted."""
    head = bounded(
        (
            f"access {request.id}: {request.caller.tool} asks for one entry more of its grant",
            f"  for: {request.caller.user}",
            f"  asked: {asked_words(request)}, first by call {request.wish.call}",
            f"  it can hold: {', '.join(_WORDS[scope] for scope in request.scopes)}",
        ),
        whole=True,
    )
    lines, cut = list(head.lines), False
    for title, part in access_parts(request, whole=whole):
        lines += [f"  {title}:", *(f"    {line}" for line in part.lines)]
        cut = cut or part.cut
    return lines, cut


def asked_words(request: AccessRequest) -> str:
    """Return the number of calls that asked, in words."""
    return "once" if request.asked == 1 else f"{request.asked:,} times"


def granted_words(request: AccessRequest) -> str:
    """Return in words how a request was answered, or ended."""
    if request.scope is None:
        return str(request.state)
    if request.granted is None:
        reach = "for good" if request.scope == "keep" else "for this session" if request.wish.lasting else "this time"
        return f"denied ({reach})"
    narrower = "" if request.granted.entry == request.wish.addition.entry else f", narrower: {request.granted.entry}"
    return f"granted {_WORDS[request.scope]}{narrower}"
