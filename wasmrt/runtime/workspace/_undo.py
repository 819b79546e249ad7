"""Undo a call's changes: restore every changed name to its previous state.

A name that has changed since the call is a conflict, and conflicts prevent the undo. If the process is killed, each
name has either the old or the new state, and undoing the call again completes the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.core.errors import UndoError
from wasmrt.runtime.workspace._journal import UndoJournal
from wasmrt.runtime.workspace._journal_file import JournalHead, JournalRecord
from wasmrt.runtime.workspace._restore import Act, Restorer, UndoStep, current_state
from wasmrt.runtime.workspace._states import ABSENT, Kind, State
from wasmrt.runtime.workspace._walk import walking


class UndoConflict(NamedTuple):
    """A name that cannot be restored without force."""

    path: str
    problem: str
    step: UndoStep | None
    """The step to carry out with force; None if it is impossible."""

    def as_dict(self) -> dict[str, Any]:
        """Return the conflict as JSON data."""
        return {"path": self.path, "problem": self.problem, "can_be_forced": self.step is not None}


class UndoPlan(NamedTuple):
    """The changes of one call, and the steps to undo them."""

    head: JournalHead
    steps: tuple[UndoStep, ...]
    conflicts: tuple[UndoConflict, ...]

    @property
    def forced(self) -> tuple[UndoStep, ...]:
        """The additional steps that are carried out with force."""
        return tuple(conflict.step for conflict in self.conflicts if conflict.step is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "call_id": self.head.call_id,
            "tool": self.head.tool,
            "user": self.head.user,
            "workspace": self.head.root,
            "at_ms": self.head.started_ms,
            "program": self.head.program or None,
            "steps": [step.as_dict() for step in self.steps],
            "conflicts": [conflict.as_dict() for conflict in self.conflicts],
        }


def plan_undo(journal: UndoJournal, call_id: str) -> UndoPlan:
    """Return a plan for undoing a call now, without changing anything.

    Raises:
        UndoError: the call has no recorded changes, the journal is damaged, or the workspace is missing.
    """
    return _make_plan(journal.read(call_id)[1], {})[0]


def plan_undo_all(journal: UndoJournal, call_ids: Iterable[str]) -> list[UndoPlan]:
    """Return plans for undoing several calls in order; each plan assumes that the previous ones are carried out.

    Raises:
        UndoError: one of the calls cannot be planned; see `plan_undo`.
    """
    plans = []
    by_then: dict[str, dict[str, State]] = {}
    for call_id in call_ids:
        record = journal.read(call_id)[1]
        expected = by_then.setdefault(record.head.root, {})
        plan, _ = _make_plan(record, expected)
        expected |= {step.path: step.to for step in (*plan.steps, *plan.forced)}
        plans.append(plan)
    return plans


def undo(journal: UndoJournal, call_id: str, *, force: bool = False) -> UndoPlan:
    """Undo the changes of a call, delete its journal, and return the plan that was carried out.

    With `force`, later changes that conflict are lost; names that cannot be restored are left unchanged.

    Raises:
        UndoError: the undo cannot be planned (see `plan_undo`), has a conflict, or a step failed; or the call is still
            running. After a failed step, calling `undo` again tries the remaining steps.
    """
    with journal.locked(call_id) as (path, record):
        plan, current = _make_plan(record, {})
        if not force:
            check_conflicts(plan)
        plan = plan._replace(steps=_sort_steps((*plan.steps, *plan.forced)))
        try:
            Restorer(Path(plan.head.root), path, record, current).run(plan.steps)
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UndoError(
                f"some changes could not be undone ({error.strerror})", hint="fix the cause, then run the command again"
            ) from error
    return plan


def check_conflicts(plan: UndoPlan) -> None:
    """Check that a plan can be carried out without force.

    Raises:
        UndoError: there is a conflict.
    """
    if plan.conflicts:
        first, more = plan.conflicts[0], len(plan.conflicts) - 1
        raise UndoError(
            f"{first.path} {first.problem}" + (f", and {more} more" if more else ""),
            code="undo-conflict",
            hint="review the conflicts, then pass --force to undo the call anyway",
        )


def _make_plan(record: JournalRecord, expected: Mapping[str, State]) -> tuple[UndoPlan, dict[str, State]]:
    """Make a plan from the current states of names, or from the states in `expected`. Also return these states."""
    root = Path(record.head.root)
    if not root.is_dir():
        raise UndoError("the workspace of the call is missing", code="undo-unknown", hint="restore the folder first")
    before: dict[str, State] = {}
    after: dict[str, list[State]] = {}
    for change in record.changes:
        if change.before is not None or change.path not in before:
            before[change.path] = change.before or ABSENT
        after.setdefault(change.path, []).append(change.after)
    current = {path: expected[path] if path in expected else current_state(root, path) for path in before}
    at_hand = {*record.contents, *(state.digest for state in current.values())}
    steps: list[UndoStep] = []
    conflicts: list[UndoConflict] = []
    for path, then in before.items():
        now = current[path]
        if now.is_same_as(then):
            continue
        step = UndoStep(_choose_act(then, now), path, then)
        problem, can_force = _find_problem(root, step, now, after[path], {**expected, **before}, at_hand)
        if problem is None:
            steps.append(step)
        else:
            conflicts.append(UndoConflict(path, problem, step if can_force else None))
    return UndoPlan(record.head, _sort_steps(steps), tuple(conflicts)), current


def _choose_act(then: State, now: State) -> Act:
    if then.kind is Kind.FILE:
        return Act.RESTORE
    if then.kind is Kind.DIRECTORY:
        return Act.MAKE_FOLDER
    return Act.REMOVE_FOLDER if now.kind is Kind.DIRECTORY else Act.REMOVE


def _find_problem(
    root: Path, step: UndoStep, now: State, after: list[State], before: dict[str, State], at_hand: set[str]
) -> tuple[str | None, bool]:
    """Return the problem that makes a step a conflict, or None; and whether the step can be forced."""
    expected = any(now.is_same_as(each) for each in after)
    if now.kind is Kind.OTHER or (not expected and {now.kind, step.to.kind} == {Kind.FILE, Kind.DIRECTORY}):
        return "is a different kind of file now", False
    if step.do is Act.RESTORE and step.to.digest not in at_hand:
        return "was moved, and the moved file has changed since", False
    if not expected:
        return "has changed since", True
    if now.kind is Kind.DIRECTORY and not _is_removed_too(root, step.path, before):
        return "contains files that the call did not create", False
    if step.do in (Act.RESTORE, Act.MAKE_FOLDER) and not _has_parent_folder(root, step.path, before):
        return "has no parent folder any more", True
    return None, True


def _is_removed_too(root: Path, path: str, before: dict[str, State]) -> bool:
    """Return whether the same undo also removes everything in a folder."""
    paths = {each for each in before if each.rpartition("/")[0] == path}
    with suppress(FileNotFoundError), walking(root) as walk:  # the undo of another call may create the folder first
        walk.down(path)
        with os.scandir(walk.here) as entries:
            paths |= {f"{path}/{entry.name}" for entry in entries}
    return all(each in before and before[each].kind is Kind.ABSENT for each in paths)


def _has_parent_folder(root: Path, path: str, before: dict[str, State]) -> bool:
    folder = path.rpartition("/")[0]
    if not folder or before.get(folder, ABSENT).kind is Kind.DIRECTORY:
        return True
    return current_state(root, folder).kind is Kind.DIRECTORY


def _sort_steps(steps: tuple[UndoStep, ...] | list[UndoStep]) -> tuple[UndoStep, ...]:
    """Sort steps: create folders top-down, then files, then remove folders bottom-up."""
    order = list(Act)

    def place(step: UndoStep) -> tuple[int, int, str]:
        depth = step.path.count("/")
        return order.index(step.do), -depth if step.do is Act.REMOVE_FOLDER else depth, step.path

    return tuple(sorted(steps, key=place))
