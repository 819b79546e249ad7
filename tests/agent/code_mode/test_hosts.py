"""Suspended programs that hosts share: continued on another host, once, also after a host was killed."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.processes import forking
from tests.agent.code_mode.conftest import Desk, make_registry
from tests.postgres_server import StorePlace
from tests.tiers import kills
from wasmrt import ToolRegistry, WasmToolRuntime
from wasmrt.agent.builtin.code_mode import Answered, CodeRuns
from wasmrt.agent.builtin.code_mode._table import JournalTable
from wasmrt.core.errors import RunReplayError, RunSuspendedError
from wasmrt.core.postgres import Postgres

PROGRAM = "const a = await tools.add({a: 1, b: 1}); return await tools.write_note({text: String(a)})"
CALLS = 6


@pytest.fixture
def hosts(home: Path, postgres: Postgres, runtime: WasmToolRuntime, desk: Desk) -> list[ToolRegistry]:
    """Return the registries of two hosts with the same database."""
    (home / "data").mkdir(parents=True, exist_ok=True)
    config = home / "data" / "config.toml"
    config.touch(0o600)
    config.write_text(f'[database]\nurl = "{postgres.url}"\n')
    return [make_registry(runtime, desk) for _ in range(2)]


def run(host: ToolRegistry) -> Any:
    return host.execute("run_code", {"code": PROGRAM}, user="ann", trace="job-1").result


def end_leases(place: Postgres) -> None:
    with place.connect("wasmrt_programs") as db:
        db.execute("UPDATE leases SET ends_ms = 0")


@pytest.mark.parametrize("store_place", ["sqlite"], indirect=True)
def test_a_program_that_waits_on_one_host_goes_on_at_the_other_once(hosts: list[ToolRegistry], desk: Desk) -> None:
    here, there = hosts
    with pytest.raises(RunSuspendedError):
        run(here)
    desk.answers = [True]
    assert run(there) == {"result": "wrote 2"}
    assert desk.done == ["add 1 1", "write 2"]
    with pytest.raises(RunSuspendedError):
        run(here)
    assert desk.done == ["add 1 1", "write 2", "add 1 1"], "the program has ended, and starts again"


@pytest.mark.parametrize("store_place", ["sqlite"], indirect=True)
def test_a_host_that_lost_its_lease_makes_no_further_call(
    hosts: list[ToolRegistry], desk: Desk, postgres: Postgres, runtime: WasmToolRuntime
) -> None:
    with pytest.raises(RunSuspendedError):
        run(hosts[0])
    asked, go_on, ask, outcomes = threading.Event(), threading.Event(), desk.ask, []

    def hang(request: Any) -> Any:
        asked.set()
        go_on.wait(60)
        return ask(request)

    def run_here(here: ToolRegistry) -> None:
        try:
            outcomes.append(run(here))
        except RunReplayError as error:
            outcomes.append(error.message)

    desk.ask, desk.answers = hang, [True, True]  # type: ignore[method-assign]
    first = threading.Thread(target=run_here, args=(make_registry(runtime, desk),))
    first.start()
    assert asked.wait(60)
    with pytest.raises(RunReplayError, match="another call is running"):
        run(hosts[1])
    end_leases(postgres)
    desk.ask = ask  # type: ignore[method-assign]
    assert run(make_registry(runtime, desk)) == {"result": "wrote 2"}
    go_on.set()
    first.join(60)
    assert desk.done == ["add 1 1", "write 2"] and outcomes == ["the program continues on another host"]


def journals(place: Path | Postgres) -> CodeRuns:
    runs = CodeRuns(place)
    if isinstance(place, Postgres):
        runs.journals = JournalTable(place, lease_seconds=0.5)
    return runs


def work(runs: CodeRuns, effects: Path) -> None:
    """Make the calls of a program, each of which adds its number to the file `effects`."""
    with runs.opened("ann", "job-1", "code", "abcd-t1") as opened:
        opened.keep()
        opened.rewind()
        for number in range(CALLS):
            asked = f"{number:064}"
            if opened.answer(number, asked) is None:
                opened.begin(asked, reads=False)
                with effects.open("a") as file:
                    file.write(f"{number}\n")
                opened.add(Answered(asked, "1"))
        opened.forget()


def work_when_free(place: Path | Postgres, runs: CodeRuns, effects: Path) -> None:
    """Work, and end the lease again if the server completed a statement of the killed host after its end."""
    while True:
        try:
            return work(runs, effects)
        except RunReplayError as error:
            if error.code != "run-under-way" or not isinstance(place, Postgres):
                raise
            end_leases(place)


def work_until_killed(place: Path | Postgres, effects: Path, chance: random.Random) -> None:
    with forking():
        child = os.fork()
    if child == 0:
        threading.Timer(chance.random() * 0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
        try:
            while True:
                work(journals(place), effects)
                effects.unlink()  # the program has ended
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.ci("kills")
def test_no_call_is_made_twice_if_its_host_is_killed(tmp_path: Path, store_place: StorePlace) -> None:
    place, effects, chance = store_place(tmp_path / "runs"), tmp_path / "effects", random.Random(39)
    runs = journals(place)
    runs.journals.forget_expired()  # creates the tables
    for _ in range(kills()):
        work_until_killed(place, effects, chance)
        if isinstance(place, Postgres):
            end_leases(place)
        made = effects.read_text().splitlines() if effects.exists() else []
        assert made == [str(number) for number in range(len(made))], "each call once, in order"
        if not list(runs.journals.read_all()):  # killed after a program's end or before its first call
            assert len(made) in (0, CALLS)
            effects.unlink(missing_ok=True)
        try:
            work_when_free(place, runs, effects)
            assert effects.read_text().splitlines() == [str(number) for number in range(CALLS)]
        except RunReplayError as error:
            assert error.code == "run-interrupted"
            for name, *_ in list(runs.journals.read_all()):
                runs.journals.drop(name)
        effects.unlink(missing_ok=True)
