"""`wasi:config/store`: a guest reads the configuration values of its grant, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.border.conftest import Start, a_call, only_tool
from tests.sandbox.border.relays import Relay
from wasmrt import Capabilities, ConfigurationError, Reason, merge
from wasmrt.capabilities import Amendment, add_to_grant
from wasmrt.core.errors import CapabilityFileError
from wasmrt.runtime.call import CallServices
from wasmrt.sandbox.guest.requests import ConfigGet, ConfigList

ERROR = """(type $error' (variant (case "upstream" string) (case "io" string)))
  (export "error" (type $error (eq $error')))"""
VERSIONS = ["0.2.0-draft", "0.2.0-rc.1", "0.2.0"]


def store(function: str, version: str = VERSIONS[0]) -> bytes:
    """Return a component that passes one function of the store on."""
    found = "(option string)" if function == "get" else "(list (tuple string string))"
    return Relay(
        interface=f"wasi:config/store@{version}",
        function=function,
        types=ERROR,
        params='(param "key" string)' if function == "get" else "",
        result=f"(result {found} (error $error))",
        shown_result=f"(result {found} (error (tuple u8 string)))",
        flat="i32 i32" if function == "get" else "",
    ).component()


def file_of(*values: str) -> Capabilities:
    return Capabilities.parse(json.dumps({"config_store": {"values": list(values)}}))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("isolation", ["in-process", "process"])
def test_a_guest_reads_the_values_of_its_grant(start: Start, version: str, isolation: str) -> None:
    runtime = start(isolation=isolation)
    grant = file_of("units=metric", "url=https://a.example/?x=y", "empty=", "unset")
    get = only_tool(runtime, store("get", version), grant)
    values: dict[str, Any] = {key: get.execute({"key": key}).result for key in ("units", "url", "empty", "unset")}
    assert values == {"units": "metric", "url": "https://a.example/?x=y", "empty": "", "unset": None}
    everything = only_tool(runtime, store("get-all", version), grant).execute({}).result
    assert dict(everything) == {"units": "metric", "url": "https://a.example/?x=y", "empty": ""}


@pytest.mark.parametrize("grant", [Capabilities.none(), file_of("language=en")])
def test_other_keys_have_no_value_and_are_recorded(start: Start, grant: Capabilities) -> None:
    output = only_tool(start(), store("get"), grant).execute({"key": "units"})
    assert output.result is None
    (decision,) = output.decisions
    assert (decision.reason, decision.capability, decision.subject) == (Reason.NOT_GRANTED, "config_store", "units")
    for key in ("", "a b", "x" * 10_000, "units=metric", "units\0"):
        assert only_tool(start(), store("get"), grant).execute({"key": key}).result is None


def test_a_request_for_a_key_can_be_granted_with_any_value(start: Start) -> None:
    request = file_of("units", "language=en")
    grant = add_to_grant(Capabilities.none(), request, Amendment.read("config_store=units=metric"))
    assert only_tool(start(), store("get"), grant).execute({"key": "units"}).result == "metric"
    changed = add_to_grant(grant, request, Amendment.read("config_store=units=imperial"))
    assert only_tool(start(), store("get"), changed).execute({"key": "units"}).result == "imperial"
    assert merge(request, file_of("units=metric", "language=de", "other=1")) == file_of("units=metric")
    both = file_of("units", "units=metric")
    assert merge(both, file_of("units", "units=imperial")).config_store.by_key == {"units": "imperial"}
    assert merge(request, both).config_store.by_key == {"units": "metric"}
    with pytest.raises(ConfigurationError, match="does not request"):
        add_to_grant(grant, request, Amendment.read("config_store=language=de"))


@pytest.mark.parametrize("values", [["a b"], ["=x"], ["a=\n"], ["a=" + "x" * 4096], ["a=1", "a=2"], [""]])
def test_invalid_entries_are_refused(values: list[str]) -> None:
    with pytest.raises(CapabilityFileError):
        file_of(*values)


def test_a_value_whose_key_names_a_secret_is_a_warning() -> None:
    part = file_of("API_KEY=abc", "units=metric", "token").config_store
    assert part is not None
    assert [warning.path for warning in part.warnings()] == ["config_store.values[0]"]


def test_a_secret_in_a_value_does_not_reach_the_guest() -> None:
    used, shaped = "a secret that the call has used", "AKIA" + "Q3EGWV5XN7DLB2YT"
    call = a_call(file_of(f"used={used}", f"shaped={shaped}", "units=metric"))
    call.watch("token", used)
    values = CallServices(call).handle(ConfigList())
    assert [key for key, _ in values] == ["shaped", "units", "used"]
    assert used not in str(values) and shaped not in str(values) and ("units", "metric") in values
    assert CallServices(call).handle(ConfigGet("used")) == dict(values)["used"]
