"""Output of build, test and dev: build reports and test results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import click

from wasmrt.authoring.project import Built, Confirm, TestResult
from wasmrt.cli.shared.output import (
    format_size,
    is_interactive,
    print_lines,
    print_message,
)
from wasmrt.cli.shared.progress import status
from wasmrt.core.errors import BuildError
from wasmrt.core.model import Addition
from wasmrt.core.terminal import printable


def confirm_with(*, yes: bool, as_json: bool) -> Confirm:
    """Return a function that asks for confirmation. It returns True for `--yes`, and False if nobody can be asked."""

    def confirm(question: str) -> bool:
        if yes:
            return True
        if as_json or not is_interactive():
            return False
        return click.confirm(printable(question), default=True, err=True)

    return confirm


@contextmanager
def showing_output(*, quiet: bool) -> Iterator[None]:
    """Print the output of a failed build step before its error."""
    try:
        yield
    except BuildError as error:
        if not quiet:
            show_output(error)
        raise


def show_output(error: BuildError) -> None:
    """Print the output of a failed build step."""
    if error.output:
        print_lines(error.output)


def show_built(built: Built) -> None:
    """Print the report on a build."""
    report = built.report
    if built.unchanged:
        name = built.project.component.name
        print_message(f"{name} is up to date: nothing has changed since the last build ({built.seconds:.1f} s)")
        for sentence in report.warnings:
            print_message(f"warning: {sentence}")
        return
    print_message(f"built {built.project.component.name}: {format_size(report.size_bytes)}, {report.world}")
    print_message(f"compilers and build scripts ran {built.confinement}")
    print_message(f"tools: {', '.join(report.tools) or 'none'}")
    wasi = [name for name in report.imports if name.startswith("wasi:")]
    print_message(f"imports: {len(report.imports)} functions, {len(wasi)} of them from WASI")
    print_message("requests:" if report.asks else "requests no capabilities")
    for sentence in report.asks:
        print_message(f"  {sentence}")
    for sentence in report.denied:
        print_message(f"will be denied if called: {sentence}")
    for sentence in report.warnings:
        print_message(f"warning: {sentence}")


def show_results(results: Iterable[TestResult], write: Callable[[str], None]) -> tuple[int, int]:
    """Print each result when it arrives, and return the numbers of passed and failed cases."""
    passed = failed = 0
    started = time.monotonic()
    waiting = iter(results)
    while (result := _take_next(waiting)) is not None:
        passed, failed = passed + result.passed, failed + (not result.passed)
        mark = "ok  " if result.passed else "FAIL"
        write(f"{mark} {result.case.name} ({result.seconds * 1000:.0f} ms)")
        if not result.passed:
            for line in _explain_failure(result):
                write(f"     {line}")
    write(f"{passed} passed, {failed} failed in {time.monotonic() - started:.1f} s")
    return passed, failed


def _take_next(results: Iterator[TestResult]) -> TestResult | None:
    with status("running the next case"):
        return next(results, None)


def _explain_failure(result: TestResult) -> Iterator[str]:
    yield from result.problems
    yield f"test case: tests/{result.case.file}"
    for entry in result.logs[-10:]:
        yield f"log {entry.level}: {entry.message}"
    for decision in dict.fromkeys(decision for decision in result.decisions if not decision.allowed):
        yield f"denied: {decision.subject or decision.capability} ({decision.reason}: {decision.rule})"
        if decision.hint:
            step = "to allow it, " if isinstance(decision.suggestion, Addition) else ""
            yield f"  {step}{decision.hint}"
