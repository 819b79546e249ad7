"""`wasmrt approvals`: what waits for a person, the answers, and those that are remembered."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from wasmrt.agent.access import AccessChoice, AccessRequest, AccessScope, asked_words, granted_words
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
    describe_reach,
    person,
    request_lines,
)
from wasmrt.cli.grant.access import access_scope, access_store, answer_in_words, is_access, show_access
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json
from wasmrt.core.errors import ApprovalError, ConfigurationError
from wasmrt.core.places import find_places

if TYPE_CHECKING:
    from wasmrt.agent.builtin.code_mode import WaitingRun

user_option = click.option("--user", default="local", show_default=True, help="Whose call it is.")
note_option = click.option("--note", default="", metavar="TEXT", help="The reason, for the record.")
scope_option = click.option(
    "--scope",
    type=click.Choice([*(str(scope) for scope in ApprovalScope), str(AccessScope.KEEP)]),
    default=str(ApprovalScope.ONCE),
    show_default=True,
    help="This call; this tool in this session; these parameters from now on; of access, keep it in the grant.",
)
_OF_THE_PAGE = ("opened", "host", "port", "origins", "unsafe_beyond_loopback", "as_json")


@click.group("approvals", invoke_without_command=True)
@click.option("--web", is_flag=True, help="Serve a page to answer on, with receipts and grants, until Ctrl-C.")
@click.option("--open", "opened", is_flag=True, help="With --web: open it in a browser, too.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="With --web: a loopback address."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="With --web: the port; any unless given."
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="With --web: an address of a proxy with TLS that it is reached by, such as https://approvals.example.",
)
@click.option(
    "--unsafe-beyond-loopback", is_flag=True, help="With --web: let --host be one that others reach, without TLS."
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
    """Answer the calls that wait for a person, and see and forget what was answered for good.

    \b
    Examples:
      wasmrt approvals list
      wasmrt approvals show k7dq2-9mxhp
      wasmrt approvals approve k7dq2-9mxhp --scope always --any text
      wasmrt approvals --web --open
    """
    source = context.get_parameter_source
    given = [name for name in _OF_THE_PAGE if source(name) is click.core.ParameterSource.COMMANDLINE]
    if context.invoked_subcommand is not None:
        if web or given:
            raise click.UsageError("--web and its options stand alone, without a command")
        return
    if not web:
        if given:
            raise click.UsageError("these options are for the page: add --web")
        raise click.exceptions.NoArgsIsHelpError(context)
    from wasmrt.cli.serve.pages import serve_pages

    serve_pages(
        host=host,
        port=port,
        origins=origins,
        beyond_loopback=unsafe_beyond_loopback,
        opened=opened,
        as_json=as_json,
    )


@approvals.command("list")
@click.option("--decided", is_flag=True, help="Also show the latest requests that were answered or ended.")
@json_option
def list_approvals(decided: bool, as_json: bool) -> None:
    """List what waits, requests for calls and for access and programs of `run_code`, and what is remembered.

    \b
    Examples:
      wasmrt approvals list
      wasmrt approvals list --decided --json
    """
    store = _store()
    waiting, answers = store.pending(), store.answers()
    programs = _programs()
    access, refused = access_store().pending(), access_store().refused()
    ended, over = (store.decided(), access_store().decided()) if decided else ([], [])
    if as_json:
        data: dict[str, Any] = {
            "pending": [request.as_dict() for request in waiting],
            "access": [request.as_dict() for request in access],
            "programs": [run.as_dict() | {"request": _asked_by(run, waiting, access)} for run in programs],
            "remembered": [answer.as_dict() for answer in answers],
            "denied_access": [request.as_dict() for request in refused],
        }
        more = {
            "decided": [request.as_dict() for request in ended],
            "decided_access": [request.as_dict() for request in over],
        }
        show_json(data | (more if decided else {}))
        return
    if not (waiting or access or programs or answers or refused or ended or over):
        print_message("nothing waits for an approval, and no answer is remembered")
    if access:
        rows = [(r.id, r.caller.tool, r.caller.user, asked_words(r), r.denied.addition.hint) for r in access]
        show_columns(("ACCESS", "TOOL", "USER", "ASKED", "TO ALLOW IT"), rows)
    if waiting:
        rows = [(q.id, q.tool, q.user, q.risk, _left(q)) for q in waiting]
        show_columns(("WAITS", "TOOL", "USER", "RISK", "TIME LEFT"), rows)
    if programs:
        needs = (run.tool or ("-" if run.user else "cannot be read") for run in programs)
        rows = [(r.id, next(needs), r.user, _asked_by(r, waiting, access) or "-", _left(r)) for r in programs]
        show_columns(("PROGRAM", "NEEDS", "USER", "REQUEST", "TIME LEFT"), rows)
    if answers:
        show_columns(("REMEMBERED", "TOOL", "USER", "ANSWER", "FOR"), map(_row, answers))
    if refused:
        rows = [(r.id, r.caller.tool, r.caller.user, "denied", r.denied.addition.hint) for r in refused]
        show_columns(("REMEMBERED", "TOOL", "USER", "ACCESS", "FOR"), rows)
    if ended:
        rows = [(q.id, q.tool, q.user, _outcome(q), q.by) for q in ended]
        show_columns(("ENDED", "TOOL", "USER", "ANSWER", "BY"), rows)
    if over:
        rows = [(r.id, r.caller.tool, r.caller.user, granted_words(r), r.by) for r in over]
        show_columns(("ENDED", "TOOL", "USER", "ACCESS", "BY"), rows)


@approvals.command("show")
@click.argument("request_id", metavar="ID")
@json_option
def show_approval(request_id: str, as_json: bool) -> None:
    """Show a request or a remembered answer, whole.

    \b
    Examples:
      wasmrt approvals show k7dq2-9mxhp
      wasmrt approvals show k7dq2-9mxhp --json
    """
    store, request_id = _store(), _typed(request_id)
    if (access := access_store().get(request_id)) is not None:
        show_access(access, as_json=as_json)
        return
    found = store.get(request_id)
    kept = next((answer for answer in store.answers() if answer.id == request_id), None)
    if found is None and kept is None:
        raise _unknown(request_id)
    if as_json:
        show_json(found.as_dict() if found is not None else kept and kept.as_dict())
    elif found is not None and found.state is State.PENDING:
        show("\n".join(request_lines(found.request, whole=True)[0]))
    elif found is not None:
        show_columns(
            ("ENDED", "TOOL", "USER", "ANSWER", "BY"), [(found.id, found.tool, found.user, _outcome(found), found.by)]
        )
    elif kept is not None:
        show_columns(("REMEMBERED", "TOOL", "USER", "ANSWER", "FOR"), [_row(kept)])
        show_json({} if kept.pattern is None else kept.pattern.params)


@approvals.command("approve")
@click.argument("request_id", metavar="ID")
@scope_option
@click.option(
    "--any", "any_", multiple=True, metavar="PARAM", help="With --scope always: this parameter may be anything."
)
@click.option(
    "--like",
    multiple=True,
    metavar="PARAM=PATTERN",
    help="With --scope always: it may be any text that begins so (TEXT*), or any path below (FOLDER/).",
)
@click.option("--narrower", default="", metavar="ENTRY", help="Of access: grant this, which lies within what it asks.")
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
    """Approve a request that waits. What `always` does not widen has to be the same the next time.

    A request for access asks for one entry more of a tool's grant: for the same call made again (once), for this
    session, or kept in the stored grant (keep); an entry in place of the one asked for has to lie within it.

    \b
    Examples:
      wasmrt approvals approve k7dq2-9mxhp
      wasmrt approvals approve k7dq2-9mxhp --scope always --like path=notes/
      wasmrt approvals approve k7dq2-9mxhp --scope keep --narrower notes/a.md
    """
    if is_access(request_id := _typed(request_id)):
        if any_ or like:
            raise ConfigurationError("--any and --like are for calls", hint="--narrower is for access")
        access = AccessChoice(granted=True, scope=access_scope(scope), narrower=narrower, note=note)
        answer_in_words(request_id, access, user=user, as_json=as_json)
        return
    if narrower:
        raise ConfigurationError("--narrower is for access", hint="of a call, edit its parameters where it asks")
    widened = tuple(_widened(any_, like))
    if widened and scope != ApprovalScope.ALWAYS:
        raise ConfigurationError("--any and --like widen what is remembered", hint="add --scope always")
    choice = Choice(approved=True, scope=_call_scope(scope), widened=widened, note=note)
    _answer(_store(), request_id, choice, user, as_json=as_json)


@approvals.command("deny")
@click.argument("request_id", metavar="ID")
@scope_option
@user_option
@note_option
@json_option
def deny(request_id: str, scope: str, user: str, note: str, as_json: bool) -> None:
    """Deny a request that waits. Access that is denied is not asked for again in this session, or with keep, at all.

    \b
    Examples:
      wasmrt approvals deny k7dq2-9mxhp
      wasmrt approvals deny k7dq2-9mxhp --note 'not on a Friday' --json
    """
    if is_access(request_id := _typed(request_id)):
        access = AccessChoice(granted=False, scope=access_scope(scope), note=note)
        answer_in_words(request_id, access, user=user, as_json=as_json)
        return
    choice = Choice(approved=False, scope=_call_scope(scope), note=note)
    _answer(_store(), request_id, choice, user, as_json=as_json)


@approvals.command("forget")
@click.argument("answer_id", metavar="ID", required=False)
@click.option("--all", "every", is_flag=True, help="Forget every remembered answer.")
@json_option
def forget(answer_id: str | None, every: bool, as_json: bool) -> None:
    """Forget a remembered answer, or access denied for good: the next such call asks again, in any process.

    The id of a program of `run_code` that waits drops it: the same code begins anew, and makes all its calls again.
    What it asked a person for stays until it is answered or expires.

    \b
    Examples:
      wasmrt approvals forget k7dq2-9mxhp
      wasmrt approvals forget 5f0c1d2e3a4b-t1
      wasmrt approvals forget --all --json
    """
    store = _store()
    if every == (answer_id is not None):
        raise ConfigurationError("say which answer to forget, or --all", hint="wasmrt approvals list shows their ids")
    if answer_id is None:
        count = store.forget_all() + access_store().forget_all()
    else:
        count = int(store.forget(_typed(answer_id)) or access_store().forget(_typed(answer_id)))
        if not count and _drop_program(_typed(answer_id)):
            show_json({"dropped": 1}) if as_json else print_message(f"dropped the program {_typed(answer_id)}")
            return
        if not count:
            raise _unknown(_typed(answer_id))
    if as_json:
        show_json({"forgotten": count})
    else:
        print_message(f"forgot {count} answer{'s' * (count != 1)}")


def _programs() -> list[WaitingRun]:
    """Return the programs of code mode that wait for a person."""
    if not (folder := find_places().code_runs).is_dir():
        return []
    from wasmrt.agent.builtin.code_mode import waiting_runs

    return waiting_runs(folder)


def _drop_program(run_id: str) -> bool:
    if not (folder := find_places().code_runs).is_dir():
        return False
    from wasmrt.agent.builtin.code_mode import drop_run

    return drop_run(folder, run_id)


def _asked_by(run: WaitingRun, waiting: Iterable[QueuedRequest], access: Iterable[AccessRequest]) -> str | None:
    """Return the id of the request that a program waits for the answer to; None where nobody is asked now."""
    calls = [(each.id, each.user, each.trace, each.tool) for each in waiting]
    calls += [(each.id, each.caller.user, each.caller.trace, each.caller.tool) for each in access]
    return next((each[0] for each in calls if each[1:] == (run.user, run.trace, run.tool)), None)


def _answer(store: ApprovalStore, request_id: str, choice: Choice, user: str, *, as_json: bool) -> None:
    answer = choose(store, request_id, choice, user=user, by=person())
    answered = store.get(request_id)
    tool = "" if answered is None else answered.tool
    if as_json:
        data = {"id": request_id, "tool": tool, "approved": answer.approved}
        show_json(data | {"scope": str(answer.scope), "by": answer.by})
        return
    print_message(f"{'approved' if answer.approved else 'denied'} {request_id}: {tool}, {describe_reach(answer)}")


def _call_scope(scope: str) -> ApprovalScope:
    if scope == AccessScope.KEEP:
        raise ConfigurationError("keep is for access", hint="for a call, choose always")
    return ApprovalScope(scope)


def _widened(any_: tuple[str, ...], like: tuple[str, ...]) -> Iterator[tuple[str, Widening]]:
    for name in any_:
        yield name, Widening(Wide.ANY)
    for text in like:
        name, given, values = text.partition("=")
        if not given:
            raise ConfigurationError(f"{text!r:.80} has no pattern", hint="write PARAM=TEXT* or PARAM=FOLDER/")
        yield name, Widening.parse(values)


def _store() -> ApprovalStore:
    return ApprovalStore(find_places().approvals)


def _typed(request_id: str) -> str:
    return request_id.strip().lower()


def _unknown(request_id: str) -> ApprovalError:
    return ApprovalError(
        f"there is no request or answer {request_id!r:.40}",
        code="unknown",
        hint="wasmrt approvals list shows their ids",
    )


def _row(answer: Remembered) -> tuple[str, ...]:
    words = "any parameters" if answer.pattern is None else answer.pattern.words
    return answer.id, answer.tool, answer.user, "approved" if answer.approved else "denied", words


def _outcome(request: QueuedRequest) -> str:
    if request.approved is None:
        return str(request.state)
    return f"{'approved' if request.approved else 'denied'} ({request.scope})"


def _left(waits: QueuedRequest | WaitingRun) -> str:
    return f"{max(0.0, waits.expires_ms / 1000 - time.time()):.0f} s"
