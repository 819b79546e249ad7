"""Test cases as files: read strictly, so that a misspelt key cannot turn a check into none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wasmrt.authoring.project._project import Project
from wasmrt.capabilities import METHODS, path_problem, read_secret_name
from wasmrt.core.errors import ConfigurationError, ToolErrorKind
from wasmrt.core.limits import MIB
from wasmrt.core.url import InvalidUrlError, ParsedUrl, parse_url

_KEYS = {
    "name", "tool", "input", "context", "expected_output", "expected_error", "http", "workspace", "secrets",
}  # fmt: skip
_ERROR_KEYS = {"kind", "code", "message"}
_MAX_TEST_FILES = 256
_MAX_TEST_FILE_BYTES = 4 * MIB
_MAX_TEST_CASES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExchange:
    """One request that is expected, and its answer."""

    method: str
    url: ParsedUrl
    headers: tuple[tuple[str, str], ...]
    """Those that must be sent; others may be."""
    body: Any = None
    """Text, or JSON to be equal to; None for whatever is sent."""
    status: int = 200
    answer_headers: tuple[tuple[str, str], ...] = ()
    answer: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """One call, what the world around it holds, and how it has to end."""

    __test__ = False  # pytest looks at everything called Test

    file: str
    name: str
    input: Any
    tool: str | None = None
    context: Any = None
    expects_error: bool = False
    expected: Any = None
    """The output; for an error, its kind, code and a part of its message, as far as the case names them."""
    exchanges: tuple[RecordedExchange, ...] = ()
    workspace: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def read_cases(project: Project) -> tuple[TestCase, ...]:
    """Read every case in the project's tests folder, in the order of the files' names.

    Raises:
        ConfigurationError: there is none, or one is not a case; the message says which and why.
    """
    files = sorted((project.folder / "tests").glob("*.json"))
    if len(files) > _MAX_TEST_FILES:
        raise ConfigurationError(f"there are over {_MAX_TEST_FILES} files of test cases")
    cases = tuple(case for path in files for case in _of_file(path))
    if not cases:
        raise ConfigurationError(
            "there are no test cases", hint='write one: tests/first.json with {"name", "input", "expected_output"}'
        )
    if len(cases) > _MAX_TEST_CASES:
        raise ConfigurationError(f"there are over {_MAX_TEST_CASES} test cases")
    return cases


def _of_file(path: Path) -> Iterator[TestCase]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_TEST_FILE_BYTES + 1)
        if len(data) > _MAX_TEST_FILE_BYTES:
            raise _CaseError(f"it is over {_MAX_TEST_FILE_BYTES} bytes")
        value = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(path.name, getattr(error, "strerror", None) or f"it is not JSON: {error}") from None
    for number, entry in enumerate(value if isinstance(value, list) else [value], 1):
        try:
            yield _case(path.name, entry)
        except _CaseError as error:
            where = f"{path.name}, case {number}" if isinstance(value, list) else path.name
            raise _wrong(where, str(error)) from None


class _CaseError(ValueError):
    """A mistake in one case."""


def _wrong(where: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{where}: {why}", code="test-case", hint="wasmrt test --help shows what a case holds")


def _case(file: str, entry: Any) -> TestCase:
    case = _table(entry, "a case", _KEYS)
    for key in ("name", "input"):
        if key not in case:
            raise _CaseError(f"it has no {key!r}")
    if ("expected_output" in case) == ("expected_error" in case):
        raise _CaseError("it has either expected_output or expected_error")
    expects_error = "expected_error" in case
    secrets = case.get("secrets", [])
    if not isinstance(secrets, list):
        raise _CaseError("secrets is a list of names")
    tool = case.get("tool")
    return TestCase(
        file=file,
        name=_text(case["name"], "name"),
        input=case["input"],
        tool=None if tool is None else _text(tool, "tool"),
        context=case.get("context"),
        expects_error=expects_error,
        expected=_error(case["expected_error"]) if expects_error else case["expected_output"],
        exchanges=tuple(_exchange(exchange) for exchange in _list(case.get("http", []), "http")),
        workspace=_workspace(case.get("workspace", {})),
        secrets=tuple(_secret(name) for name in secrets),
    )


def _secret(name: Any) -> str:
    try:
        return read_secret_name(name)
    except ConfigurationError as error:
        raise _CaseError(f"secrets: {error.message}") from None


def _error(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"message": value}
    wanted = {key: _text(part, key) for key, part in _table(value, "expected_error", _ERROR_KEYS).items()}
    if not wanted:
        raise _CaseError("expected_error names none of kind, code and message")
    if wanted.get("kind", "sandbox") not in set(ToolErrorKind):
        raise _CaseError(f"there is no error kind {wanted['kind']!r}; there are {', '.join(ToolErrorKind)}")
    return wanted


def _exchange(value: Any) -> RecordedExchange:
    exchange = _table(value, "an exchange", {"request", "response"})
    request = _table(exchange.get("request"), "request", {"method", "url", "headers", "body"})
    response = _table(exchange.get("response", {}), "response", {"status", "headers", "body"})
    method = _text(request.get("method", "GET"), "method").upper()
    if method not in METHODS:
        raise _CaseError(f"there is no method {method!r}")
    try:
        url = parse_url(_text(request.get("url"), "url"))
    except InvalidUrlError as error:
        raise _CaseError(f"url: {error.message}") from None
    status = response.get("status", 200)
    if not isinstance(status, int) or isinstance(status, bool) or not 200 <= status <= 599:
        raise _CaseError("status is a whole number from 200 to 599")
    return RecordedExchange(
        method=method,
        url=url,
        headers=_headers(request.get("headers", {})),
        body=request.get("body"),
        status=status,
        answer_headers=_headers(response.get("headers", {})),
        answer=as_bytes(response.get("body", "")),
    )


def as_bytes(body: Any) -> bytes:
    """Return a body as it is sent: text as it is, any other JSON value as JSON."""
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _workspace(value: Any) -> dict[str, str]:
    files = {path: _text(text, f"workspace file {path!r:.60}") for path, text in _table(value, "workspace").items()}
    for path in files:
        problem = path_problem(path)
        if problem is None and path.endswith("/"):
            problem = "the path ends in a slash"
        if problem is not None:
            raise _CaseError(f"workspace file {path!r:.60}: {problem}")
    return files


def _headers(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(text, f"header {name!r:.60}")) for name, text in _table(value, "headers").items())


def _table(value: Any, what: str, keys: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _CaseError(f"{what} is not an object")
    unknown = sorted(set(value) - keys) if keys is not None else []
    if unknown:
        raise _CaseError(f"{what} has the unknown key {unknown[0]!r:.60}; it may hold {', '.join(sorted(keys or ()))}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _CaseError(f"{what} is not a list")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or (not value and what in ("name", "tool", "url")):
        raise _CaseError(f"{what} is not text")
    return value
