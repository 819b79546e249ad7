"""`wasmrt approvals`: list and answer pending requests, and manage remembered answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from wasmrt.agent.access import AccessChoice, AccessRequest, AccessScope, describe_answer, describe_asking
from wasmrt.agent.approvals import (
    ApprovalScope,
    ApprovalStore,
    Choice,
    QueuedRequest,
    Remembered,
    State,
    Wide,
    Widening,
    choose,
    current_user_name,
    describe_reach,
    headline_text,
    request_lines,
)
from wasmrt.cli.grant.access import access_scope, access_store, answer_access_request, is_access, show_access
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json
from wasmrt.core.errors import ApprovalError, ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import store_place

if TYPE_CHECKING:
    from pathlib import Path

    from wasmrt.agent.builtin.code_mode import WaitingRun
    from wasmrt.core.postgres import Postgres

user_option = click.option("--user", default="local", show_default=True, help="User who made the call.")
note_option = click.option("--note", default="", metavar="TEXT", help="Reason, stored with the answer.")
scope_option = click.option(
    "--scope",
    type=click.Choice([*(str(scope) for scope in ApprovalScope), str(AccessScope.KEEP)]),
    default=str(ApprovalScope.ONCE),
    show_default=True,
    help="once: this call. session: calls in this session with the same method, hosts, recipients and folders. "
    "always: calls with these parameters. keep: add the access to the stored grant.",
)
_PAGE_OPTIONS = ("opened", "host", "port", "origins", "unsafe_beyond_loopback", "as_json")


@click.group("approvals", cls=CommandGroup, invoke_without_command=True)
@click.option("--web", is_flag=True, help="Serve web pages for approvals, receipts and grants, until Ctrl-C.")
@click.option("--open", "opened", is_flag=True, help="With --web: also open the page in a browser.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="With --web: loopback address to use."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="With --web: port (default: any).")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="With --web: URL of a TLS proxy through which users reach the page, such as https://approvals.example.",
)
@click.option(
    "--unsafe-beyond-loopback", is_flag=True, help="With --web: allow a --host that other machines reach, without TLS."
)
@json_option
@click.pass_context
def approvals(
    context: click.Context,
    web: bool,
    opened: bool,
    host: str,
    port: int,
    origins: tuple[str, ...],
    unsafe_beyond_loopback: bool,
    as_json: bool,
) -> None:
    """Answer calls that await approval; manage remembered answers.

    \b
    Examples:
      wasmrt approvals list
      wasmrt approvals show k7dq2-9mxhp
      wasmrt approvals approve k7dq2-9mxhp --scope always --any text
      wasmrt approvals --web --open
    """
    source = context.get_parameter_source
    given = [name for name in _PAGE_OPTIONS if source(name) is click.core.ParameterSource.COMMANDLINE]
    if context.invoked_subcommand is not None:
        if web or given:
            raise click.UsageError("--web and its options cannot be combined with a subcommand")
        return
    if not web:
        if given:
            raise click.UsageError("these options require --web")
        raise click.exceptions.NoArgsIsHelpError(context)
    from wasmrt.cli.serve.pages import serve_pages

    serve_pages(
        host=host, port=port, origins=origins, beyond_loopback=unsafe_beyond_loopback, opened=opened, as_json=as_json
    )


@approvals.command("list")
@click.option("--decided", is_flag=True, help="Also list the latest requests that were answered or expired.")
@json_option
def list_approvals(decided: bool, as_json: bool) -> None:
    """List pending requests for calls and access, waiting `run_code` programs, and remembered answers.

    \b
    Examples:
      wasmrt approvals list
      wasmrt approvals list --decided --json
    """
    store = _store()
    waiting, answers = store.pending(), store.answers()
    programs = _list_programs()
    access, refused = access_store().pending(), access_store().refused()
    ended, ended_access = (store.decided(), access_store().decided()) if decided else ([], [])
    if as_json:
        data: dict[str, Any] = {
            "pending": [request.as_dict() for request in waiting],
            "access": [request.as_dict() for request in access],
            "programs": [run.as_dict() | {"request": _request_of(run, waiting, access)} for run in programs],
            "remembered": [answer.as_dict() for answer in answers],
            "denied_access": [request.as_dict() for request in refused],
        }
        more = {
            "decided": [request.as_dict() for request in ended],
            "decided_access": [request.as_dict() for request in ended_access],
        }
        show_json(data | (more if decided else {}))
        return
    if not (waiting or access or programs or answers or refused or ended or ended_access):
        print_message("no pending requests and no remembered answers")
    rows: list[tuple[str, ...]]
    if access:
        rows = [
            (r.id, r.caller.tool, r.caller.user, r.caller.client or "-", describe_asking(r), r.denied.addition.hint)
            for r in access
        ]
        show_columns(("ACCESS", "TOOL", "USER", "CLIENT", "ASKED", "TO ALLOW IT"), rows)
    if waiting:
        rows = [
            (q.id, headline_text(q.request), q.tool, q.user, q.client or "-", _format_time_left(q)) for q in waiting
        ]
        show_columns(("WAITS", "CALL", "TOOL", "USER", "CLIENT", "TIME LEFT"), rows)
    if programs:
        needs = (run.tool or ("-" if run.user else "cannot be read") for run in programs)
        rows = [
            (r.id, next(needs), r.user, _request_of(r, waiting, access) or "-", _format_time_left(r)) for r in programs
        ]
        show_columns(("PROGRAM", "NEEDS", "USER", "REQUEST", "TIME LEFT"), rows)
    if answers:
        show_columns(("REMEMBERED", "TOOL", "USER", "ANSWER", "FOR"), map(_make_row, answers))
    if refused:
        rows = [(r.id, r.caller.tool, r.caller.user, "denied", r.denied.addition.hint) for r in refused]
        show_columns(("REMEMBERED", "TOOL", "USER", "ACCESS", "FOR"), rows)
    if ended:
        rows = [(q.id, q.tool, q.user, _describe_outcome(q), q.by) for q in ended]
        show_columns(("ENDED", "TOOL", "USER", "ANSWER", "BY"), rows)
    if ended_access:
        rows = [(r.id, r.caller.tool, r.caller.user, describe_answer(r), r.by) for r in ended_access]
        show_columns(("ENDED", "TOOL", "USER", "ACCESS", "BY"), rows)


@approvals.command("show")
@click.argument("request_id", metavar="ID")
@json_option
def show_approval(request_id: str, as_json: bool) -> None:
    """Show all of a request or of a remembered answer.

    \b
    Examples:
      wasmrt approvals show k7dq2-9mxhp
      wasmrt approvals show k7dq2-9mxhp --json
    """
    store, request_id = _store(), _normalize_id(request_id)
    if (access := access_store().get(request_id)) is not None:
        show_access(access, as_json=as_json)
        return
    found = store.get(request_id)
    answer = next((answer for answer in store.answers() if answer.id == request_id), None)
    if found is None and answer is None:
        raise _unknown_id_error(request_id)
    if as_json:
        show_json(found.as_dict() if found is not None else answer and answer.as_dict())
    elif found is not None and found.state is State.PENDING:
        show("\n".join(request_lines(found.request, whole=True)[0]))
    elif found is not None:
        show_columns(
            ("ENDED", "TOOL", "USER", "ANSWER", "BY"),
            [(found.id, found.tool, found.user, _describe_outcome(found), found.by)],
        )
    elif answer is not None:
        show_columns(("REMEMBERED", "TOOL", "USER", "ANSWER", "FOR"), [_make_row(answer)])
        show_json({} if answer.pattern is None else answer.pattern.params)


@approvals.command("approve")
@click.argument("request_id", metavar="ID")
@scope_option
@click.option(
    "--any", "any_", multiple=True, metavar="PARAM", help="With --scope always: accept any value of this parameter."
)
@click.option(
    "--like",
    multiple=True,
    metavar="PARAM=PATTERN",
    help="With --scope always: accept values that begin with a text (TEXT*), or paths in a folder (FOLDER/).",
)
@click.option("--narrower", default="", metavar="ENTRY", help="For access: grant this narrower entry instead.")
@user_option
@note_option
@json_option
def approve(
    request_id: str,
    scope: str,
    any_: tuple[str, ...],
    like: tuple[str, ...],
    narrower: str,
    user: str,
    note: str,
    as_json: bool,
) -> None:
    """Approve a pending request.

    With --scope always, later calls are approved if their parameters are the same, except as widened by --any and
    --like. A request for access asks for one more entry in a tool's grant. The entry applies to a repetition of the
    call (once), to this session (session), or is added to the stored grant (keep). --narrower must be an entry that
    allows no more than the requested one.

    \b
    Examples:
      wasmrt approvals approve k7dq2-9mxhp
      wasmrt approvals approve k7dq2-9mxhp --scope always --like path=notes/
      wasmrt approvals approve k7dq2-9mxhp --scope keep --narrower notes/a.md
    """
    if is_access(request_id := _normalize_id(request_id)):
        if any_ or like:
            raise ConfigurationError("--any and --like are for calls", hint="use --narrower for access")
        access = AccessChoice(granted=True, scope=access_scope(scope), narrower=narrower, note=note)
        answer_access_request(request_id, access, user=user, as_json=as_json)
        return
    if narrower:
        hint = "the terminal prompt and the web page can edit a call's parameters"
        raise ConfigurationError("--narrower is for access requests, not for calls", hint=hint)
    widened = tuple(_parse_widenings(any_, like))
    if widened and scope != ApprovalScope.ALWAYS:
        raise ConfigurationError("--any and --like require --scope always", hint="add --scope always")
    choice = Choice(approved=True, scope=_call_scope(scope), widened=widened, note=note)
    _answer(_store(), request_id, choice, user, as_json=as_json)


@approvals.command("deny")
@click.argument("request_id", metavar="ID")
@scope_option
@user_option
@note_option
@json_option
def deny(request_id: str, scope: str, user: str, note: str, as_json: bool) -> None:
    """Deny a pending request.

    Denied access is not requested again in this session, or never again with --scope keep.

    \b
    Examples:
      wasmrt approvals deny k7dq2-9mxhp
      wasmrt approvals deny k7dq2-9mxhp --note 'not on a Friday' --json
    """
    if is_access(request_id := _normalize_id(request_id)):
        access = AccessChoice(granted=False, scope=access_scope(scope), note=note)
        answer_access_request(request_id, access, user=user, as_json=as_json)
        return
    choice = Choice(approved=False, scope=_call_scope(scope), note=note)
    _answer(_store(), request_id, choice, user, as_json=as_json)


@approvals.command("forget")
@click.argument("answer_id", metavar="ID", required=False)
@click.option("--all", "every", is_flag=True, help="Forget every remembered answer.")
@json_option
def forget(answer_id: str | None, every: bool, as_json: bool) -> None:
    """Forget a remembered answer or a permanent denial of access, so that the next such call asks again.

    If ID is a waiting `run_code` program, the program is dropped: running the same code starts over and repeats all
    its calls. The program's pending request remains until it is answered or expires.

    \b
    Examples:
      wasmrt approvals forget k7dq2-9mxhp
      wasmrt approvals forget 5f0c1d2e3a4b-t1
      wasmrt approvals forget --all --json
    """
    store = _store()
    if every == (answer_id is not None):
        raise ConfigurationError("expected an ID or --all", hint="to list the IDs, run: wasmrt approvals list")
    if answer_id is None:
        count = store.forget_all() + access_store().forget_all()
    else:
        answer_id = _normalize_id(answer_id)
        count = int(store.forget(answer_id) or access_store().forget(answer_id))
        if not count and _drop_program(answer_id):
            show_json({"dropped": 1}) if as_json else print_message(f"dropped the program {answer_id}")
            return
        if not count:
            raise _unknown_id_error(answer_id)
    show_json({"forgotten": count}) if as_json else print_message(f"forgot {count} answer{'s' * (count != 1)}")


def _find_program_place() -> Path | Postgres | None:
    """Return where programs of code mode are stored, or None if none was stored."""
    folder = find_places().code_runs
    place = store_place(folder)
    return None if place == folder and not folder.is_dir() else place


def _list_programs() -> list[WaitingRun]:
    """Return the programs of code mode that await approval."""
    if (place := _find_program_place()) is None:
        return []
    from wasmrt.agent.builtin.code_mode import waiting_runs

    return waiting_runs(place)


def _drop_program(run_id: str) -> bool:
    if (place := _find_program_place()) is None:
        return False
    from wasmrt.agent.builtin.code_mode import drop_run

    return drop_run(place, run_id)


def _request_of(run: WaitingRun, waiting: Iterable[QueuedRequest], access: Iterable[AccessRequest]) -> str | None:
    """Return the ID of the pending request that a program waits for, or None."""
    calls = [(each.id, each.user, each.trace, each.tool) for each in waiting]
    calls += [(each.id, each.caller.user, each.caller.trace, each.caller.tool) for each in access]
    return next((each[0] for each in calls if each[1:] == (run.user, run.trace, run.tool)), None)


def _answer(store: ApprovalStore, request_id: str, choice: Choice, user: str, *, as_json: bool) -> None:
    answer = choose(store, request_id, choice, user=user, by=current_user_name())
    answered = store.get(request_id)
    tool = "" if answered is None else answered.tool
    if as_json:
        data = {"id": request_id, "tool": tool, "approved": answer.approved}
        show_json(data | {"scope": str(answer.scope), "by": answer.by})
        return
    print_message(f"{'approved' if answer.approved else 'denied'} {request_id}: {tool}, {describe_reach(answer)}")


def _call_scope(scope: str) -> ApprovalScope:
    if scope == AccessScope.KEEP:
        raise ConfigurationError("the scope keep is for access requests", hint="for a call, use always")
    return ApprovalScope(scope)


def _parse_widenings(any_: tuple[str, ...], like: tuple[str, ...]) -> Iterator[tuple[str, Widening]]:
    for name in any_:
        yield name, Widening(Wide.ANY)
    for text in like:
        name, given, values = text.partition("=")
        if not given:
            raise ConfigurationError(f"{text!r:.80} has no pattern", hint="write PARAM=TEXT* or PARAM=FOLDER/")
        yield name, Widening.parse(values)


def _store() -> ApprovalStore:
    return ApprovalStore(store_place(find_places().approvals))


def _normalize_id(request_id: str) -> str:
    return request_id.strip().lower()


def _unknown_id_error(request_id: str) -> ApprovalError:
    hint = "to list the IDs, run: wasmrt approvals list"
    return ApprovalError(f"there is no request or answer {request_id!r:.40}", code="unknown", hint=hint)


def _make_row(answer: Remembered) -> tuple[str, ...]:
    words = "any parameters" if answer.pattern is None else answer.pattern.words
    return answer.id, answer.tool, answer.user, "approved" if answer.approved else "denied", words


def _describe_outcome(request: QueuedRequest) -> str:
    if request.approved is None:
        return f"{request.state} ({request.note})" if request.note else str(request.state)
    return f"{'approved' if request.approved else 'denied'} ({request.scope})"


def _format_time_left(pending: QueuedRequest | WaitingRun) -> str:
    return f"{max(0.0, pending.expires_ms / 1000 - time.time()):.0f} s"
