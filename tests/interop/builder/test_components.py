"""Components that a scripted model writes, compiled by the toolchains of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.builder.conftest import DOWNLOADS, Agent, Script, requirement
from wasmrt.authoring.builder import Language, TemplateEngine
from wasmrt.authoring.project import find_toolchain
from wasmrt.catalog import Catalog
from wasmrt.core.errors import MissingToolchainError
from wasmrt.core.places import find_places

pytestmark = [pytest.mark.ci("toolchain"), pytest.mark.timeout(900)]

WIT = """package local:tool;

interface words {
    /// Returns a text in capitals.
    shout: func(text: string) -> string;
}

world tool {
    import wasmrt:tool/log@0.1.0;
    export words;
}
"""
RUST = """mod crash;

wit_bindgen::generate!({ path: "wit", world: "tool", generate_all });

use exports::local::tool::words::Guest;

struct Tool;

impl Guest for Tool {
    fn shout(text: String) -> String {
        crash::tell();
        RESULT
    }
}

export!(Tool);
"""
SOURCES = {
    "rust": ("src/lib.rs", RUST.replace("RESULT", "text.to_uppercase()")),
    "python": (
        "app.py",
        "from wit_world import exports\n\n\nclass Words(exports.Words):\n"
        "    def shout(self, text: str) -> str:\n        return text.upper()\n",
    ),
    "javascript": ("tool.js", "export const words = { shout: (text) => text.toUpperCase() };\n"),
    "typescript": (
        "tool.ts",
        "type Shout = (text: string) => string;\n"
        "export const words: { shout: Shout } = { shout: (text: string): string => text.toUpperCase() };\n",
    ),
}
CASE = json.dumps({"name": "shouts", "input": {"text": "otter"}, "expected_output": "OTTER"})


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return ("write_file", {"path": path, "content": content})


def sources(language: str = "rust") -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that write the tool `shout`."""
    return [write("wit/tool.wit", WIT), write(*SOURCES[language]), write("tests/words.json", CASE)]


@pytest.fixture(autouse=True)
def _toolchain(request: pytest.FixtureRequest) -> None:
    language = request.node.callspec.params.get("language", "rust") if hasattr(request.node, "callspec") else "rust"
    try:
        find_toolchain(TemplateEngine().template(Language(language)), confirm=lambda _question: DOWNLOADS)
    except MissingToolchainError as missing:
        pytest.skip(f"{missing.message}: {missing.hint}")


@pytest.mark.parametrize("language", ["rust", "python", "javascript", "typescript"])
def test_a_tool_is_built_tested_and_installed_after_the_user_agrees(agent: Agent, language: str) -> None:
    result = agent.build(Script(requirement(language=language), sources(language), "complete"))
    assert result["success"], result
    assert (result["tests_passed"], result["tests_failed"], result["registered"]) == (1, 0, True)
    question = agent.asked[-1]
    installed = Catalog(find_places().data).get("words")
    assert question.tool == "tool_install"
    assert installed.digest in (question.preview or "")
    assert Path(result["artifact_path"]).name == "words.wasm"
    runtime = agent.registry.runtime
    assert runtime is not None
    assert runtime.prepare_installed("words").execute({"text": "sea"}).result == "SEA"


def test_a_tool_is_not_installed_if_the_user_refuses(agent: Agent) -> None:
    agent.answer = lambda request: request.tool != "tool_install"
    result = agent.build(Script(requirement(), sources(), "complete"))
    assert (result["success"], result["registered"]) == (True, False)
    assert not Catalog(find_places().data).has("words")
    assert any(phase.startswith("Registering: not installed") for phase in result["phases"])


def test_an_error_of_the_compiler_is_reported_and_fixed(agent: Agent) -> None:
    wrong = [*sources(), write("src/lib.rs", RUST.replace("RESULT", "text.len()"))]
    model = Script(requirement(), wrong, "complete", [write(*SOURCES["rust"])], "complete")
    result = agent.build(model, auto_register=False)
    assert result["success"], result
    assert "error[E0308]" in model.seen[3][-1]["content"]
    phases = [phase.partition(":")[0] for phase in result["phases"]]
    assert phases[-6:] == ["Fixing", "Implementing", "Building", "Validating", "Testing", "Complete"]
    assert agent.asked[-1].tool == "build_software"


def test_a_build_cannot_read_outside_of_its_project(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("a private line")
    script = (
        f'fn main() {{ println!("cargo:warning={{}}", std::fs::read_to_string("{tmp_path}/private.txt").unwrap()); }}'
    )
    model = Script(requirement(), [*sources(), write("build.rs", script)], "complete", "stop")
    result = agent.build(model, max_iterations=3)
    assert not result["success"]
    assert "PermissionDenied" in model.seen[-1][-1]["content"]
    assert "a private line" not in json.dumps(model.seen)


@pytest.mark.parametrize(
    ("listed", "refused"),
    [([], "requests http, but the requirement lists nothing"), (["http:other.example"], "http:api.example.com")],
)
def test_a_component_that_requests_more_than_the_description_is_refused(
    agent: Agent, listed: list[str], refused: str
) -> None:
    file = {"http": {"allowlist": [{"host": "api.example.com"}]}}
    asks = ("write_capabilities", {"file": file})
    bypass = ("shell", {"command": f"echo '{json.dumps(file)}' > words.capabilities.json"})
    model = Script(requirement(capabilities=listed), [*sources(), asks, bypass], "complete", "stop")
    result = agent.build(model, max_iterations=2)
    assert (result["success"], result["registered"]) == (False, False)
    assert refused in " ".join(result["phases"])
    assert refused in model.last_results()[3]
    model = Script(requirement(capabilities=["http:api.example.com"]), [*sources(), asks], "complete")
    result = agent.build(model, max_iterations=2)
    assert result["success"]
    assert any("http" in warning for warning in result["warnings"])  # the component does not use it
    assert "api.example.com" in (agent.asked[-1].preview or "")


def test_the_component_and_its_capability_file_are_copied_to_the_output_folder(agent: Agent, tmp_path: Path) -> None:
    output = tmp_path / "built"
    result = agent.build(
        Script(requirement(), sources(), "complete"), auto_register=False, wasm_output_dir=output
    )  # fmt: skip
    assert result["success"]
    assert sorted(path.name for path in output.iterdir()) == ["words.capabilities.json", "words.wasm"]
