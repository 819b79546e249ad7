"""The results of the shipped tools echo, time and json."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import wasmrt
from wasmrt.core.errors import InvalidParametersError, ToolError
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime

SHIPPED = Path(wasmrt.__file__).parent / "catalog/shipped"
TIMESTAMPS = Path(__file__).parent / "timestamps.txt"

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def tools() -> Iterator[dict[str, Any]]:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        yield {name: runtime.prepare(name, SHIPPED / f"{name}.wasm") for name in ("echo", "json", "time")}


@pytest.fixture
def run(tools: dict[str, Any]) -> Run:
    return lambda tool, **params: tools[tool].execute(params).result


def test_schemas_have_no_type_unions_and_data_has_no_type(tools: dict[str, Any]) -> None:
    for tool in tools.values():
        for schema in tool.schema["properties"].values():
            assert not isinstance(schema.get("type"), list)
    assert "type" not in tools["json"].schema["properties"]["data"]
    assert tools["json"].schema["required"] == ["operation", "data"]
    assert tools["time"].schema["properties"]["operation"]["enum"] == ["now", "parse", "format", "diff", "convert"]


def test_echo_answers_with_the_message(run: Run) -> None:
    assert run("echo", message='h\u00e9llo \U0001f980 \\ "') == 'h\u00e9llo \U0001f980 \\ "'


def test_now_returns_the_hosts_time_in_three_formats(run: Run) -> None:
    now = run("time", operation="now")
    assert now["unix"] == now["unix_millis"] // 1000
    assert run("time", operation="parse", timestamp=now["iso"]) == now


@pytest.mark.parametrize(
    ("timestamp", "iso", "unix_millis"),
    [
        ("2024-06-19T15:22:45Z", "2024-06-19T15:22:45Z", 1718810565000),
        ("2024-06-19T15:22:45.25+02:00", "2024-06-19T13:22:45.25Z", 1718803365250),
        ("2024-06-19T15:22:45", "2024-06-19T15:22:45Z", 1718810565000),
        ("2024-06-19", "2024-06-19T00:00:00Z", 1718755200000),
        ("1718810565", "2024-06-19T15:22:45Z", 1718810565000),
        (" 1.5 ", "1970-01-01T00:00:01.5Z", 1500),
        ("-1.5", "1969-12-31T23:59:58.5Z", -1500),
        ("0", "1970-01-01T00:00:00Z", 0),
    ],
)
def test_timestamps_are_iso_or_unix_seconds(run: Run, timestamp: str, iso: str, unix_millis: int) -> None:
    expected = {"iso": iso, "unix": unix_millis // 1000, "unix_millis": unix_millis}
    assert run("time", operation="parse", timestamp=timestamp) == expected


@pytest.mark.parametrize("timestamp", ["", "soon", "2024-02-30", "99999999999999999999", "1e3", "-", "."])
def test_an_invalid_timestamp_is_quoted(run: Run, timestamp: str) -> None:
    with pytest.raises(ToolError, match="timestamp must be an ISO 8601 timestamp"):
        run("time", operation="parse", timestamp=timestamp)


def test_format_writes_utc(run: Run) -> None:
    written = run("time", operation="format", timestamp="2024-06-19T15:22:45+02:00", format="%A %d %B %Y %H:%M %Z")
    assert written == {"formatted": "Wednesday 19 June 2024 13:22 UTC"}
    with pytest.raises(ToolError, match="format"):
        run("time", operation="format", timestamp="0", format="%!")


def test_diff_is_from_the_first_to_the_second(run: Run) -> None:
    assert run("time", operation="diff", timestamp="2024-01-01", timestamp2="2024-01-02") == {"seconds": 86400}
    assert run("time", operation="diff", timestamp="1.5", timestamp2="0") == {"seconds": -1.5}


@pytest.mark.ci("slow")
def test_timestamps_are_read_as_in_the_table_and_differences_to_dateutil_have_a_reason(run: Run) -> None:
    rows = [line.split(" | ") for line in TIMESTAMPS.read_text().splitlines() if not line.startswith("# ")]
    for given, expected, dateutil, *reason in rows:
        timestamp, _, zone = given.partition(" @ ")
        try:
            answer = run("time", operation="parse", timestamp=timestamp, timezone=zone)
            read = " and ".join(each["iso"] for each in answer.get("ambiguous", [answer]))
        except ToolError:
            read = "refused"
        assert read == expected, given
        assert (expected == dateutil) is not bool(reason), given


def test_zones_apply_to_times_without_offset_and_to_answers(run: Run) -> None:
    berlin = {"local": "2024-06-19T15:22:45+02:00", "timezone": "Europe/Berlin"}
    utc = {"iso": "2024-06-19T13:22:45Z", "unix": 1718803365, "unix_millis": 1718803365000}
    assert run("time", operation="parse", timestamp="2024-06-19T15:22:45", timezone="Europe/Berlin") == utc | berlin
    assert run("time", operation="parse", timestamp="2024-06-19T15:22:45[Europe/Berlin]") == utc | berlin
    converted = run("time", operation="convert", timestamp="2024-06-19T15:22:45",
                    from_timezone="Europe/Berlin", to_timezone="Asia/Tokyo")  # fmt: skip
    assert converted == utc | {"local": "2024-06-19T22:22:45+09:00", "timezone": "Asia/Tokyo"}
    written = run("time", operation="format", timestamp="1718803365", timezone="America/New_York", format="%H:%M %Z")
    assert written == {"formatted": "09:22 EDT"}
    now = run("time", operation="now", timezone="Asia/Kathmandu")
    assert (
        now["local"].endswith("+05:45") and run("time", operation="parse", timestamp=now["local"])["iso"] == now["iso"]
    )


def test_a_local_time_that_occurs_twice_has_both_answers_in_every_operation(run: Run) -> None:
    twice = {"timestamp": "2024-10-27T02:30:00", "timezone": "Europe/Berlin"}
    both = run("time", operation="parse", **twice)["ambiguous"]
    assert [each["local"] for each in both] == ["2024-10-27T02:30:00+02:00", "2024-10-27T02:30:00+01:00"]
    converted = run("time", operation="convert", to_timezone="UTC", **twice)["ambiguous"]
    assert [each["iso"] for each in converted] == ["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z"]
    written = run("time", operation="format", format="%H:%M %Z", **twice)
    assert written == {"ambiguous": [{"formatted": "02:30 CEST"}, {"formatted": "02:30 CET"}]}
    assert run("time", operation="format", format="%H:%M", **twice) == {"formatted": "02:30"}
    apart = run("time", operation="diff", timestamp2="2024-10-27T04:30:00", **twice)
    assert apart == {"ambiguous": [{"seconds": 10800}, {"seconds": 7200}]}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"timestamp": "2024-03-31T02:30:00[Europe/Berlin]"}, "02:00:00 (+01) to 2024-03-31T03:00:00 (+02)"),
        ({"timestamp": "2022-07-08T00:14:07+01:00[Europe/Paris]"}, "has the offset +01, but Europe/Paris has +02"),
        ({"timestamp": "2024-06-19", "timezone": "Europe/Nowhere"}, "expected an IANA name such as Europe/Berlin"),
        ({"timestamp": "2024-06-19", "timezone": "+25:00"}, "unknown time zone"),
        ({"timestamp": "2024-06-19", "timezone": "UTC+2"}, "an offset such as +02:00"),
        ({"timestamp": "2024-06-19", "timezone": "CET-1CEST,M3.5.0,M10.5.0/3"}, "unknown time zone"),
        ({"timestamp": "202406"}, "write Unix seconds of this length as 202406.0"),
        ({"timestamp": "2024-06-19", "operation": "convert"}, "to_timezone is required"),
        ({"timestamp": "1" * 201}, "at most 200 characters"),
        ({"timestamp": "0", "operation": "format", "format": "%Y" * 501}, "at most 1000 characters"),
    ],
)
def test_a_time_that_cannot_be_read_is_an_error_with_the_reason(run: Run, params: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError, match=re.escape(message)):
        run("time", **({"operation": "parse"} | params))


def test_a_missing_param_of_an_operation_is_reported(run: Run) -> None:
    with pytest.raises(ToolError, match="timestamp2 is required"):
        run("time", operation="diff", timestamp="0")
    with pytest.raises(ToolError, match="path is required"):
        run("json", operation="query", data={})
    with pytest.raises(InvalidParametersError, match="operation"):
        run("time", operation="guess")


def test_parse_reads_text_and_keeps_digits_and_order(run: Run) -> None:
    text = '{"b": 12345678901234567890123, "a": [1, null]}'
    parsed = run("json", operation="parse", data=text)
    assert parsed == {"b": 12345678901234567890123, "a": [1, None]}
    assert list(parsed) == ["b", "a"]
    with pytest.raises(ToolError, match="data is not JSON"):
        run("json", operation="parse", data="{")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [{"items": [{"n": "a", "v": 1}, {"n": "bb", "v": 2.5}], "x": None}]),
        ("$.items[0].n", ["a"]),
        ("$.items[-1]['v']", [2.5]),
        ("$.items[*].n", ["a", "bb"]),
        ("$..v", [1, 2.5]),
        ("$.items[?@.v > 1].n", ["bb"]),
        ("$.items[?length(@.n) == 2].v", [2.5]),
        ("$.items[0:1].n", ["a"]),
        ("$.x", [None]),
        ("$.none", []),
        ("$.items[?match(@.n, 'b+')].v", [2.5]),
        ("$.items[?match(@.n, 'b')].v", []),
        ("$.items[?search(@.n, 'b')].v", [2.5]),
        ("$.items[?match(@.v, 'b')]", []),
        ("$.items[?count(@.*) == 2].n", ["a", "bb"]),
    ],
)
def test_query_follows_rfc_9535(run: Run, path: str, found: list[Any]) -> None:
    data = {"items": [{"n": "a", "v": 1}, {"n": "bb", "v": 2.5}], "x": None}
    assert run("json", operation="query", data=data, path=path) == found


def test_an_invalid_path_is_quoted(run: Run) -> None:
    with pytest.raises(ToolError, match="path"):
        run("json", operation="query", data={}, path="items[0")
    with pytest.raises(ToolError, match="Unicode classes"):
        run("json", operation="query", data=["x"], path=r"$[?match(@, '\\p{L}')]")


def test_stringify_and_validate(run: Run) -> None:
    assert run("json", operation="stringify", data={"b": [1, "x"], "a": None}) == '{"b":[1,"x"],"a":null}'
    assert run("json", operation="validate", data="[1, 2]") == {"valid": True}
    assert run("json", operation="validate", data=[1]) == {"valid": True}
    assert run("json", operation="validate", data="[1,")["valid"] is False


def test_deep_and_large_json_is_parsed_or_an_error(run: Run) -> None:
    with pytest.raises(ToolError, match="recursion"):
        run("json", operation="parse", data="[" * 1000 + "]" * 1000)
    many = list(range(20_000))
    assert run("json", operation="query", data=many, path="$[?@ >= 19999]") == [19999]
