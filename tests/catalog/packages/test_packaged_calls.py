"""Calls of a package's tools use separate grants, as observed in the sent requests."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.catalog.packages.conftest import API, KEY, OTHER, TOKEN, VAULT, Desk
from wasmrt.capabilities import Capabilities, ToolGrant, ToolInvokeCapability
from wasmrt.catalog.find import find_bundled
from wasmrt.core.errors import InvalidComponentError, InvalidParametersError, ToolError
from wasmrt.egress.gateway._codings import ACCEPT_ENCODING
from wasmrt.sandbox.component import ToolSpec


def request(head: bytes) -> list[str]:
    """Return the lines of a request that the sender determines, without its port."""
    lines = head.decode().split("\r\n")
    return [line.rsplit(":", 1)[0] if line.startswith("Host") else line for line in lines if line]


def credentials_sent(desk: Desk) -> list[tuple[str | None, str | None]]:
    return [(seen.header("authorization"), seen.header("x-vault-key")) for seen in desk.server.requests]


def test_each_tool_sends_its_own_request_with_its_own_credential(desk: Desk) -> None:
    package = desk.prepare()
    package.tool("list_tickets").execute({"host": desk.at(API), "state": "open"})
    package.tool("purge_tickets").execute({"host": desk.at(VAULT)})
    package.tool("send_message").execute({"conversation": desk.at(API), "text": "all done"})

    common = [f"Accept-Encoding: {ACCEPT_ENCODING}", "User-Agent: wasmrt", "Accept: */*"]
    assert [request(seen.head) for seen in desk.server.requests] == [
        ["GET /tickets?state=open HTTP/1.1", f"Host: {API}", *common, f"Authorization: Bearer {TOKEN}"],
        ["DELETE /tickets/closed HTTP/1.1", f"Host: {VAULT}", *common, f"x-vault-key: {KEY}", "Content-Length: 0"],
        ["POST /messages HTTP/1.1", f"Host: {API}", *common, f"Authorization: Bearer {TOKEN}", "Content-Length: 10"],
    ]
    assert [seen.body for seen in desk.server.requests] == [b"", b"", b'"all done"']


@pytest.mark.parametrize(
    ("tool", "params", "reason"),
    [
        ("list_tickets", {"host": VAULT}, "host-not-allowed"),
        ("list_tickets", {"host": OTHER}, "host-not-allowed"),
        ("list_tickets", {"host": API, "method": "POST"}, "method-not-allowed"),
        ("list_tickets", {"host": API, "method": "DELETE", "path": "/tickets/closed"}, "method-not-allowed"),
        ("purge_tickets", {"host": API}, "host-not-allowed"),
        ("purge_tickets", {"host": API, "headers": {"Authorization": "Bearer mine"}}, "host-not-allowed"),
        ("send_message", {"conversation": VAULT, "text": "x"}, "host-not-allowed"),
    ],
)
def test_a_tool_cannot_use_another_tools_grant(desk: Desk, tool: str, params: dict[str, Any], reason: str) -> None:
    place = "conversation" if tool == "send_message" else "host"
    with pytest.raises(ToolError) as refused:
        desk.prepare().tool(tool).execute(params | {place: desk.at(params[place])})

    assert refused.value.code == f"tool:{reason}"  # the guest returns the denial
    assert [str(decision.reason) for decision in refused.value.decisions] == [reason]
    assert desk.server.requests == []


@pytest.mark.parametrize(
    "context",
    [
        {"capability_id": "desk.purge_tickets"},
        {"capability_id": None},
        '{"capability_id": "desk.list_tickets", "capability_id": "desk.purge_tickets"}',
        {"thread": 7},
        None,
    ],
)
def test_the_host_names_the_chosen_tool_regardless_of_the_context(desk: Desk, context: Any) -> None:
    desk.prepare().tool("list_tickets").execute({"host": desk.at(API)}, context)

    assert [seen.method for seen in desk.server.requests] == ["GET"]
    assert credentials_sent(desk) == [(f"Bearer {TOKEN}", None)]


def test_a_callers_context_reaches_the_tool_with_the_id(desk: Desk) -> None:
    echo = ToolSpec("whoami_context", capability_id="desk.whoami_context")
    tool = desk.runtime.prepare("desk", desk.package.component, tools=[echo])

    assert tool.execute({}, {"thread": 7, "capability_id": "x"}).result == {
        "thread": 7,
        "capability_id": "desk.whoami_context",
    }


def test_a_context_that_cannot_contain_the_id_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidParametersError, match="must be an object"):
        desk.prepare().tool("list_tickets").execute({"host": desk.at(API)}, ["desk.purge_tickets"])


def test_parameters_are_checked_against_the_packages_schema(desk: Desk) -> None:
    tool = desk.prepare().tool("list_tickets")

    assert tool.execute({"host": desk.at(API), "limit": "5"}).result["status"] == 200
    with pytest.raises(InvalidParametersError, match="unknown field action"):
        tool.execute({"action": "list_tickets"})
    with pytest.raises(InvalidParametersError, match="unknown field capability_id"):
        tool.execute({"capability_id": "desk.purge_tickets"})


def test_without_a_package_the_components_schema_is_only_descriptive(desk: Desk) -> None:
    tool = desk.runtime.prepare("bare", desk.package.component, desk.package.request.capabilities.with_tools([]))

    assert tool.schema["required"] == ["action"]
    assert tool.execute({}, {"capability_id": "desk.whoami_context"}).result == {"capability_id": "desk.whoami_context"}


def invoking(desk: Desk, alias: str, target: str) -> Capabilities:
    """Return the package's grant with one alias for its reading tool."""
    asked = desk.package.request.capabilities
    invoke = ToolInvokeCapability({alias: target})  # type: ignore[arg-type]
    sections = [
        ToolGrant(tool.name, tool.capabilities.with_tool_invoke(invoke), tool.effects)
        if tool.name == "list_tickets"
        else tool
        for tool in asked.tools or ()
    ]
    return asked.with_tool_invoke(invoke).with_tools(sections)


def test_a_called_tool_has_its_own_grant_and_id(desk: Desk) -> None:
    tool = desk.prepare(invoking(desk, "purge", "desk.purge_tickets")).tool("list_tickets")

    tool.execute({"invoke": "purge", "with": {"host": desk.at(VAULT)}})
    with pytest.raises(ToolError, match="host-not-allowed"):
        tool.execute({"invoke": "purge", "with": {"host": desk.at(API)}})

    assert [(seen.method, seen.sni) for seen in desk.server.requests] == [("DELETE", VAULT)]
    assert credentials_sent(desk) == [(None, KEY)]


def test_a_caller_cannot_change_the_id_of_a_called_tool(desk: Desk) -> None:
    tool = desk.prepare(invoking(desk, "purge", "desk.purge_tickets")).tool("list_tickets")

    with pytest.raises(ToolError, match="unknown field"):
        tool.execute({"invoke": "purge", "with": {"host": desk.at(VAULT), "capability_id": "desk.list_tickets"}})
    assert desk.server.requests == []


def test_only_the_tool_that_has_the_alias_can_use_it(desk: Desk) -> None:
    package = desk.prepare(invoking(desk, "purge", "desk.purge_tickets"))

    assert package.tool("purge_tickets").capabilities.tool_invoke is None
    assert package.tool("send_message").capabilities.tool_invoke is None


def test_concurrent_calls_use_separate_credentials(desk: Desk) -> None:
    package, failures = desk.prepare(), list[BaseException]()

    def work(tool: str, host: str) -> None:
        try:
            for _ in range(10):
                package.tool(tool).execute({"host": desk.at(host)})
                with pytest.raises(ToolError):
                    package.tool(tool).execute({"host": desk.at(VAULT if host == API else API)})
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=pair) for pair in [("list_tickets", API), ("purge_tickets", VAULT)] * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    seen = {(each.sni, each.header("authorization"), each.header("x-vault-key")) for each in desk.server.requests}
    assert seen == {(API, f"Bearer {TOKEN}", None), (VAULT, None, KEY)}


def test_one_component_is_compiled_for_all_of_its_tools(desk: Desk) -> None:
    package = desk.prepare()

    assert [tool.name for tool in package.tools] == ["list_tickets", "purge_tickets", "send_message"]
    assert {package.tool(tool.name).digest for tool in package.tools} == {package.digest}
    assert package.tool("send_message").name == "desk.send_message"


def test_a_tool_that_is_not_in_the_grant_has_no_permission(desk: Desk) -> None:
    asked = desk.package.request.capabilities
    only = asked.with_tools(tool for tool in asked.tools or () if tool.name == "list_tickets")
    package = desk.prepare(only)

    package.tool("list_tickets").execute({"host": desk.at(API)})
    with pytest.raises(ToolError, match="no http section"):
        package.tool("purge_tickets").execute({"host": desk.at(VAULT)})


def test_the_receipt_names_the_tool_of_the_package(desk: Desk) -> None:
    records: list[dict[str, Any]] = []
    desk.runtime.pipeline = desk.runtime.pipeline._replace(audit=lambda record: records.append(record.as_dict()))
    desk.prepare().tool("list_tickets").execute({"host": desk.at(API)})

    assert [record["tool"] for record in records] == ["desk.list_tickets"]


def test_the_definition_for_a_model_contains_the_document_if_it_fits(desk: Desk) -> None:
    package = desk.prepare()
    anthropic = package.tool("list_tickets").definition("anthropic")

    assert anthropic["name"] == "desk-list_tickets"
    assert anthropic["description"].endswith("Ask for `open` ones first; there are many closed ones.")
    assert "action" not in json.dumps(anthropic["input_schema"])
    assert package.tool("send_message").definition("openai")["function"]["parameters"]["required"] == [
        "conversation",
        "text",
    ]


def test_a_package_cannot_list_a_tool_that_the_component_lacks(desk: Desk) -> None:
    with pytest.raises(InvalidComponentError, match="'shout' that the component does not have"):
        desk.runtime.prepare("echo", find_bundled("echo").component, tools=[ToolSpec("shout")])


def test_properties_that_a_package_omits_are_read_from_the_component(desk: Desk) -> None:
    component = find_bundled("echo").component
    plain = desk.runtime.prepare("echo", component)
    packaged = desk.runtime.prepare("echo", component, tools=[ToolSpec("echo", prompt="# How")])

    assert packaged.prompt == "# How"
    assert (packaged.schema, packaged.description) == (plain.schema, plain.description)
    with pytest.raises(InvalidParametersError):
        packaged.execute({"mesage": "x"})


def test_a_descriptive_schema_is_not_enforced_if_the_package_has_none(desk: Desk) -> None:
    own = desk.runtime.prepare("bare", desk.package.component)
    packaged = desk.runtime.prepare("bare", desk.package.component, tools=[ToolSpec(own.tools[0].name)])

    assert own.schema["required"] == ["action"]
    assert packaged.schema == {"type": "object"}
