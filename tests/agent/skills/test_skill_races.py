"""Installs of a skill that are interrupted or concurrent: text is never trusted that the user did not trust."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.skills.conftest import Agent, write_skill
from wasmrt.agent.builtin.skills import SkillTrust, read_folder
from wasmrt.core.errors import InstallError, NotInstalledError, WasmrtError

STEPS = 60
"""More changes of the file system than an install makes."""


class Stopped(BaseException):
    """The process was stopped."""


def stop_after(patched: pytest.MonkeyPatch, count: int) -> list[bool]:
    """Fail every change of the file system after the first `count`, as if the process had ended there."""
    left, stopped = [count], []

    def counted(act: Callable[..., object]) -> Callable[..., object]:
        def run(*values: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                stopped.append(True)
                raise Stopped
            return act(*values, **named)

        return run

    for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "link"):
        patched.setattr(os, name, counted(getattr(os, name)))
    return stopped


@pytest.mark.ci("slow")
@pytest.mark.parametrize("trust", [SkillTrust.TRUSTED, SkillTrust.INSTALLED])
def test_an_interrupted_update_never_gets_the_trust_of_the_old_version(
    agent: Agent, tmp_path: Path, trust: SkillTrust
) -> None:
    old = read_folder(write_skill(tmp_path / "old", "notes", "Old.", more=b"old").parent, "notes")
    new = read_folder(write_skill(tmp_path / "new", "notes", "New.", more=b"new").parent, "notes")
    seen = set()
    for count in range(STEPS):
        agent.store.install("notes", old, origin="old")
        agent.store.trust("notes", old.digest, trust)
        with pytest.MonkeyPatch.context() as patched:
            stopped = stop_after(patched, count)
            with contextlib.suppress(Stopped):
                agent.store.install("notes", new, origin="new")
        try:
            loaded = agent.store.read("notes")
            assert (loaded.digest, loaded.trust) in ((old.digest, trust), (new.digest, SkillTrust.INSTALLED))
            assert loaded.files.files["more"] == (b"old" if loaded.digest == old.digest else b"new")
            seen.add(str(loaded.files.files["more"]))
        except WasmrtError as error:
            assert error.code in ("skill-changed", "not-installed")
            seen.add(error.code)
        if not stopped:
            break
    assert not stopped and {"b'old'", "b'new'", "skill-changed"} <= seen


def test_concurrent_installs_leave_one_whole_skill_or_one_that_needs_a_review(agent: Agent, tmp_path: Path) -> None:
    made = [
        read_folder(
            write_skill(tmp_path / str(number), "notes", f"Text {number}.", more=b"%d" % number).parent, "notes"
        )
        for number in range(4)
    ]
    for _ in range(15):
        start = threading.Barrier(len(made) + 1)
        errors: list[BaseException] = []

        def install(number: int, start: threading.Barrier = start, errors: list[BaseException] = errors) -> None:
            start.wait()
            try:
                agent.store.install("notes", made[number], origin=str(number))
            except (InstallError, NotInstalledError):
                pass
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=install, args=(number,)) for number in range(len(made))]
        for thread in threads:
            thread.start()
        start.wait()
        for _ in range(5):
            check_whole(agent)
        for thread in threads:
            thread.join()
        assert errors == []
        check_whole(agent)


def check_whole(agent: Agent) -> None:
    try:
        loaded = agent.store.read("notes")
    except WasmrtError:
        return
    number = loaded.files.files["more"].decode()
    assert f"Text {number}." in loaded.files.files["SKILL.md"].decode() and loaded.trust is SkillTrust.INSTALLED
    assert loaded.origin == number
