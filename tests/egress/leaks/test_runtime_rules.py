"""An operator's leak rules and overrides, in a runtime's configuration and in its calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from wasmrt.testing.attacks import tool

from tests.egress.leaks.examples import example_of
from tests.runtime.call.conftest import says
from wasmrt import ConfigurationError, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import ToolError
from wasmrt.egress.leaks import Action, Direction, LeakDetector, Overrides, Rule, load_custom_rules
from wasmrt.sandbox.guest.engine import wat2wasm

ACME_KEY = "acme_" + "0a1b2c3d" * 3
RULES = """
[[rules]]
id = "acme-key"
source = "Acme handbook, page 4"
token = 'acme_[0-9a-f]{24}'
matching = ["ACME-KEY"]
not_matching = ["acme_123"]
""".replace("ACME-KEY", ACME_KEY)
GITLAB = example_of(next(rule for rule in LeakDetector().rules if rule.id == "gitlab-pat")).strip()


def answer(text: str, rules: Path | tuple[Rule, ...] = (), overrides: Overrides | None = None) -> object:
    """Return the output of a tool that returns `text`, in a runtime with these rules."""
    config = WasmRuntimeConfig(cache_compiled=False, leak_rules=rules, leak_overrides=overrides or {})
    with WasmToolRuntime(config) as runtime:
        return runtime.prepare("tool", wat2wasm(tool(says(f'"{text}"')))).execute({}).result


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    path = tmp_path / "acme.toml"
    path.write_text(RULES)
    return path


def test_a_custom_format_is_redacted_in_a_result(rule_file: Path) -> None:
    text = f"the key is {ACME_KEY}"
    assert answer(text) == text
    assert answer(text, rule_file) == "the key is [REDACTED:acme-key]"
    assert answer(text, load_custom_rules(RULES)) == "the key is [REDACTED:acme-key]"


def test_an_override_withholds_the_result_or_passes_it_on(rule_file: Path) -> None:
    assert answer(f"a {GITLAB}") == "a [REDACTED:gitlab-pat]"
    assert answer(f"a {GITLAB}", overrides={"gitlab-pat": Action.WARN}) == f"a {GITLAB}"
    outward = {"gitlab-pat": {Direction.OUTWARD: Action.WARN}}
    assert answer(f"a {GITLAB}", overrides=outward) == "a [REDACTED:gitlab-pat]"
    with pytest.raises(ToolError, match="gitlab-pat"):
        answer(f"a {GITLAB}", overrides={"gitlab-pat": Action.BLOCK})
    with pytest.raises(ToolError, match="acme-key"):
        answer(f"a {ACME_KEY}", rule_file, {"acme-key": Action.BLOCK})


@pytest.mark.parametrize(
    ("content", "says_why"),
    [
        (None, "cannot be read"),
        (b"\xff", "not UTF-8"),
        (b"#" * 300_000, "larger than the limit"),
        (RULES.replace("token = ", "tokn = ").encode(), "unknown key"),
        (RULES.replace("matching = ", "matching = []\n# ", 1).encode(), "no example"),
        (RULES.replace("acme-key", "jwt").encode(), "two rules"),
    ],
    ids=["missing", "not text", "too large", "misspelt", "unproven", "taken"],
)
def test_an_invalid_rule_file_is_refused_when_the_runtime_is_created(
    tmp_path: Path, content: bytes | None, says_why: str
) -> None:
    path = tmp_path / "own.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=says_why):
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, leak_rules=path))


def test_a_rule_that_does_not_compile_is_refused_when_the_runtime_is_created() -> None:
    rule = Rule(id="bad", source="this test", token="bad_(?=x)")
    with pytest.raises(ConfigurationError, match="linear-time"):
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, leak_rules=(rule,)))


def test_an_override_of_an_unknown_rule_is_refused_when_the_runtime_is_created() -> None:
    config = WasmRuntimeConfig(cache_compiled=False, leak_overrides={"gitlab-pta": Action.BLOCK})
    with pytest.raises(ConfigurationError) as caught:
        WasmToolRuntime(config)
    assert caught.value.hint == "did you mean gitlab-pat?"


@pytest.mark.parametrize("chosen", ["block", None, {"inward": Action.BLOCK}, {Direction.INWARD: "block"}])
def test_an_override_that_is_not_an_action_is_refused(chosen: object) -> None:
    config = WasmRuntimeConfig(cache_compiled=False, leak_overrides={"jwt": chosen})  # type: ignore[dict-item]
    with pytest.raises(ConfigurationError, match="must be an Action"):
        WasmToolRuntime(config)
