"""Processes that are killed during their work, and restarted until it is done."""

from __future__ import annotations

import os
import random
import select
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[[], None]
Work = Callable[[Step], None]


@contextmanager
def forking() -> Iterator[None]:
    """Fork despite running threads, which Python warns about. The children acquire no locks of the parent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class Killed:
    """Runs jobs concurrently, each in a separate process that reports its steps.

    After a number of steps, which is the same in every run, a process is killed and restarted.
    """

    def __init__(self, count: int) -> None:
        self.left = count
        self._chance = random.Random(7)

    def run(self, *works: Work, most: int) -> None:
        """Run the jobs until each has ended normally."""
        running = {self._start(work): (work, self._steps(most)) for work in works}
        while running:
            for pipe in select.select([pipe for _, pipe in running], [], [])[0]:
                child = next(c for c, p in running if p == pipe)
                work, steps = running.pop((child, pipe))
                if not os.read(pipe, 1):
                    assert _ended(child, pipe) == 0
                elif steps > 1:
                    running[child, pipe] = work, steps - 1
                else:
                    os.kill(child, signal.SIGKILL)
                    if (code := _ended(child, pipe)) != 0:  # otherwise, it had ended normally just before
                        assert code == -signal.SIGKILL
                        self.left -= 1
                        running[self._start(work)] = work, self._steps(most)

    def _steps(self, most: int) -> int:
        return self._chance.randrange(1, most) if self.left > 0 else 2**60

    @staticmethod
    def _start(work: Work) -> tuple[int, int]:
        ours, theirs = os.pipe()
        with forking():
            child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(ours)
                work(lambda: os.write(theirs, b".") and None)
                code = 0
            finally:
                os._exit(code)
        os.close(theirs)
        return child, ours


def _ended(child: int, pipe: int) -> int:
    os.close(pipe)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
