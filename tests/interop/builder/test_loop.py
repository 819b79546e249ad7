"""The loop of `build_software` with a scripted model. Programs in Python and Bash need no toolchain."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.interop.builder.conftest import Agent, MakeAgent, Script, requirement
from wasmrt import Permission, ToolContext, ToolPolicy, ToolRegistry, ToolRule
from wasmrt.authoring.builder import BuilderConfig, Language
from wasmrt.authoring.builder._steps import run_in_project
from wasmrt.authoring.project import CommandResult, remove_build_folders
from wasmrt.core.errors import ConfigurationError, ToolErrorKind
from wasmrt.core.lifetime import Lifetime
from wasmrt.interop.builder import builder_tool, software_builder

SCRIPT = requirement(name="greeter", software_type="script", language="bash")
GREET = [("write_file", {"path": "main.sh", "content": "echo hi\n"})]
GREET_TEST = [("write_file", {"path": "test.sh", "content": '[ "$(bash main.sh)" = hi ]\n'})]


def test_a_program_is_written_tested_and_reported(agent: Agent) -> None:
    model = Script(SCRIPT, GREET, GREET_TEST, "complete")
    result = agent.build(model)
    assert result["success"], result
    assert (result["name"], result["iterations"], result["error"]) == ("greeter", 3, None)
    assert (result["tests_passed"], result["tests_failed"], result["registered"]) == (1, 0, False)
    assert (Path(result["artifact_path"]) / "main.sh").read_text() == "echo hi\n"
    phases = [phase.partition(":")[0] for phase in result["phases"]]
    assert phases == [
        "Analyzing", "Scaffolding", "Implementing", "Implementing", "Building", "Validating", "Testing", "Complete",
    ]  # fmt: skip
    assert model.tools[0] == []
    assert {"shell", "read_file", "write_file", "list_dir", "apply_patch", "http"} <= set(model.tools[1])


def test_each_step_writes_a_receipt_that_names_the_build(agent: Agent) -> None:
    agent.build(Script(SCRIPT, GREET, GREET_TEST, "complete"))
    outer = next(each for each in agent.receipts if each["tool"] == "build_software")
    inner = [each for each in agent.receipts if each["parent_id"] == outer["call_id"]]
    names = [each["tool"] for each in inner]
    assert names == ["write_file", "write_file", "build_project", "validate_project", "test_project"]
    assert all(each["approval"]["how"] == "build" for each in inner)


@pytest.mark.ci("slow")
def test_every_build_requires_approval_and_its_steps_do_not(agent: Agent) -> None:
    agent.build(Script(SCRIPT, GREET, GREET_TEST, "complete"))
    assert [request.tool for request in agent.asked] == ["build_software"]
    agent.answer = lambda _: False
    model = Script(SCRIPT)
    answer = agent.answer_to(model)
    assert not answer.ok
    assert model.seen == []


def test_the_type_and_language_of_the_call_replace_those_of_the_analysis(agent: Agent) -> None:
    model = Script(requirement(software_type="library", language="rust"), "a plan", "another plan")
    result = agent.build(model, type="script", language="bash")
    assert "Analyzing: script words in bash" in result["phases"]


def test_a_model_that_only_plans_is_told_once_to_write_and_then_stopped(agent: Agent) -> None:
    model = Script(SCRIPT, "First I would...", "Then I would...")
    result = agent.build(model)
    assert (result["success"], result["error"]) == (False, "LLM not executing tools - stuck in planning mode")
    assert result["iterations"] == 2
    assert "write_file" in model.seen[-1][-1]["content"]


def test_the_model_is_asked_for_a_component_in_rust_and_gets_its_files_and_rules(agent: Agent) -> None:
    model = Script(requirement(), "a plan", "another plan")
    agent.build(model)
    analysis, prompt = (str(messages) for messages in (model.seen[0], model.seen[1]))
    assert 'choose "wasm_tool" and "rust"' in analysis
    for part in ("File wit/tool.wit:", "File Cargo.toml:", "wit_bindgen::generate!", "Never panic", "never secrets"):
        assert part in prompt
    assert "words.capabilities.json lists all access" in prompt and "wasmrt build" in prompt


@pytest.mark.ci("slow")
def test_a_text_after_a_tool_call_continues_the_build(agent: Agent) -> None:
    model = Script(SCRIPT, GREET, "Next, the test.", GREET_TEST, "I have finished.")
    assert agent.build(model)["success"]
    assert model.seen[3][-1]["content"].startswith("Continue with the next step.")


@pytest.mark.ci("slow")
def test_a_failed_test_is_reported_to_the_model_and_fixed(agent: Agent) -> None:
    wrong = [("write_file", {"path": "main.sh", "content": "echo wrong\n"})]
    model = Script(SCRIPT, wrong, GREET_TEST, "complete", GREET, "complete")
    result = agent.build(model)
    assert result["success"]
    assert any(phase.startswith("Fixing: test_project") for phase in result["phases"])
    assert "bash test.sh failed with exit code 1" in model.seen[4][-1]["content"]


@pytest.mark.ci("slow")
def test_a_claim_of_success_is_not_believed(agent: Agent) -> None:
    broken = [("write_file", {"path": "main.sh", "content": "exit 3\n"})]
    model = Script(SCRIPT, broken, "complete: all tests passed")
    result = agent.build(model, max_iterations=4)
    assert (result["success"], result["error"]) == (False, "Maximum iterations exceeded")
    assert (result["iterations"], result["tests_failed"], result["artifact_path"]) == (4, 1, None)


def test_a_model_that_does_not_reply_before_the_deadline_ends_the_build(agent: Agent) -> None:
    release = threading.Event()

    def wait(_: Any) -> str:
        release.wait(30)
        return "late"

    result = agent.build(Script(SCRIPT, wait), timeout_seconds=1)
    release.set()
    assert (result["success"], result["error"]) == (False, "Build timed out")


@pytest.mark.ci("slow")
def test_a_command_that_does_not_end_before_the_deadline_ends_the_build(agent: Agent) -> None:
    endless = [("write_file", {"path": "test.sh", "content": "sleep 60\n"})]
    result = agent.build(Script(SCRIPT, endless, "complete"), timeout_seconds=4)
    assert result["error"] == "Build timed out"


def test_a_failing_model_fails_the_call(agent: Agent) -> None:
    def fail(_: Any) -> str:
        raise ConnectionError("no route")

    answer = agent.answer_to(Script(fail))
    assert answer.error is not None
    assert answer.error.kind is ToolErrorKind.EXECUTION_FAILED
    assert answer.error.message == "LLM response failed: ConnectionError: no route"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no JSON", "expected a JSON object, got none"),
        ("{not json}", "it is "),
        (requirement(name="../up"), "separator"),
        (requirement(software_type="virus"), "expected 'software_type' as one of wasm_tool"),
        (requirement(language="bash"), "cannot be written in bash"),
        (requirement(capabilities=["root"]), "unknown capability 'root'"),
        (requirement(colour="red"), "unknown key 'colour'; expected name"),
    ],
)
def test_an_invalid_analysis_fails_the_call(agent: Agent, text: str, problem: str) -> None:
    answer = agent.answer_to(Script(text))
    assert answer.error is not None
    assert answer.error.message.startswith("Failed to parse requirement: ")
    assert problem in answer.error.message


@pytest.mark.ci("slow")
def test_commands_and_files_are_confined_to_the_project(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("a private line")
    inside = [("shell", {"command": "echo inside > note.txt; cat note.txt"}), ("read_file", {"path": "note.txt"})]
    outside = [
        ("shell", {"command": f"cat {tmp_path}/private.txt"}),
        ("read_file", {"path": "../../../private.txt"}),
        ("shell", {"command": f"ln -s {tmp_path}/private.txt link.txt"}),
        ("read_file", {"path": "link.txt"}),
    ]
    model = Script(SCRIPT, inside, outside, "stop")
    agent.build(model, max_iterations=3)
    results = model.last_results()
    assert ["inside" in each for each in results] == [True, True, False, False, False, False]
    assert not any("a private line" in each for each in results)


@pytest.mark.ci("slow")
def test_a_link_out_of_the_project_is_refused_before_its_files_are_read(agent: Agent, tmp_path: Path) -> None:
    link = [("shell", {"command": f"ln -s {tmp_path} test-data"})]
    model = Script(SCRIPT, GREET, GREET_TEST, link, "complete")
    result = agent.build(model, max_iterations=4)
    assert not result["success"]
    assert "symbolic links that point outside its folder: test-data" in "".join(result["phases"])
    inside = [("shell", {"command": "ln -s main.sh alias.sh"})]
    assert agent.build(Script(SCRIPT, GREET, GREET_TEST, inside, "complete"))["success"]


@pytest.mark.ci("slow")
def test_a_command_has_no_network(agent: Agent) -> None:
    connect = [("shell", {"command": "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'"})]
    model = Script(SCRIPT, connect, "stop")
    agent.build(model, max_iterations=2)
    assert "PermissionError" in model.last_results()[0]


def test_no_folder_of_a_build_is_removed_while_a_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    monkeypatch.setenv("WASMRT_TOOLCHAINS", str(tmp_path / "toolchains"))
    removed: list[Any] = []

    def run(*_words: Any, **_options: Any) -> CommandResult:
        removed.append(remove_build_folders(0))
        return CommandResult(0, "")

    monkeypatch.setattr("wasmrt.authoring.builder._steps.run_command", run)
    run_in_project(tmp_path, Language.BASH, ("bash", "test.sh"), Lifetime(60))
    assert removed == [None]


def test_a_request_to_a_host_asks_the_user(agent: Agent) -> None:
    model = Script(SCRIPT, [("http", {"method": "GET", "url": "https://example.com/"})], "stop")
    agent.answer = lambda request: request.tool == "build_software"
    agent.build(model, max_iterations=2)
    assert [request.tool for request in agent.asked] == ["build_software", "http"]


@pytest.mark.parametrize(
    ("name", "params"), [("tool_install", {"name": "greeter"}), ("build_project", {}), ("build_software", {})]
)
def test_the_model_of_a_build_has_only_the_offered_tools(agent: Agent, name: str, params: dict[str, Any]) -> None:
    model = Script(SCRIPT, [(name, params)], "stop")
    agent.build(model, max_iterations=2)
    assert [request.tool for request in agent.asked] == ["build_software"]
    inner = [each for each in agent.receipts if each["parent_id"]]
    assert [each["tool"] for each in inner] == [name]
    assert inner[0]["outcome"] in ("unknown-tool", "not-in-view")


def test_a_rule_of_the_operator_applies_in_a_build(make_agent: MakeAgent) -> None:
    model = Script(SCRIPT, [("shell", {"command": "echo one"})], "stop")
    agent = make_agent(ToolPolicy(rules=(ToolRule(tool="shell", permission=Permission.ASK),)))
    agent.build(model, max_iterations=2)
    assert [request.tool for request in agent.asked] == ["build_software", "shell"]


@pytest.mark.ci("slow")
def test_a_failed_project_is_deleted_on_request(agent: Agent) -> None:
    kept = agent.build(Script(SCRIPT, "plan"))
    assert (agent.folder / "builds" / kept["build_id"]).is_dir()
    gone = agent.build(Script(SCRIPT, "plan"), cleanup_on_failure=True)
    assert not (agent.folder / "builds" / gone["build_id"]).exists()


PROGRAMS = {
    "cli_binary": ("rust", {
        "src/main.rs": 'fn count(text: &str) -> usize {\n    text.split_whitespace().count()\n}\n\nfn main() {\n'
        '    println!("{}", count(&std::env::args().skip(1).collect::<Vec<_>>().join(" ")));\n}\n\n'
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn counts() {\n"
        '        assert_eq!(super::count("a b"), 2);\n'
        "    }\n}\n",
    }),
    "library": ("python", {
        "main.py": "def count(text):\n    return len(text.split())\n",
        "test_main.py": "import unittest\n\nfrom main import count\n\n\nclass CountTest(unittest.TestCase):\n"
        '    def test_count(self):\n        self.assertEqual(count("a b"), 2)\n',
    }),
    "web_service": ("python", {
        "main.py": "def app(environ, start_response):\n"
        '    start_response("200 OK", [("content-type", "text/plain")])\n'
        '    return [str(len(environ["QUERY_STRING"].split("+"))).encode()]\n',
        "test_main.py": "import unittest\n\nfrom main import app\n\n\nclass AppTest(unittest.TestCase):\n"
        "    def test_count(self):\n        sent = []\n"
        '        body = app({"QUERY_STRING": "a+b"}, lambda *given: sent.append(given[0]))\n'
        '        self.assertEqual((sent, body), (["200 OK"], [b"2"]))\n',
    }),
}  # fmt: skip


@pytest.mark.ci("toolchain")
@pytest.mark.parametrize("kind", PROGRAMS)
def test_each_other_type_of_software_is_built_and_tested(agent: Agent, kind: str) -> None:
    language, files = PROGRAMS[kind]
    if language == "rust" and shutil.which("cargo") is None:
        pytest.skip("the command cargo is missing")
    written = [("write_file", {"path": path, "content": text}) for path, text in files.items()]
    broken = [(name, params | {"content": params["content"].replace("2", "3")}) for name, params in written]
    model = Script(requirement(software_type=kind, language=language), broken, "complete", written, "complete")
    result = agent.build(model)
    assert result["success"], result
    assert (result["tests_passed"], result["tests_failed"], result["registered"]) == (1, 0, False)
    assert any(phase.startswith("Fixing: test_project failed") for phase in result["phases"])
    project = Path(result["artifact_path"])
    if kind == "cli_binary":
        printed = subprocess.run([project / "build" / "words", "one two", "three"], capture_output=True, check=True)
        assert printed.stdout == b"3\n"


@pytest.mark.ci("slow")
def test_a_repair_adds_the_error_to_the_description_and_keeps_type_and_language(agent: Agent) -> None:
    runtime = agent.registry.runtime
    assert runtime is not None
    model = Script(SCRIPT, "plan", "plan", SCRIPT, GREET, GREET_TEST, "complete")
    builder = software_builder(
        agent.registry, model=model, config=BuilderConfig(build_dir=agent.folder / "builds"),
        context=ToolContext(call_id="call-1"),
    )  # fmt: skip
    failed = builder.build("Greet.")
    repaired = builder.repair(failed, failed.error or "")
    assert (failed.success, repaired.success) == (False, True)
    assert "Previous build failed with error: LLM not executing tools" in model.seen[3][-1]["content"]
    assert (repaired.requirement.software_type, repaired.requirement.language) == ("script", "bash")


def test_a_registry_without_a_runtime_cannot_build() -> None:
    with pytest.raises(ConfigurationError, match="requires a runtime"):
        builder_tool(ToolRegistry(), model=Script("x"))


@pytest.mark.parametrize("settings", [{"max_iterations": 0}, {"timeout_seconds": -1}, {"max_iterations": True}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="expected a number above 0, at most"):
        BuilderConfig(**settings)
