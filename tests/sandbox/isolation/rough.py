"""A host with scarce resources: no threads or descriptors, a small stack, raising handlers, no time to close.

python -m tests.sandbox.isolation.rough TASK    prints what came of it as JSON; run as a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from wasmrt.testing.attacks import Body, tool

from tests.sandbox.isolation.processes import children
from wasmrt import Isolation, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import DeadlineExceededError, WasmrtError
from wasmrt.sandbox.guest.engine import wat2wasm

HONEST = wat2wasm(tool(Body()))
RECURSING = wat2wasm(tool(Body(functions="(func $deeper (call $deeper))", execute="(call $deeper) (call $ok)")))
SPINNING = wat2wasm(tool(Body(execute="(loop $more (br $more)) (unreachable)")))
PLACES = 40
"""The number of places tried, of all places where a handler could raise during prepare."""


def runtime() -> WasmToolRuntime:
    return WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.PROCESS))


def outcome(act: Callable[[], Any]) -> str:
    try:
        act()
    except WasmrtError as error:
        return type(error).__name__
    return "works"


def sentence(act: Callable[[], Any]) -> str:
    try:
        act()
    except WasmrtError as error:
        return str(error)
    return "works"


def no_thread_left() -> list[str]:
    """Prepare and call without available threads, and then with threads."""

    def refuse(*_arguments: object, **_more: object) -> int:
        raise RuntimeError("can't start new thread")

    start: Any = threading._start_new_thread  # type: ignore[attr-defined]
    found = []
    with runtime() as made:
        for able in (refuse, start):
            threading._start_new_thread = able  # type: ignore[attr-defined]
            found.append(outcome(lambda: made.prepare("honest", HONEST).execute({})))
    return found


def no_descriptor_left() -> list[list[str]]:
    """Prepare, and call in a new worker, with none to eight descriptors left; then again with enough."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    found = []
    with runtime() as made:
        honest = made.prepare("honest", HONEST)
        recursing = made.prepare("recursing", RECURSING)
        for left in range(9):
            outcome(lambda: recursing.execute({}))  # after which the next call has another worker
            with only_descriptors(left):
                scarce = [sentence(lambda: recursing.execute({})), sentence(lambda: made.prepare("spinning", SPINNING))]
            found.append([*scarce, outcome(lambda: recursing.execute({})), sentence(lambda: honest.execute({}))])
    return found


def no_descriptor_for_a_zygote() -> list[str]:
    """Prepare after the zygote was killed and none can be started; then again with enough descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    found = []
    with runtime() as made:
        made.prepare("honest", HONEST)
        for zygote in children(os.getpid()):
            os.kill(zygote, signal.SIGKILL)
        for left in (0, 1, 3, 4):
            with only_descriptors(left):
                found.append(sentence(lambda: made.prepare("spinning", SPINNING)))
        found.append(sentence(lambda: made.prepare("recursing", RECURSING)))
        found.append(sentence(lambda: made.prepare("honest", HONEST).execute({})))
    return found


@contextmanager
def only_descriptors(count: int) -> Iterator[None]:
    """Use up all descriptors of this process except a given number."""
    with ExitStack() as held:
        files = []
        with suppress(OSError):
            while True:
                files.append(open(os.devnull, "rb"))  # noqa: SIM115 - closed below
        for file in files[: len(files) - count]:
            held.enter_context(file)
        for file in files[len(files) - count :]:
            file.close()
        yield


def small_stack() -> list[str]:
    """Call an endlessly recursing guest on a thread with a small stack."""
    found: list[str] = []
    with runtime() as made:
        prepared = made.prepare("recursing", RECURSING)
        for size in (256 * 1024, 512 * 1024):
            threading.stack_size(size)
            thread = threading.Thread(target=lambda: found.append(outcome(lambda: prepared.execute({}))))
            thread.start()
            thread.join()
        found.append(outcome(lambda: made.prepare("honest", HONEST).execute({})))
    return found


class RungError(BaseException):
    """Raised by a signal handler."""


def handler_in_prepare() -> dict[str, int]:
    """Raise at each place of `prepare` in turn, and prepare and call again after each."""

    def interrupted(place: int) -> int:
        """Return the number of places passed; at each, Python could run a signal handler."""
        seen = 0

        def look(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal seen
            if event in ("call", "c_return") and signal.getsignal(signal.SIGUSR1) is ring:
                seen += 1
                if seen == place:
                    sys.setprofile(None)
                    raise RungError

        with runtime() as made:
            try:
                sys.setprofile(look)
                made.prepare("honest", HONEST)
            except RungError:
                pass
            finally:
                sys.setprofile(None)
            answers.append(outcome(lambda: made.prepare("honest", HONEST).execute({})))
        return seen

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise RungError

    answers: list[str] = []
    signal.signal(signal.SIGUSR1, ring)
    places = interrupted(0)
    for place in range(1, places, max(1, places // PLACES)):
        interrupted(place)
    return {"places": places, "tried": len(answers), "work after it": answers.count("works")}


def never_closed() -> str:
    """Leave a spinning guest behind, and exit without closing anything."""
    made = runtime()
    prepared = made.prepare("spinning", SPINNING, limits=ResourceLimits(timeout_seconds=0.2, fuel=2**60))
    threading.Thread(target=lambda: outcome(lambda: prepared.execute({})), daemon=True).start()
    try:
        prepared.execute({})
    except DeadlineExceededError:
        return "left"
    return "answered"


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
