"""A request in lines for a person: everything of it in a form that no text of it can leave."""

from __future__ import annotations

import json
from collections.abc import Iterable

from wasmrt.approvals._model import ApprovalRequest
from wasmrt.terminal import in_one_line

_MAX_LINES = 40
_MAX_LINE = 200


def request_lines(request: ApprovalRequest, *, whole: bool = False) -> tuple[list[str], bool]:
    """Return a request in lines, and whether something was cut: long lines and long lists, unless the whole is wanted.

    SECURITY: tool, parameters and diff are chosen by others. Each of their lines is indented, and none of their
    characters reaches a terminal that could obey it.
    """
    effects = ", ".join(request.effects) or "nothing that is known"
    head = [
        f"{request.tool} waits for an approval ({request.id})",
        f"  for: {request.user}",
        f"  it may: {effects} (risk: {request.risk})",
        f"  asked because: {request.why.sentence}",
    ]
    escaped = [in_one_line(line) for line in head]
    lines = list(escaped) if whole else [_cut(line, 2 * _MAX_LINE) for line in escaped]
    parameters = json.dumps(request.params, ensure_ascii=False, indent=2).split("\n")
    shown, cut = _bounded(parameters, whole=whole)
    cut = cut or lines != escaped  # the head, so far
    lines += ["  parameters:", *shown]
    if request.preview:
        changes, cut_changes = _bounded(request.preview.split("\n"), whole=whole)
        lines += ["  changes:", *changes]
        cut = cut or cut_changes
    return lines, cut


def _bounded(lines: Iterable[str], *, whole: bool) -> tuple[list[str], bool]:
    escaped = [in_one_line(line) for line in lines]
    if whole:
        return [f"    {line}" for line in escaped], False
    shown = [f"    {_cut(line, _MAX_LINE)}" for line in escaped[:_MAX_LINES]]
    cut = len(escaped) > _MAX_LINES or any(len(line) > _MAX_LINE for line in escaped)
    if len(escaped) > _MAX_LINES:
        shown.append(f"   {_more(len(escaped) - _MAX_LINES, 'lines')}")
    return shown, cut


def _cut(line: str, limit: int) -> str:
    return line[:limit] + _more(len(line) - limit, "characters")


def _more(count: int, what: str) -> str:
    return f" ... {count:,} more {what}" if count > 0 else ""
