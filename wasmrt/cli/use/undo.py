"""`wasmrt undo`: undo a call's changes to files in the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import confirm_change, format_size, print_message, show_columns, show_json, show_json_list
from wasmrt.core.errors import UndoError
from wasmrt.core.places import find_places
from wasmrt.runtime.audit.report import format_time
from wasmrt.runtime.workspace import Act, UndoJournal, UndoPlan, UndoStep, check_conflicts, plan_undo, plan_undo_all
from wasmrt.runtime.workspace import undo as undo_call

_ACTS = {Act.MAKE_FOLDER: "recreate", Act.RESTORE: "restore", Act.REMOVE: "remove", Act.REMOVE_FOLDER: "remove"}
_OF_FOLDERS = (Act.MAKE_FOLDER, Act.REMOVE_FOLDER)


@click.command("undo")
@click.argument("call_id", metavar="[CALL_ID]", required=False)
@click.option("--list", "listing", is_flag=True, help="List the calls that can be undone, newest first.")
@click.option("--force", is_flag=True, help="Undo even if files have changed since; those changes are lost.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def undo(call_id: str | None, listing: bool, force: bool, yes: bool, as_json: bool) -> None:
    """Undo a call's changes to files in the workspace.

    Without CALL_ID, undo the most recent call that changed files. If CALL_ID is a `run_code` program, undo all its
    calls, newest first. Deleted files are restored with their permissions; created files are deleted. The command
    shows a plan and asks for confirmation. If a file has changed since the call, nothing is undone without --force.
    The journal stores up to 1000 calls (512 MiB) for all users, in the data folder.

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
    chosen = call_id or _find_last(journal)
    plans = plan_undo_all(journal, journal.calls_of(chosen))
    for plan in plans:
        if not as_json:
            _print_plan(plan)
    for plan in [] if force else plans:
        check_conflicts(plan)
    if not yes:
        command = f"wasmrt undo {chosen}"
        confirm_change("Undo these changes?", unchanged="nothing was undone", command=command, as_json=as_json)
    done = _undo_all(journal, [plan.head.call_id for plan in plans], force=force, as_json=as_json)
    if as_json and [each.head.call_id for each in done] == [chosen]:
        show_json(done[0].as_dict() | {"undone": True})
    elif as_json:
        show_json({"call_id": chosen, "calls": [each.as_dict() for each in done], "undone": True})


def _undo_all(journal: UndoJournal, call_ids: Sequence[str], *, force: bool, as_json: bool) -> list[UndoPlan]:
    done: list[UndoPlan] = []
    for call_id in call_ids:
        try:
            done.append(undo_call(journal, call_id, force=force))
        except UndoError as error:
            if done:
                left, undone = ", ".join(call_ids[len(done) :]), ", ".join(call_ids[: len(done)])
                error.message = f"{call_id}: {error.message}; already undone: {undone}; not undone: {left}"
            raise
        if not as_json:
            _print_done(done[-1])
    return done


def _print_done(done: UndoPlan) -> None:
    print_message(f"undid {done.head.call_id}: {_count_steps(done.steps)}")
    for conflict in done.conflicts:
        if conflict.step is None:
            print_message(f"  left unchanged: {conflict.path} {conflict.problem}")


def _find_last(journal: UndoJournal) -> str:
    known = journal.call_ids()
    if not known:
        raise UndoError(
            "there is nothing to undo",
            code="undo-unknown",
            hint="calls that write files are recorded unless undo is disabled: wasmrt config get workspace.undo",
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
        print_message("there is nothing to undo")
    else:
        show_columns(("CALL", "TIME (UTC)", "TOOL", "FILES AND FOLDERS", "WORKSPACE"), map(_make_row, plans))


def _make_row(plan: UndoPlan) -> tuple[str, ...]:
    head = plan.head
    return head.call_id, format_time(head.started_ms), head.tool, str(len(plan.steps) + len(plan.conflicts)), head.root


def _print_plan(plan: UndoPlan) -> None:
    print_message(
        f"call {plan.head.call_id} of {plan.head.tool}, {format_time(plan.head.started_ms)} UTC, in {plan.head.root}"
        + (f", called by the program {plan.head.program}" if plan.head.program else "")
    )
    for step in plan.steps:
        print_message(f"  {_format_step(step)}")
    for conflict in plan.conflicts:
        would = f"; --force would {_format_step(conflict.step)}" if conflict.step is not None else ""
        print_message(f"  conflict: {conflict.path} {conflict.problem}{would}")
    if not plan.steps and not plan.conflicts:
        print_message("  no file differs from its state before the call")


def _format_step(step: UndoStep) -> str:
    folder = step.do in _OF_FOLDERS
    size = f" ({format_size(step.to.size_bytes)})" if step.do is Act.RESTORE else ""
    return f"{_ACTS[step.do]} {step.path}{'/' * folder}{size}"


def _count_steps(steps: Iterable[UndoStep]) -> str:
    of_folders = [step.do in _OF_FOLDERS for step in steps]
    files, folders = of_folders.count(False), of_folders.count(True)
    counts = [f"{files} file{'s' * (files != 1)}"] if files or not folders else []
    return " and ".join([*counts, f"{folders} folder{'s' * (folders != 1)}"] if folders else counts)
