"""Runs test cases in the real sandbox, each with a runtime, a workspace and a network of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wasmrt.authoring.project._cases import TestCase
from wasmrt.authoring.project._recorded import AnyHost, MadeUpSecrets, RecordedNetwork
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import parse
from wasmrt.core.errors import GUEST_CODE_PREFIX, ConfigurationError, NotInstalledError, ToolError
from wasmrt.core.model import Decision, LogEntry
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime

_SHOWN = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """Outcome of one case."""

    __test__ = False  # pytest looks at everything called Test

    case: TestCase
    problems: tuple[str, ...]
    """Reasons that it failed; none where it passed."""
    seconds: float
    actual: Any = None
    error: str | None = None
    logs: tuple[LogEntry, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return {
            "file": self.case.file,
            "name": self.case.name,
            "passed": self.passed,
            "problems": list(self.problems),
            "seconds": self.seconds,
            "actual": self.actual,
            "error": self.error,
            "logs": [f"{entry.level}: {entry.message}" for entry in self.logs],
            "denied": [decision.as_dict() for decision in self.decisions if not decision.allowed],
        }


def run_cases(name: str, component: bytes, sidecar: bytes | None, cases: Iterable[TestCase]) -> Iterator[TestResult]:
    """Run each case with everything the sidecar asks for granted, and yield its result as soon as it is there.

    The clock and the random numbers of a case are the same at every run.

    Raises:
        ComponentError, CapabilityFileError: the component or the sidecar cannot be used at all.
    """
    grant = Capabilities.none() if sidecar is None else parse(sidecar).capabilities
    for case in cases:
        with TemporaryDirectory(prefix="wasmrt-test-") as folder:
            _fill(Path(folder), case)
            yield _run(name, component, grant, case, Path(folder))


def _fill(folder: Path, case: TestCase) -> None:
    for path, text in case.workspace.items():
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise ConfigurationError(
                f"{case.file}: the workspace file {path!r} cannot be written ({error.strerror})", code="test-case"
            ) from None


def _run(name: str, component: bytes, grant: Capabilities, case: TestCase, folder: Path) -> TestResult:
    network = RecordedNetwork(case.exchanges)
    config = WasmRuntimeConfig(
        network=NetworkConfig(resolver=AnyHost(), transport=network),
        secrets=MadeUpSecrets(case.secrets),
        workspace=folder,
        deterministic=True,
    )
    with WasmToolRuntime(config) as runtime:
        tool = runtime.prepare(name, component, grant)
        started = time.monotonic()
        ended: dict[str, Any]
        try:
            called = tool if case.tool is None else tool.tool(case.tool)
            output = called.execute(json.dumps(case.input), case.context)
        except NotInstalledError as error:
            problems, ended = [f"{error.message}; {error.hint}"], {}
        except ToolError as error:
            problems = _check_error(case, error)
            ended = {"error": error.message, "logs": error.logs, "decisions": error.decisions}
        else:
            problems = _check_output(case, output.result)
            ended = {"actual": output.result, "logs": output.logs, "decisions": output.decisions}
    problems += network.problems
    problems += [f"it never asked for {request}, which is recorded" for request in network.unasked]
    return TestResult(case=case, problems=tuple(problems), seconds=time.monotonic() - started, **ended)


def _check_output(case: TestCase, actual: Any) -> list[str]:
    if case.expects_error:
        return [f"it was to fail, and answered {_short(actual)}"]
    found = difference(case.expected, actual)
    return [] if found is None else [found]


def _check_error(case: TestCase, error: ToolError) -> list[str]:
    if not case.expects_error:
        hint = f" ({error.hint})" if error.hint else ""
        return [f"it failed ({error.kind}, {error.code}): {error.message}{hint}"]
    wanted, problems = case.expected, []
    # An author expects the code that the tool gives; what the caller sees says that it is a tool's.
    code = error.code if wanted.get("code") == error.code else error.code.removeprefix(GUEST_CODE_PREFIX)
    for key, actual in (("kind", str(error.kind)), ("code", code)):
        if key in wanted and wanted[key] != actual:
            problems.append(f"the error's {key} was to be {wanted[key]!r}, and is {actual!r}")
    if wanted.get("message", "") not in error.message:
        problems.append(f"the error was to say {wanted['message']!r}, and says {error.message!r}")
    return problems


def difference(expected: Any, actual: Any, path: str = "$") -> str | None:
    """Return the first place where two JSON values differ, in words, or None. 1 equals 1.0, and not true."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected:
            if key not in actual:
                return f"{path}.{key} is missing; expected {_short(expected[key])}"
        for key in actual:
            if key not in expected:
                return f"{path}.{key} is not expected; it is {_short(actual[key])}"
        return next(filter(None, (difference(expected[key], actual[key], f"{path}.{key}") for key in expected)), None)
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{path} has {len(actual)} entries; expected {len(expected)}"
        pairs = enumerate(zip(expected, actual, strict=True))
        return next(filter(None, (difference(a, b, f"{path}[{index}]") for index, (a, b) in pairs)), None)
    same_kind = isinstance(expected, bool) == isinstance(actual, bool)
    return None if same_kind and expected == actual else f"{path} is {_short(actual)}; expected {_short(expected)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
