"""Tests of test cases in the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.authoring.project import (
    Project,
    TestResult,
    find_difference,
    read_cases,
    read_component,
    read_sidecar,
    run_cases,
)
from wasmrt.cli import cli
from wasmrt.core.errors import CapabilityFileError, ConfigurationError

URL = "https://api.open-meteo.com/v1/forecast?latitude=59.91&longitude=10.75&current=temperature_2m&temperature_unit=celsius"
EXCHANGE: dict[str, Any] = {"request": {"url": URL}, "response": {"body": {"current": {"temperature_2m": 4.5}}}}
CASE: dict[str, Any] = {
    "name": "warm in Oslo",
    "input": {"place": "Oslo"},
    "workspace": {"weather/places.txt": "Oslo 59.91 10.75\n"},
    "http": [EXCHANGE],
    "expected_output": {"place": "Oslo", "temperature": 4.5, "unit": "celsius"},
}
FIELDS: dict[str, Any] = {"name": "x", "input": {}, "expected_fields": [{"path": "a"}]}
Write = Callable[..., None]


def run(project: Project) -> list[TestResult]:
    return list(run_cases(project.name, read_component(project), read_sidecar(project), read_cases(project)))


def only(project: Project, write: Write, **changed: Any) -> TestResult:
    """Run the case with changed keys (None removes a key), and return its result."""
    write(project, {key: value for key, value in (CASE | changed).items() if value is not None})
    (result,) = run(project)
    return result


def test_recorded_response_and_workspace_file_reach_the_tool(c_project: Project, write_cases: Write) -> None:
    result = only(c_project, write_cases)
    assert result.passed, result.problems
    assert result.actual == CASE["expected_output"]
    assert result.logs


def test_wrong_output_reports_the_difference(c_project: Project, write_cases: Write) -> None:
    wrong = {"place": "Oslo", "temperature": 5, "unit": "celsius"}
    assert only(c_project, write_cases, expected_output=wrong).problems == ("$.temperature is 4.5; expected 5",)


def test_parts_of_the_output_are_checked(c_project: Project, write_cases: Write) -> None:
    fields = [
        {"path": "temperature", "value": 4.5}, {"path": "$.unit"}, {"path": "error", "exists": False},
        {"path": "place.0", "exists": False},
    ]  # fmt: skip
    named = {"expected_output": None, "description": "parts", "timeout": 30}
    assert only(c_project, write_cases, **named, expected_fields=fields).problems == ()
    wrong = [
        {"path": "temperature", "value": True}, {"path": "wind.speed"}, {"path": "unit", "exists": False},
        {"path": "place", "value": "Bergen"},
    ]  # fmt: skip
    assert only(c_project, write_cases, **named, expected_fields=wrong).problems == (
        "$.temperature is 4.5; expected true", "$.wind.speed is missing", '$.unit is not expected; got "celsius"',
        '$.place is "Oslo"; expected "Bergen"',
    )  # fmt: skip


def test_allowlist_applies_to_recorded_exchanges(c_project: Project, write_cases: Write) -> None:
    c_project.sidecar.write_text(
        json.dumps({"http": {"allowlist": [{"host": "example.com"}]}, "workspace": {"allowed_prefixes": ["weather/"]}})
    )
    result = only(c_project, write_cases)
    assert not result.passed
    assert any("network-denied" in problem or "not-authorized" in problem for problem in result.problems)
    assert any("was not sent" in problem for problem in result.problems)
    denied = [decision for decision in result.decisions if not decision.allowed]
    assert denied[0].reason == "host-not-allowed"
    assert "api.open-meteo.com" in (denied[0].hint or "")


def test_workspace_prefixes_apply_to_test_files(c_project: Project, write_cases: Write) -> None:
    sidecar = json.loads(c_project.sidecar.read_text())
    c_project.sidecar.write_text(json.dumps(sidecar | {"workspace": {"allowed_prefixes": ["other/"]}}))
    result = only(c_project, write_cases, http=None, expected_output=None, expected_error="weather/")
    assert result.passed, result.problems


def test_host_adds_credentials_in_test_cases(c_project: Project, write_cases: Write) -> None:
    sidecar = json.loads(c_project.sidecar.read_text())
    sidecar["http"]["credentials"] = {
        "weather": {
            "secret_name": "weather_key",
            "location": {"type": "bearer"},
            "host_patterns": ["api.open-meteo.com"],
        }
    }
    c_project.sidecar.write_text(json.dumps(sidecar))
    asked = EXCHANGE | {"request": {"url": URL, "headers": {"Authorization": "Bearer made-up-value-of-weather_key"}}}

    assert only(c_project, write_cases, http=[asked], secrets=["weather_key"]).passed
    without = only(c_project, write_cases, http=[asked])
    assert any("weather_key" in problem for problem in without.problems)


@pytest.mark.parametrize(
    ("request_changed", "said"),
    [
        ({"method": "POST"}, "its method, POST"),
        ({"url": URL.replace("v1", "v2")}, "its path or query"),
        ({"url": URL.replace("https", "http")}, "its origin"),
        ({"headers": {"accept": "text/plain"}}, "its header accept"),
        ({"body": "x"}, "its body"),
        ({"body": {"x": 1}}, "its body"),
    ],
)
def test_mismatched_request_reports_the_difference(
    request_changed: dict[str, Any], said: str, c_project: Project, write_cases: Write
) -> None:
    result = only(c_project, write_cases, http=[EXCHANGE | {"request": {"url": URL} | request_changed}])
    assert any("no exchange is recorded for GET" in problem and said in problem for problem in result.problems)


def test_recorded_exchange_is_used_exactly_once(c_project: Project, write_cases: Write) -> None:
    result = only(c_project, write_cases, http=[EXCHANGE, EXCHANGE])
    assert result.problems == (f"the recorded request GET {URL} was not sent",)


def test_oversized_recorded_response_is_refused(c_project: Project, write_cases: Write) -> None:
    sidecar = json.loads(c_project.sidecar.read_text())
    sidecar["http"]["max_response_bytes"] = 8
    c_project.sidecar.write_text(json.dumps(sidecar))
    assert any("max_response_bytes" in problem for problem in only(c_project, write_cases).problems)


@pytest.mark.parametrize(
    ("expected", "passes"),
    [
        ("Oslo", True),
        ("nothing of it", False),
        ({"code": "unknown-place"}, True),
        ({"code": "other"}, False),
        ({"kind": "invalid-parameters", "message": "Oslo"}, True),
        ({"kind": "timeout"}, False),
    ],
)
def test_expected_error_matches_kind_code_and_message(
    expected: Any, passes: bool, c_project: Project, write_cases: Write
) -> None:
    result = only(
        c_project, write_cases, input={"place": "Atlantis"}, http=None, expected_output=None, expected_error=expected
    )
    assert result.passed is passes, result.problems


def test_a_success_where_an_error_was_expected_fails(c_project: Project, write_cases: Write) -> None:
    result = only(c_project, write_cases, expected_output=None, expected_error="anything")
    assert "expected an error" in result.problems[0]


def test_params_that_break_the_schema_fail_the_case_and_not_the_run(c_project: Project, write_cases: Write) -> None:
    write_cases(c_project, CASE | {"input": {"place": 7, "unit": "kelvin"}, "http": []}, CASE)
    assert [result.passed for result in run(c_project)] == [False, True]


def test_cases_share_nothing(c_project: Project, write_cases: Write) -> None:
    alone = {"name": "no file", "input": {"place": "Oslo"}, "expected_error": "places.txt"}
    write_cases(c_project, CASE, alone, CASE)
    assert all(result.passed for result in run(c_project))


def test_unknown_tool_fails_the_case_and_lists_the_tools(c_project: Project, write_cases: Write) -> None:
    (problem, *_) = only(c_project, write_cases, tool="other").problems
    assert problem == "weather has no tool 'other'; it has: weather"
    assert only(c_project, write_cases, tool="weather").passed


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ([], "must be a JSON object"),
        ({"name": "x", "input": {}}, "one of the keys expected_output, expected_fields, expected_error"),
        ({"name": "x", "input": {}, "expected_output": 1, "expected_error": "x"}, "one of the keys"),
        (FIELDS | {"expected_fields": []}, "expected_fields must have 1 to 1000 entries"),
        (FIELDS | {"expected_fields": [{"path": "a..b"}]}, "path must have keys and indexes separated by dots"),
        (FIELDS | {"expected_fields": [{"path": "a", "exists": False, "value": 1}]}, "must not have a"),
        (FIELDS | {"expected_fields": [{"path": "a", "equals": 1}]}, "unknown key 'equals'"),
        (FIELDS | {"timeout": 0}, "timeout must be a number of seconds above 0"),
        (FIELDS | {"description": 1}, "description must be a string"),
        ({"input": {}, "expected_output": 1}, "the key 'name' is missing"),
        ({"name": "x", "expected_output": 1}, "the key 'input' is missing"),
        (CASE | {"htpp": []}, "unknown key 'htpp'"),
        (CASE | {"name": 7}, "name must be a string"),
        (CASE | {"expected_output": None, "http": {}}, "http must be a list"),
        (CASE | {"http": [{"request": {"url": "file:///etc/passwd"}}]}, "url:"),
        (CASE | {"http": [{"request": {"url": URL, "method": "BREW"}}]}, "unknown method 'BREW'"),
        (CASE | {"http": [EXCHANGE | {"delay": 1}]}, "unknown key 'delay'"),
        (CASE | {"http": [EXCHANGE | {"response": {"status": True}}]}, "status"),
        (CASE | {"http": [EXCHANGE | {"response": {"status": 42}}]}, "status"),
        (CASE | {"workspace": {"../x": ""}}, "workspace file"),
        (CASE | {"workspace": {"/x": ""}}, "absolute"),
        (CASE | {"workspace": {"x/": ""}}, "slash"),
        (CASE | {"workspace": {"x": 1}}, "must be a string"),
        (CASE | {"secrets": "weather_key"}, "secrets must be a list"),
        (CASE | {"secrets": ["weather key"]}, "secrets: "),
        (CASE | {"secrets": [7]}, "secrets: "),
        ({"name": "x", "input": {}, "expected_error": {}}, 'at least one of the keys "kind", "code" and "message"'),
        ({"name": "x", "input": {}, "expected_error": {"kind": "odd"}}, "unknown error kind"),
        ({"name": "x", "input": {}, "expected_error": {"text": "odd"}}, "unknown key 'text'"),
    ],
)
def test_invalid_case_error_has_its_position(case: Any, said: str, c_project: Project, write_cases: Write) -> None:
    write_cases(c_project, CASE, case)
    with pytest.raises(ConfigurationError) as refused:
        read_cases(c_project)
    assert "cases.json, case 2" in refused.value.message
    assert said in refused.value.message


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff\xfe"])
def test_case_file_that_is_not_json_is_an_error(text: str, c_project: Project) -> None:
    (c_project.folder / "tests" / "odd.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"odd\.json"):
        read_cases(c_project)


def test_missing_test_cases_are_an_error(c_project: Project, write_cases: Write) -> None:
    write_cases(c_project)
    with pytest.raises(ConfigurationError, match="no test cases"):
        read_cases(c_project)


def test_invalid_sidecar_ends_the_run(c_project: Project) -> None:
    c_project.sidecar.write_text("[]")
    with pytest.raises(CapabilityFileError):
        run(c_project)


def test_test_command_prints_results_and_totals(c_project: Project, write_cases: Write) -> None:
    def command(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["test", str(c_project.folder), *arguments], prog_name="wasmrt")
        return result.exit_code, result.stdout

    write_cases(c_project, CASE, CASE | {"name": "cold in Oslo", "expected_output": {}})
    code, said = command()
    assert code == 1
    assert "ok   warm in Oslo (" in said
    assert "FAIL cold in Oslo (" in said
    assert "$.place is not expected" in said
    assert "1 passed, 1 failed in" in said
    assert command("-k", "warm")[0] == 0
    assert command("-k", "nowhere")[0] == 2
    code, said = command("--json")
    assert code == 1
    assert [case["passed"] for case in json.loads(said)["cases"]] == [True, False]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON)
@settings(max_examples=examples(60))
def test_a_value_never_differs_from_itself(value: Any) -> None:
    assert find_difference(value, json.loads(json.dumps(value))) is None


@given(one=JSON, other=JSON)
@settings(max_examples=examples(100))
def test_values_without_a_difference_are_equal_both_ways(one: Any, other: Any) -> None:
    found = find_difference(one, other)
    assert (found is None) == (find_difference(other, one) is None)
    if found is None:
        assert one == other
    else:
        assert found.startswith("$")


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), ([1], [True]), ({"a": 1}, {"a": True}), ("1", 1)])
def test_number_does_not_equal_boolean(one: Any, other: Any) -> None:
    assert find_difference(one, other) is not None
    assert find_difference(1, 1.0) is None
