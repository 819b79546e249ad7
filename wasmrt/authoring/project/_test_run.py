"""Run test cases in the sandbox, each with a separate runtime, workspace and network.

The network is a transport with recorded responses. As in a real call, the gateway checks the allowlist, addresses,
headers, credentials and limits, and scans for secrets, before it calls the transport.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wasmrt.authoring.project._cases import FieldCheck, RecordedExchange, TestCase
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import parse
from wasmrt.core.errors import GUEST_CODE_PREFIX, ConfigurationError, NotInstalledError, SecretNotFoundError, ToolError
from wasmrt.core.model import Decision, LogEntry
from wasmrt.egress.gateway import ExchangeBudget, HttpFailure, NetworkConfig, WholeBody, WireRequest, WireResponse
from wasmrt.egress.secrets import Entry, EntryStore, Secret
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component.worlds import FailureKind

_SHOWN = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """The result of a test case."""

    __test__ = False  # keep pytest from collecting this class

    case: TestCase
    problems: tuple[str, ...]
    """The reasons why the case failed; empty if it passed."""
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
    """Run each case with the capabilities that the capability file requests, and yield its result.

    The clock and the random numbers of a case are the same in every run.

    Raises:
        ComponentError, CapabilityFileError: the component or the capability file cannot be used.
    """
    requested = Capabilities.none() if sidecar is None else parse(sidecar).capabilities
    for case in cases:
        limits = requested.limits
        if case.timeout_seconds is not None:
            limits = replace(limits, timeout_seconds=case.timeout_seconds)
        grant = requested.with_limits(limits)
        with TemporaryDirectory(prefix="wasmrt-test-") as folder:
            _write_workspace(Path(folder), case)
            yield _run_case(name, component, grant, case, Path(folder))


def _write_workspace(folder: Path, case: TestCase) -> None:
    for path, text in case.workspace.items():
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise ConfigurationError(
                f"{case.file}: the workspace file {path!r} cannot be written ({error.strerror})", code="test-case"
            ) from None


def _run_case(name: str, component: bytes, grant: Capabilities, case: TestCase, folder: Path) -> TestResult:
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
    problems += [f"the recorded request {request} was not sent" for request in network.unsent_requests]
    return TestResult(case=case, problems=tuple(problems), seconds=time.monotonic() - started, **ended)


def _check_output(case: TestCase, actual: Any) -> list[str]:
    if case.expects_error:
        return [f"expected an error, got the result {_shorten(actual)}"]
    if case.fields is not None:
        return [problem for check in case.fields if (problem := _check_field(check, actual)) is not None]
    found = find_difference(case.expected, actual)
    return [] if found is None else [found]


def _check_field(check: FieldCheck, actual: Any) -> str | None:
    """Return the reason why a part of an output is not as expected, or None."""
    shown = ".".join(("$", *check.path))
    for part in check.path:
        if isinstance(actual, dict) and part in actual:
            actual = actual[part]
        elif isinstance(actual, list) and part.isascii() and part.isdigit() and int(part) < len(actual):
            actual = actual[int(part)]
        else:
            return f"{shown} is missing" if check.exists else None
    if not check.exists:
        return f"{shown} is not expected; got {_shorten(actual)}"
    return find_difference(check.value, actual, shown) if check.has_value else None


def _check_error(case: TestCase, error: ToolError) -> list[str]:
    if not case.expects_error:
        hint = f" ({error.hint})" if error.hint else ""
        return [f"the call failed ({error.kind}, {error.code}): {error.message}{hint}"]
    wanted, problems = case.expected, []
    # Authors expect the code that the tool returned, without the prefix that the host adds.
    code = error.code if wanted.get("code") == error.code else error.code.removeprefix(GUEST_CODE_PREFIX)
    for key, actual in (("kind", str(error.kind)), ("code", code)):
        if key in wanted and wanted[key] != actual:
            problems.append(f"expected the error {key} {wanted[key]!r}, got {actual!r}")
    if wanted.get("message", "") not in error.message:
        problems.append(f"expected an error message with {wanted['message']!r}, got {error.message!r}")
    return problems


def find_difference(expected: Any, actual: Any, path: str = "$") -> str | None:
    """Return a description of the first difference between two JSON values, or None if they are equal.

    1 equals 1.0, but not true.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected:
            if key not in actual:
                return f"{path}.{key} is missing; expected {_shorten(expected[key])}"
        for key in actual:
            if key not in expected:
                return f"{path}.{key} is not expected; got {_shorten(actual[key])}"
        return next(
            filter(None, (find_difference(expected[key], actual[key], f"{path}.{key}") for key in expected)), None
        )
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{path} has {len(actual)} entries; expected {len(expected)}"
        pairs = enumerate(zip(expected, actual, strict=True))
        return next(filter(None, (find_difference(a, b, f"{path}[{index}]") for index, (a, b) in pairs)), None)
    same_kind = isinstance(expected, bool) == isinstance(actual, bool)
    return None if same_kind and expected == actual else f"{path} is {_shorten(actual)}; expected {_shorten(expected)}"


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_PUBLIC_ADDRESS = "93.184.215.14"


class AnyHost:
    """A resolver that returns the same public address for every name. Tests never connect to it."""

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        return (_PUBLIC_ADDRESS,)


class RecordedNetwork:
    """A transport that returns each recorded response once. It serves one call at a time."""

    def __init__(self, exchanges: Iterable[RecordedExchange]) -> None:
        self._waiting = list(exchanges)
        self.problems: list[str] = []
        """Messages about requests without a recorded response."""

    @property
    def unsent_requests(self) -> tuple[str, ...]:
        """The recorded requests that were not sent."""
        return tuple(f"{each.method} {each.url.origin}{each.url.target}" for each in self._waiting)

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        for recorded in self._waiting:
            if _find_mismatch(recorded, request) is None:
                self._waiting.remove(recorded)
                return _respond(recorded, budget)
        shown = f"{request.method} {request.scheme}://{request.host}{request.target.partition('?')[0]}"
        near = [recorded for recorded in self._waiting if recorded.url.host == request.host]
        reason = f"; the recorded request differs in {_find_mismatch(near[0], request)}" if near else ""
        self.problems.append(f"no exchange is recorded for {shown}{reason}")
        raise HttpFailure(FailureKind.OPERATION_FAILED, "no-exchange", f"no exchange is recorded for {shown}")

    def close(self) -> None:
        """Do nothing, because there is no connection."""


class MadeUpSecrets(EntryStore):
    """A store with invented values for the given names, the same for every user."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._known = {name.lower() for name in names}

    def _read(self, user: str, name: str) -> Entry | None:
        if name not in self._known:
            return None
        return Entry(Secret(f"made-up-value-of-{name}"), time.time())

    def _write(self, user: str, name: str, entry: Entry) -> None:
        raise SecretNotFoundError("the secrets of a test case cannot be changed")

    def _delete(self, user: str, name: str) -> bool:
        return False

    def _names(self, user: str) -> Iterable[str]:
        return self._known


def _respond(recorded: RecordedExchange, budget: ExchangeBudget) -> WireResponse:
    if len(recorded.answer) > budget.max_response_bytes:
        raise budget.fail_too_large()
    budget.charge_received(len(recorded.answer))
    headers = tuple((name.encode("latin-1", "replace"), value.encode()) for name, value in recorded.answer_headers)
    return WireResponse(recorded.status, headers, WholeBody(recorded.answer))


def _find_mismatch(recorded: RecordedExchange, request: WireRequest) -> str | None:
    """Return the first part in which a request differs from a recorded request, or None if they match."""
    if recorded.method != request.method:
        return f"its method, {recorded.method}"
    url = recorded.url
    if (url.scheme, url.host, url.port) != (request.scheme, request.host, request.port):
        return f"its origin, {url.origin}"
    if url.target != request.target:
        return "its path or query"
    sent = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in request.headers]
    for name, value in recorded.headers:
        if (name.lower(), value) not in sent:
            return f"its header {name}"
    if recorded.body is not None and not _is_same_body(recorded.body, request.body or b""):
        return "its body"
    return None


def _is_same_body(recorded: Any, sent: bytes) -> bool:
    if isinstance(recorded, str):
        return recorded.encode() == sent
    try:
        return bool(json.loads(sent) == recorded)
    except (ValueError, RecursionError):
        return False
