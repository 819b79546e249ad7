"""Read test cases strictly: a misspelt key is an error, since ignoring it could disable a check."""

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
    "name", "description", "tool", "input", "context", "timeout", "expected_output", "expected_fields",
    "expected_error", "http", "workspace", "secrets",
}  # fmt: skip
_EXPECTATIONS = ("expected_output", "expected_fields", "expected_error")
_ERROR_KEYS = {"kind", "code", "message"}
_MAX_FIELDS = 1_000
_MAX_TIMEOUT_SECONDS = 600
_MAX_TEST_FILES = 256
_MAX_TEST_FILE_BYTES = 4 * MIB
_MAX_TEST_CASES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedExchange:
    """A request that the test expects, and the recorded response to it."""

    method: str
    url: ParsedUrl
    headers: tuple[tuple[str, str], ...]
    """Headers that must be sent; other headers are accepted."""
    body: Any = None
    """Expected text or JSON value; None accepts any body."""
    status: int = 200
    answer_headers: tuple[tuple[str, str], ...] = ()
    answer: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldCheck:
    """A check of one part of an output."""

    path: tuple[str, ...]
    """Keys of objects and indexes of lists, from the output itself."""
    exists: bool = True
    has_value: bool = False
    value: Any = None
    """The value that the part must have, if `has_value` is true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCase:
    """A call with its environment and its expected outcome."""

    __test__ = False  # keep pytest from collecting this class

    file: str
    name: str
    input: Any
    tool: str | None = None
    context: Any = None
    expects_error: bool = False
    expected: Any = None
    """The expected output, or the expected parts of an error: its kind, code, and a part of its message."""
    fields: tuple[FieldCheck, ...] | None = None
    """Checks of parts of the output, instead of the whole output."""
    timeout_seconds: float | None = None
    """The deadline of the call. None means the deadline in the capability file."""
    exchanges: tuple[RecordedExchange, ...] = ()
    workspace: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def read_cases(project: Project) -> tuple[TestCase, ...]:
    """Read all test cases in the project's tests folder, in the order of the file names.

    Raises:
        ConfigurationError: there are no test cases, or a test case is invalid.
    """
    files = sorted((project.folder / "tests").glob("*.json"))
    if len(files) > _MAX_TEST_FILES:
        raise ConfigurationError(f"there are more than {_MAX_TEST_FILES} files of test cases")
    cases = tuple(case for path in files for case in _read_file(path))
    if not cases:
        hint = 'write tests/first.json with the keys "name", "input" and "expected_output"'
        raise ConfigurationError("there are no test cases", hint=hint)
    if len(cases) > _MAX_TEST_CASES:
        raise ConfigurationError(f"there are more than {_MAX_TEST_CASES} test cases")
    return cases


def _read_file(path: Path) -> Iterator[TestCase]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_TEST_FILE_BYTES + 1)
        if len(data) > _MAX_TEST_FILE_BYTES:
            raise _CaseError(f"the file is larger than {_MAX_TEST_FILE_BYTES} bytes")
        value = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise _case_error(path.name, getattr(error, "strerror", None) or f"the file is not JSON: {error}") from None
    for number, entry in enumerate(value if isinstance(value, list) else [value], 1):
        try:
            yield _parse_case(path.name, entry)
        except _CaseError as error:
            where = f"{path.name}, case {number}" if isinstance(value, list) else path.name
            raise _case_error(where, str(error)) from None


class _CaseError(ValueError):
    """An error in a test case."""


def _case_error(where: str, problem: str) -> ConfigurationError:
    hint = "for the format of a case, run: wasmrt test --help"
    return ConfigurationError(f"{where}: {problem}", code="test-case", hint=hint)


def _parse_case(file: str, entry: Any) -> TestCase:
    case = _check_table(entry, "a case", _KEYS)
    for key in ("name", "input"):
        if key not in case:
            raise _CaseError(f"the key {key!r} is missing")
    if sum(key in case for key in _EXPECTATIONS) != 1:
        raise _CaseError(f"a case must have one of the keys {', '.join(_EXPECTATIONS)}")
    expects_error = "expected_error" in case
    tool = case.get("tool")
    _check_text(case.get("description", ""), "description")
    return TestCase(
        file=file,
        name=_check_text(case["name"], "name"),
        input=case["input"],
        tool=None if tool is None else _check_text(tool, "tool"),
        context=case.get("context"),
        expects_error=expects_error,
        expected=_parse_error(case["expected_error"]) if expects_error else case.get("expected_output"),
        fields=_parse_fields(case["expected_fields"]) if "expected_fields" in case else None,
        timeout_seconds=_parse_timeout(case["timeout"]) if "timeout" in case else None,
        exchanges=tuple(_parse_exchange(exchange) for exchange in _check_list(case.get("http", []), "http")),
        workspace=_parse_workspace(case.get("workspace", {})),
        secrets=tuple(_parse_secret(name) for name in _check_list(case.get("secrets", []), "secrets")),
    )


def _parse_secret(name: Any) -> str:
    try:
        return read_secret_name(name)
    except ConfigurationError as error:
        raise _CaseError(f"secrets: {error.message}") from None


def _parse_error(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"message": value}
    wanted = {key: _check_text(part, key) for key, part in _check_table(value, "expected_error", _ERROR_KEYS).items()}
    if not wanted:
        raise _CaseError('"expected_error" must have at least one of the keys "kind", "code" and "message"')
    if wanted.get("kind", "sandbox") not in set(ToolErrorKind):
        raise _CaseError(f"unknown error kind {wanted['kind']!r}; expected one of {', '.join(ToolErrorKind)}")
    return wanted


def _parse_fields(value: Any) -> tuple[FieldCheck, ...]:
    checks = _check_list(value, "expected_fields")
    if not 0 < len(checks) <= _MAX_FIELDS:
        raise _CaseError(f"expected_fields must have 1 to {_MAX_FIELDS} entries")
    return tuple(map(_parse_field, checks))


def _parse_field(value: Any) -> FieldCheck:
    given = _check_table(value, "an entry of expected_fields", {"path", "value", "exists"})
    path, exists = _check_text(given.get("path"), "path"), given.get("exists", True)
    if not isinstance(exists, bool) or (not exists and "value" in given):
        raise _CaseError('"exists" must be true or false; an entry with "exists": false must not have a "value"')
    parts = tuple(path.removeprefix("$").removeprefix(".").split("."))
    if not all(parts):
        raise _CaseError(f"path must have keys and indexes separated by dots, such as items.0.name, not {path!r:.60}")
    return FieldCheck(path=parts, exists=exists, has_value="value" in given, value=given.get("value"))


def _parse_timeout(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX_TIMEOUT_SECONDS:
        raise _CaseError(f"timeout must be a number of seconds above 0, at most {_MAX_TIMEOUT_SECONDS}")
    return float(value)


def _parse_exchange(value: Any) -> RecordedExchange:
    exchange = _check_table(value, "an exchange", {"request", "response"})
    request = _check_table(exchange.get("request"), "request", {"method", "url", "headers", "body"})
    response = _check_table(exchange.get("response", {}), "response", {"status", "headers", "body"})
    method = _check_text(request.get("method", "GET"), "method").upper()
    if method not in METHODS:
        raise _CaseError(f"unknown method {method!r}")
    try:
        url = parse_url(_check_text(request.get("url"), "url"))
    except InvalidUrlError as error:
        raise _CaseError(f"url: {error.message}") from None
    status = response.get("status", 200)
    if not isinstance(status, int) or isinstance(status, bool) or not 200 <= status <= 599:
        raise _CaseError("status must be an integer from 200 to 599")
    return RecordedExchange(
        method=method,
        url=url,
        headers=_parse_headers(request.get("headers", {})),
        body=request.get("body"),
        status=status,
        answer_headers=_parse_headers(response.get("headers", {})),
        answer=encode_body(response.get("body", "")),
    )


def encode_body(body: Any) -> bytes:
    """Encode the body of a response: text as UTF-8, any other value as JSON."""
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _parse_workspace(value: Any) -> dict[str, str]:
    files = {
        path: _check_text(text, f"workspace file {path!r:.60}")
        for path, text in _check_table(value, "workspace").items()
    }
    for path in files:
        problem = path_problem(path)
        if problem is None and path.endswith("/"):
            problem = "the path ends in a slash"
        if problem is not None:
            raise _CaseError(f"workspace file {path!r:.60}: {problem}")
    return files


def _parse_headers(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, _check_text(text, f"header {name!r:.60}")) for name, text in _check_table(value, "headers").items()
    )


def _check_table(value: Any, what: str, keys: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _CaseError(f"{what} must be a JSON object")
    unknown = sorted(set(value) - keys) if keys is not None else []
    if unknown:
        known = ", ".join(sorted(keys or ()))
        raise _CaseError(f"{what} has the unknown key {unknown[0]!r:.60}; known keys: {known}")
    return value


def _check_list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _CaseError(f"{what} must be a list")
    return value


def _check_text(value: Any, what: str) -> str:
    if not isinstance(value, str) or (not value and what in ("name", "tool", "url")):
        raise _CaseError(f"{what} must be {'a string that is not empty' if value == '' else 'a string'}")
    return value
