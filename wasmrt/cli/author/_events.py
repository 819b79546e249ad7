"""Output of `wasmrt dev`: messages, or one line of JSON for each event."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from wasmrt.authoring.project import Built, Confirm, TestResult
from wasmrt.cli.author.progress import confirm_with, report_progress, show_built, show_output, show_results
from wasmrt.cli.shared.errors import fail
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.core.errors import BuildError, WasmrtError
from wasmrt.core.model import ToolOutput


class Events(Protocol):
    """Everything that can happen in a round."""

    def confirm_with(self, *, yes: bool) -> Confirm: ...
    def changed(self, files: tuple[str, ...]) -> None: ...
    def step(self, label: str) -> AbstractContextManager[None]: ...
    def built(self, built: Built) -> None: ...
    def tested(self, results: Iterable[TestResult]) -> None: ...
    def result(self, output: ToolOutput) -> None: ...
    def failed(self, error: WasmrtError) -> None: ...
    def waiting(self) -> None: ...
    def ended(self) -> None: ...


class TextEvents:
    """Events for a person: messages on stderr, the result of a call on stdout."""

    def __init__(self) -> None:
        self.step = report_progress(quiet=False)

    def confirm_with(self, *, yes: bool) -> Confirm:
        return confirm_with(yes=yes, as_json=False)

    def changed(self, files: tuple[str, ...]) -> None:
        print_message(f"-- {', '.join(files[:5])}{' and more' if len(files) > 5 else ''}")

    def built(self, built: Built) -> None:
        show_built(built)

    def tested(self, results: Iterable[TestResult]) -> None:
        show_results(results, print_message)

    def result(self, output: ToolOutput) -> None:
        show_json(output.result)

    def failed(self, error: WasmrtError) -> None:
        if isinstance(error, BuildError):
            show_output(error)
        fail(error, as_json=False)

    def waiting(self) -> None:
        print_message("waiting for a change; Ctrl-C ends")

    def ended(self) -> None:
        print_message("")


class JsonEvents:
    """For a program: every event is one JSON object on one line of stdout, as soon as it happened."""

    def confirm_with(self, *, yes: bool) -> Confirm:
        return confirm_with(yes=yes, as_json=True)

    def changed(self, files: tuple[str, ...]) -> None:
        _line("changed", {"files": list(files)})

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        _line("step", {"doing": label, "seconds": time.monotonic() - started})

    def built(self, built: Built) -> None:
        component = built.project.component.relative_to(built.project.folder).as_posix()
        about = {"name": built.project.name, "component": component, "seconds": built.seconds}
        about |= {"unchanged": built.unchanged}
        _line("built", about | built.report.as_dict())

    def tested(self, results: Iterable[TestResult]) -> None:
        passed = failed = 0
        for result in results:
            passed, failed = passed + result.passed, failed + (not result.passed)
            _line("case", result.as_dict())
        _line("tested", {"passed": passed, "failed": failed})

    def result(self, output: ToolOutput) -> None:
        _line("result", output.as_dict())

    def failed(self, error: WasmrtError) -> None:
        _line("failed", error.as_dict())

    def waiting(self) -> None:
        _line("waiting", {})

    def ended(self) -> None:
        """Ctrl-C is no event: whoever pressed it knows."""


def _line(event: str, about: dict[str, Any]) -> None:
    show(json.dumps({"event": event} | about, ensure_ascii=False, allow_nan=False))
