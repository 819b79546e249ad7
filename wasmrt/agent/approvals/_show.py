"""A request in lines for a person: everything of it in a form that no text of it can leave."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from wasmrt.agent.approvals._model import ApprovalRequest
from wasmrt.core.terminal import in_one_line

_MAX_LINES = 40
_MAX_LINE = 200
_MAX_HEAD_LINE = 400


def request_lines(request: ApprovalRequest, *, whole: bool = False) -> tuple[list[str], bool]:
    """Return a request in lines, and whether something was cut: long lines and long lists, unless the whole is wanted.

    SECURITY: tool, parameters and diff are chosen by others. Each of their lines is indented, and none of their
    characters reaches a terminal that could obey it.
    """
    effects = ", ".join(request.effects) or "nothing outside of itself"
    head = [
        f"approval {request.id}: {request.tool}",
        f"  for: {request.user}",
        f"  it may: {effects} (risk: {request.risk})",
        f"  asked because: {request.why.sentence}",
    ]
    lines, cut = bounded(head, _MAX_HEAD_LINE, whole=whole)
    for title, part in (
        ("where it comes from", origins_shown(request, whole=whole)),
        ("parameters", params_shown(request, whole=whole)),
        ("changes", changes_shown(request, whole=whole)),
    ):
        lines += [f"  {title}:", *(f"    {line}" for line in part.lines)] if part.lines else []
        cut = cut or part.cut
    return lines, cut


class Shown(NamedTuple):
    """Lines for a person, without what could drive a terminal, and whether something of them was cut or left out."""

    lines: list[str]
    cut: bool


def origins_shown(request: ApprovalRequest, *, whole: bool = False) -> Shown:
    """Return in lines where the values came from that a rule over flows asks about, cut as in `request_lines`."""
    return bounded(request.provenance, _MAX_LINE, whole=whole)


def params_shown(request: ApprovalRequest, *, whole: bool = False) -> Shown:
    """Return a request's parameters as lines of JSON, cut as in `request_lines`."""
    return bounded(json.dumps(request.params, ensure_ascii=False, indent=2).split("\n"), _MAX_LINE, whole=whole)


def changes_shown(request: ApprovalRequest, *, whole: bool = False) -> Shown:
    """Return the lines of a request's diff, cut as in `request_lines`; none where no file would change."""
    return bounded(request.preview.split("\n") if request.preview else [], _MAX_LINE, whole=whole)


def bounded(lines: Iterable[str], limit: int = _MAX_LINE, *, whole: bool) -> Shown:
    """Return lines of strangers in a form that no text of them can leave, cut as in `request_lines`."""
    escaped = [in_one_line(line) for line in lines]
    if whole:
        return Shown(escaped, False)
    shown = [line[:limit] + _more(len(line) - limit, "characters") for line in escaped[:_MAX_LINES]]
    if len(escaped) > _MAX_LINES:
        shown.append(_more(len(escaped) - _MAX_LINES, "lines").strip())
    return Shown(shown, shown != escaped)


def _more(count: int, what: str) -> str:
    return f" ... {count:,} more {what}" if count > 0 else ""
