"""`wasmrt undo`: the files that a call changed become what they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import (
    is_interactive,
    print_message,
    show_columns,
    show_json,
    show_json_list,
    size_in_words,
)
from wasmrt.core.errors import ConfigurationError, UndoError
from wasmrt.core.places import find_places
from wasmrt.runtime.audit.report import in_words
from wasmrt.runtime.workspace import (
    Act,
    UndoConflict,
    UndoJournal,
    UndoPlan,
    UndoStep,
    check_conflicts,
    plan_undo,
    plan_undo_all,
)
from wasmrt.runtime.workspace import undo as take_back

_ACTS = {
    Act.MAKE_FOLDER: "make again",
    Act.RESTORE: "restore",
    Act.REMOVE: "remove",
    Act.REMOVE_FOLDER: "remove",
}
_OF_FOLDERS = (Act.MAKE_FOLDER, Act.REMOVE_FOLDER)


@click.command("undo")
@click.argument("call_id", metavar="[CALL_ID]", required=False)
@click.option("--list", "listing", is_flag=True, help="Show the calls that can be taken back, the newest first.")
@click.option("--force", is_flag=True, help="Take it back although files were changed since; those changes are lost.")
@click.option("--yes", is_flag=True, help="Do it without being asked: for scripts.")
@json_option
def undo(call_id: str | None, listing: bool, force: bool, yes: bool, as_json: bool) -> None:
    """Take back what a call changed in the workspace: every file as it was before, byte for byte.

    Without CALL_ID, the last call that changed something; with that of a program of `run_code`, all the calls that it
    made, the newest first. Files that it removed come back with their permissions, what
    it made goes. It shows what it will do and asks first; where a file was changed since, nothing is done without
    --force. The journal keeps 1000 calls of all users in at most 512 MiB, in the data folder.

    \b
    Examples:
      wasmrt undo
      wasmrt undo --list
      wasmrt undo 5f0c1d2e3a4b-1 --yes
    """
    journal = UndoJournal(find_places().undo)
    if listing:
        _list(journal, as_json=as_json)
        return
    chosen = call_id or _last(journal)
    plans = plan_undo_all(journal, journal.calls_of(chosen))
    for plan in plans:
        if not as_json:
            _print_plan(plan)
    for plan in [] if force else plans:
        check_conflicts(plan)
    if not yes:
        _ask(chosen, may_ask=is_interactive() and not as_json)
    done = _taken_back(journal, [plan.head.call_id for plan in plans], force=force, as_json=as_json)
    if as_json and [each.head.call_id for each in done] == [chosen]:
        show_json(done[0].as_dict() | {"undone": True})
    elif as_json:
        show_json({"call_id": chosen, "calls": [each.as_dict() for each in done], "undone": True})


def _taken_back(journal: UndoJournal, call_ids: Sequence[str], *, force: bool, as_json: bool) -> list[UndoPlan]:
    done: list[UndoPlan] = []
    for call_id in call_ids:
        try:
            done.append(take_back(journal, call_id, force=force))
        except UndoError as error:
            if done:
                left = ", ".join(call_ids[len(done) :])
                back = ", ".join(call_ids[: len(done)])
                error.message = f"{call_id}: {error.message}; {back} taken back already, {left} not"
            raise
        if not as_json:
            _print_done(done[-1])
    return done


def _print_done(done: UndoPlan) -> None:
    print_message(f"took back {done.head.call_id}: {_counted(done.steps)}")
    for conflict in done.conflicts:
        if conflict.step is None:
            print_message(f"  left as it is: {conflict.path} {conflict.problem}")


def _last(journal: UndoJournal) -> str:
    known = journal.call_ids()
    if not known:
        raise UndoError(
            "there is nothing to take back",
            code="undo-unknown",
            hint="calls that write files are kept from now on, unless undo = false is set in the configuration file",
        )
    return known[0]


def _list(journal: UndoJournal, *, as_json: bool) -> None:
    plans = []
    for call_id in journal.call_ids():
        try:
            plans.append(plan_undo(journal, call_id))
        except UndoError as error:
            print_message(f"{call_id}: {error.message}")
    if as_json:
        show_json_list(plan.as_dict() for plan in plans)
    elif not plans:
        print_message("there is nothing to take back")
    else:
        show_columns(("CALL", "TIME (UTC)", "TOOL", "FILES AND FOLDERS", "WORKSPACE"), map(_row, plans))


def _row(plan: UndoPlan) -> tuple[str, ...]:
    head = plan.head
    return head.call_id, in_words(head.started_ms), head.tool, str(len(plan.steps) + len(plan.conflicts)), head.root


def _print_plan(plan: UndoPlan) -> None:
    print_message(
        f"call {plan.head.call_id} of {plan.head.tool}, {in_words(plan.head.started_ms)} UTC, in {plan.head.root}"
        + (f", by the program {plan.head.program}" if plan.head.program else "")
    )
    for step in plan.steps:
        print_message(f"  {_shown(step)}")
    for conflict in plan.conflicts:
        print_message(f"  {_conflicting(conflict)}")
    if not plan.steps and not plan.conflicts:
        print_message("  every file is as it was before already")


def _shown(step: UndoStep) -> str:
    folder = step.do in _OF_FOLDERS
    size = f" ({size_in_words(step.to.size_bytes)})" if step.do is Act.RESTORE else ""
    return f"{_ACTS[step.do]} {step.path}{'/' * folder}{size}"


def _conflicting(conflict: UndoConflict) -> str:
    would = f"; --force would {_shown(conflict.step)}" if conflict.step is not None else ""
    return f"conflict: {conflict.path} {conflict.problem}{would}"


def _ask(call_id: str, *, may_ask: bool) -> None:
    if not may_ask:
        hint = f"say so if it is meant: wasmrt undo {call_id} --yes"
        raise ConfigurationError("nothing was taken back: nobody is here to ask", code="not-confirmed", hint=hint)
    if not click.confirm("Take this back?", default=False, err=True):
        raise ConfigurationError("nothing was taken back", code="not-confirmed")


def _counted(steps: Iterable[UndoStep]) -> str:
    of_folders = [step.do in _OF_FOLDERS for step in steps]
    files, folders = of_folders.count(False), of_folders.count(True)
    said = [f"{files} file{'s' * (files != 1)}"] if files or not folders else []
    return " and ".join([*said, f"{folders} folder{'s' * (folders != 1)}"] if folders else said)
