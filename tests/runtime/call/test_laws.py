"""Properties of params texts, for arbitrary texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.call.conftest import ECHO, tool
from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MAX_JSON_DEPTH
from wasmrt.sandbox.guest.engine import wat2wasm

_words = st.text(st.sampled_from('[]{}"\\ab\n\u00e9\u2028')) | st.text(max_size=6)
_data = st.recursive(
    st.none() | st.integers() | _words, lambda inner: st.lists(inner) | st.dictionaries(_words, inner), max_leaves=12
)


@pytest.fixture(scope="module")
def echo() -> Any:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        yield runtime.prepare("echo", wat2wasm(tool(ECHO)))


@settings(deadline=None)
@given(
    inner=_data,
    around=st.lists(
        st.sampled_from(["[%s]", '{"a":%s}', '["]",%s,"["]', '{"\\\\\\"}":[],"b":%s}']), min_size=50, max_size=80
    ),
)
def test_params_are_accepted_up_to_the_depth_limit(echo: PreparedTool, inner: Any, around: list[str]) -> None:
    text = json.dumps(inner)
    for shape in around:
        text = shape % text
    params = '{"in":' + text + "}"
    if _depth(json.loads(params)) <= MAX_JSON_DEPTH:
        assert echo.execute(params).result == json.loads(params)
    else:
        with pytest.raises(InvalidParametersError, match="nested"):
            echo.execute(params)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
