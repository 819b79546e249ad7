"""The page of background work: jobs, and routines with their next times."""

from __future__ import annotations

from urllib.parse import quote

from wasmrt.agent.jobs import TERMINAL, Job, JobState, JobStore
from wasmrt.agent.routines import Routine, RoutineStore, describe_trigger
from wasmrt.core.errors import ToolError, WasmrtError
from wasmrt.interop.pages._html import Frame, Html, Part, make_hidden_field, quote_text, show_alert, table, tag
from wasmrt.interop.web import Response
from wasmrt.runtime.audit.report import format_time

_MAX_ROWS = 200
_MAX_RESULT_CHARS = 300
_RESULTS = "Results may repeat text that others wrote."


class WorkPages:
    """Shows the jobs and routines of all users, and cancels or pauses single ones.

    SECURITY: a form names the owner that its page showed, and changes only work of this owner.
    """

    def __init__(self, jobs: JobStore, routines: RoutineStore) -> None:
        self._jobs, self._routines = jobs, routines

    def show(self, frame: Frame, *, problem: WasmrtError | None = None) -> Response:
        """Return the page."""
        jobs, routines = self._jobs.latest(_MAX_ROWS), self._routines.latest(_MAX_ROWS)
        job_header = ("Job", "For", "State", "Created (UTC)", "Result", "Change")
        routine_header = ("Routine", "For", "State", "Starts", "Next (UTC)", "Last result", "Change")
        return frame.page(
            "Jobs and routines",
            None if problem is None else show_alert(problem),
            tag("p", _RESULTS) if jobs or routines else None,
            table("Jobs, newest first", job_header, [_make_job_row(frame, each) for each in jobs])
            if jobs
            else tag("p", "There are no jobs."),
            table("Routines", routine_header, [_make_routine_row(frame, each) for each in routines])
            if routines
            else tag("p", "There are no routines."),
            section="work",
            status=200 if problem is None else 409,
        )

    def change(self, frame: Frame, kind: str, name: str, form: dict[str, str]) -> Response:
        """Cancel a job, or pause or resume a routine; return the page with the outcome."""
        user = form.get("user", "")
        try:
            if kind == "jobs":
                self._jobs.move(self._jobs.find(user, name).id, JobState.CANCELLED, "cancelled on the page")
            else:
                self._set_enabled(user, name, form.get("answer", ""))
        except ToolError as error:
            return self.show(frame, problem=error)
        return Response(status=303, headers=(("location", f"{frame.root}work"),))

    def _set_enabled(self, user: str, name: str, answer: str) -> None:
        if answer not in ("pause", "resume"):
            raise ToolError(
                "the form contains no answer", code="no-answer", hint="press one of the buttons of the page"
            )
        self._routines.set_enabled(user, name, enabled=answer == "resume")


def _make_job_row(frame: Frame, job: Job) -> list[Part]:
    title = job.task.title
    cancel = _make_button(frame, f"jobs/{job.id}", job.user, "cancel", "Cancel", f"Cancel the job {title}")
    return [
        quote_text(title), quote_text(job.user), str(job.state), format_time(job.created_ms), _show_result(job.output),
        cancel if job.state not in TERMINAL and job.ended_ms is None else None,
    ]  # fmt: skip


def _make_routine_row(frame: Frame, routine: Routine) -> list[Part]:
    answer, text = ("pause", "Pause") if routine.enabled else ("resume", "Resume")
    action = f"routines/{quote(routine.name, safe='')}"
    following = routine.next_ms if routine.enabled else None
    return [
        quote_text(routine.name), quote_text(routine.user), routine.status,
        quote_text(describe_trigger(routine.definition)),
        None if following is None else format_time(following), _show_result(routine.last_summary),
        _make_button(frame, action, routine.user, answer, text, f"{text} the routine {routine.name}"),
    ]  # fmt: skip


def _make_button(frame: Frame, action: str, user: str, answer: str, text: str, label: str) -> Html:
    button = tag("button", text, type="submit", name="answer", value=answer, aria_label=label)
    return frame.form(action, make_hidden_field("user", user), button)


def _show_result(text: str) -> Html | None:
    cut = text if len(text) <= _MAX_RESULT_CHARS else f"{text[:_MAX_RESULT_CHARS]} ..."
    return quote_text(cut) if cut else None
