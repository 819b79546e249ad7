"""OperatorPages: route requests to the pages of the user's session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from wasmrt.agent.access import AccessStore, answer_access
from wasmrt.agent.approvals import ApprovalScope, ApprovalStore, Choice, State, Widening, choose
from wasmrt.agent.flows import FlowMap
from wasmrt.agent.jobs import JobStore
from wasmrt.agent.routines import RoutineStore
from wasmrt.core.errors import ApprovalError, WasmrtError
from wasmrt.interop.pages._access import access_choice, access_page
from wasmrt.interop.pages._answer import FIRST_TRY, Tried, answer_in, edited_params, widened_by
from wasmrt.interop.pages._flows import flows_page
from wasmrt.interop.pages._grants import grants_page, revoke_entry
from wasmrt.interop.pages._html import Frame, file_response, html_response, show_alert, tag
from wasmrt.interop.pages._records import receipt_page, receipts_page, verification_page
from wasmrt.interop.pages._waiting import remembered_page, request_page, state_data, waiting_page
from wasmrt.interop.pages._work import WorkPages
from wasmrt.interop.web import Request, Response, Sessions, plain
from wasmrt.runtime.audit import Receipt

_ID = re.compile(r"[0-9a-z]{5}-[0-9a-z]{5}")
_STATUS = {"unknown": 404, "other-user": 403, "not-memorable": 422, "too-many-answers": 422}
_OVER = ("answered", "withdrawn", "outdated", "expired")
_LINK = "Every link works once. A session ends with the program or after twelve hours."


class PageSources(NamedTuple):
    """The data sources of the pages."""

    approvals: ApprovalStore
    receipts: Path
    """The folder of the receipt chain."""
    receipts_key: Path
    data: Path
    """The folder of the catalog."""
    access: AccessStore | None = None
    """The store of access requests; None without one."""
    jobs: JobStore | None = None
    routines: RoutineStore | None = None
    flows: Callable[[], FlowMap] | None = None
    """Builds the map of data flows; None if no tools are known."""
    receipt: Callable[[Receipt], None] | None = None
    """Records the receipts of answered access requests."""


class OperatorPages:
    """The operator's pages: requests, receipts, grants, jobs and routines. A `wasmrt.interop.web.Handler`.

    SECURITY: pages and forms require a session, which starts only with a link from `link`. Bearer tokens are not
    accepted, since their holder may be the agent that made the request.

    Args:
        sources: The data to show.
        base: The path prefix of all pages; begins and ends with `/`.
        by: The name of the user who answers.
        command: The command that prints a new link, named on pages without a session.
    """

    def __init__(self, sources: PageSources, *, by: str, command: str, base: str = "/") -> None:
        self._sources, self._by, self._command, self._base = sources, by, command, base
        self._access = sources.access or AccessStore(sources.data / "access.sqlite3")
        self._work = WorkPages(
            sources.jobs or JobStore(sources.data / "jobs.sqlite3"),
            sources.routines or RoutineStore(sources.data / "routines.sqlite3"),
        )
        self._sessions = Sessions(base)

    def link(self, url: str) -> str:
        """Return an address that starts a session once, within 15 minutes; `url` is the server's origin."""
        return f"{url}{self._base}?token={self._sessions.new_link(secure=url.startswith('https:'))}"

    async def gate(self, request: Request) -> Response | None:
        """Refuse a request without a session before its body is read. A `wasmrt.interop.web.Gate`."""
        return self._no_session() if request.method == "POST" and self._sessions.find(request) is None else None

    async def __call__(self, request: Request) -> Response:
        """Return the response to a request."""
        if request.method not in ("GET", "HEAD", "POST"):
            return plain(405, headers=(("allow", "GET, HEAD, POST"),))
        if not request.path.startswith(self._base):
            return plain(404)
        rest = request.path.removeprefix(self._base)
        if request.method != "POST" and (file := file_response(rest)) is not None:
            return file
        if not rest:
            return self._begin_session(request)
        if rest.startswith("ask/") and request.method != "POST":
            return self._request_link_page(rest.removeprefix("ask/"))
        session = self._sessions.find(request)
        if session is None:
            return self._no_session()
        frame, rest = Frame(self._base, session), request.path.removeprefix(session.path)
        if request.method != "POST":
            return await asyncio.to_thread(self._get, frame, rest, request)
        # SECURITY: a form is processed only if it comes from one of these pages (the server has compared the
        # Origin header) and contains the session's token, which other pages cannot read.
        form = request.read_form()
        ours = request.has("origin") or request.header("sec-fetch-site") == "same-origin"
        if not ours or form is None or not session.allows(form):
            return self._stale(frame)
        if rest == "leave":
            gone = self._page("Signed out", f"For a new link: {self._command}", 200)
            return replace(gone, headers=(*gone.headers, ("set-cookie", self._sessions.end(session))))
        return await asyncio.to_thread(self._post, frame, rest, form)

    def _request_link_page(self, name: str) -> Response:
        """Return the page for an address that an MCP client showed; it opens the request in the browser's session.

        SECURITY: the page reveals nothing about the request, not even whether it exists, and starts no session: the
        client that received the address may be the agent that made the request.
        """
        if not _ID.fullmatch(name):
            return self._missing(Frame(self._base))
        told = "This page opens the request in this browser's session. If nothing happens, the browser has no session: "
        step = f"open a link of {self._command}, and then this address again; or run wasmrt approvals show {name}."
        return Frame(self._base, request=name).page(f"Request {name}", tag("p", told + step))

    def _begin_session(self, request: Request) -> Response:
        """Start a session with the token of a link, once.

        The page then continues by script: browsers do not send SameSite=Strict cookies if the address was opened from
        another site or a file (draft RFC 6265bis, 5.2), and a redirect would count as that, too.
        """
        fields = request.query_fields() or {}
        if request.method != "GET" or "token" not in fields or request.has("sec-purpose"):  # not a browser's prefetch
            return self._no_session()
        begun = self._sessions.begin(fields["token"])
        if begun is None:
            return self._page("This link is no longer valid", f"{_LINK} For a new one: {self._command}", 403)
        session, cookie = begun
        body = tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", http_equiv="refresh", content=f"0;url={session.path}"),
                tag("title", "Signed in - wasmrt"),
            ),
            tag(
                "body", tag("main", tag("h1", "Signed in"), tag("p", tag("a", "Open the approvals", href=session.path)))
            ),
            lang="en",
        )
        return html_response(f"<!doctype html>\n{body}\n", headers=(("set-cookie", cookie),))

    def _get(self, frame: Frame, rest: str, request: Request) -> Response:
        store, query = self._sources.approvals, request.query_fields()
        if query is None:
            return self._missing(frame)
        section, _, name = rest.partition("/")
        pages: dict[str, Callable[[], Response | None]] = {
            "": lambda: waiting_page(frame, store, self._access, query.get("done")),
            "state": lambda: Response(
                headers=(("content-type", "application/json"),), body=state_data(store, self._access)
            ),
            "access/": lambda: self._show_access_request(frame, name),
            "flows": lambda: flows_page(frame, self._sources.flows and self._sources.flows()),
            "requests/": lambda: self._request(frame, name),
            "remembered": lambda: remembered_page(frame, store, self._access),
            "receipts": lambda: receipts_page(frame, self._sources.receipts, query),
            "receipts/": lambda: receipt_page(frame, self._sources.receipts, unquote(name)),
            "grants": lambda: grants_page(frame, self._sources.data),
            "work": lambda: self._work.show(frame),
        }
        make = pages.get(f"{section}/" if "/" in rest else section)
        try:
            return (make and make()) or self._missing(frame)
        except WasmrtError as error:
            return frame.page("This cannot be shown", show_alert(error), frame.back(), status=503)

    def _post(self, frame: Frame, rest: str, form: dict[str, str]) -> Response:
        section, _, name = rest.partition("/")
        try:
            if section == "requests" and _ID.fullmatch(name):
                return self._handle_answer(frame, name, form, self._answer, self._request)
            if section == "access" and _ID.fullmatch(name):
                return self._handle_answer(frame, name, form, self._answer_access, self._show_access_request)
            if section == "remembered" and _ID.fullmatch(name):
                return self._forget(frame, name)
            if section == "grants" and name:
                return self._revoke(frame, unquote(name), form)
            if section in ("jobs", "routines") and name:
                return self._work.change(frame, section, unquote(name), form)
            if rest == "verify":
                return verification_page(frame, self._sources.receipts, self._sources.receipts_key, form)
        except WasmrtError as error:
            return frame.page("This was not done", show_alert(error), frame.back(), status=503)
        return self._missing(frame)

    def _request(self, frame: Frame, name: str, tried: Tried = FIRST_TRY) -> Response | None:
        found = self._sources.approvals.get(name) if _ID.fullmatch(name) else None
        return None if found is None else request_page(frame, found, tried)

    def _show_access_request(self, frame: Frame, name: str, tried: Tried = FIRST_TRY) -> Response | None:
        found = self._access.get(name) if _ID.fullmatch(name) else None
        return None if found is None else access_page(frame, found, tried)

    def _handle_answer(
        self, frame: Frame, request_id: str, form: dict[str, str], answer: Callable[[str, dict[str, str]], None],
        show: Callable[[Frame, str, Tried], Response | None],
    ) -> Response:  # fmt: skip
        try:
            answer(request_id, form)
        except WasmrtError as error:
            # If two answers arrive, the first one counts; the second sender sees the outcome.
            status = 409 if error.code in _OVER else _STATUS.get(error.code, 422)
            return show(frame, request_id, Tried(show_alert(error), form, status)) or self._missing(frame)
        return Response(status=303, headers=(("location", f"{frame.root}?done={request_id}"),))

    def _answer(self, request_id: str, form: dict[str, str]) -> None:
        choice = self._read_choice(request_id, form)
        choose(self._sources.approvals, request_id, choice, user=form.get("user", ""), by=self._by)

    def _answer_access(self, request_id: str, form: dict[str, str]) -> None:
        answer_access(
            self._access, request_id, access_choice(form), user=form.get("user", ""), by=self._by,
            data=self._sources.data, receipts=self._sources.receipt,
        )  # fmt: skip

    def _read_choice(self, request_id: str, form: dict[str, str]) -> Choice:
        if form.get("answer") == "edit-once":
            return Choice(approved=True, params=edited_params(form), note=form.get("note", ""))
        approved, scope = answer_in(form, "allow", ApprovalScope)
        widened: tuple[tuple[str, Widening], ...] = ()
        found = self._sources.approvals.get(request_id)
        if found is not None and found.state is State.PENDING and scope is ApprovalScope.ALWAYS:
            widened = tuple(widened_by(found.request.params, form))
        return Choice(approved=approved, scope=scope, widened=widened, note=form.get("note", ""))

    def _forget(self, frame: Frame, answer_id: str) -> Response:
        store = self._sources.approvals
        if not (store.forget(answer_id) or self._access.forget(answer_id)):
            gone = ApprovalError("this answer was already forgotten", code="unknown")
            return remembered_page(frame, store, self._access, problem=show_alert(gone), status=409)
        return Response(status=303, headers=(("location", f"{frame.root}remembered"),))

    def _revoke(self, frame: Frame, name: str, form: dict[str, str]) -> Response:
        try:
            revoke_entry(self._sources.data, name, form.get("entry", ""))
        except WasmrtError as error:
            return grants_page(frame, self._sources.data, problem=show_alert(error), status=422)
        return Response(status=303, headers=(("location", f"{frame.root}grants"),))

    def _no_session(self) -> Response:
        return self._page("This page requires a session", f"{_LINK} For a new one: {self._command}", 403)

    def _stale(self, frame: Frame) -> Response:
        told = tag(
            "p", "The form was not sent from a page of this session. Nothing was changed.", role="alert", class_="alert"
        )
        return frame.page("This was not done", told, frame.back(), status=403)

    def _missing(self, frame: Frame) -> Response:
        return frame.page("Page not found", frame.back(), status=404)

    def _page(self, title: str, text: str, status: int) -> Response:
        return Frame(self._base).page(title, tag("p", text), status=status)
