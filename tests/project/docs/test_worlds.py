"""Each row of the table of worlds in docs/writing-tools.md has a test."""

from __future__ import annotations

import re
from pathlib import Path

from tests.project.test_threats import _tests_in

_TESTS = Path(__file__).parents[2]
_PAGE = _TESTS.parent / "docs/writing-tools.md"
_ELSEWHERE = "sandbox/guests/test_components_from_elsewhere.py::"
TESTS = {
    "`near:agent`, `wasmrt:tool`": (
        "sandbox/guests/test_guests_run.py::test_a_guest_uses_every_import",
        "sandbox/guests/test_guests_run.py::test_one_component_offers_several_tools_with_typed_failures",
    ),
    "plain functions": (
        _ELSEWHERE + "test_a_component_of_another_project_is_inspected",
        _ELSEWHERE + "test_tools_of_other_projects_are_installed_and_run_without_a_grant",
    ),
    "`wasi:cli/command`": (
        "sandbox/programs/test_programs.py::test_a_program_is_a_tool_with_arguments_and_input",
        "sandbox/programs/test_preview1.py::test_a_core_module_can_be_installed_and_run",
    ),
    "`wasi:http/incoming-handler@0.2`": (
        "sandbox/guests/test_http_handlers.py::test_a_handler_gets_the_request_and_returns_the_response",
        "catalog/installer/test_component_validation.py::test_a_handler_of_a_later_version_is_refused_by_its_export",
    ),
    "imports `wasi:config/store@0.2`": (
        "sandbox/border/test_config_store.py::test_a_guest_reads_the_values_of_its_grant",
        "sandbox/guests/test_http_handlers.py::test_a_handler_reads_the_configuration_of_its_grant",
    ),
    "none: a core module": (
        "catalog/installer/test_component_validation.py::test_bytes_that_are_not_a_component_are_refused_with_a_hint",
    ),
}


def test_every_row_of_the_table_of_worlds_has_tests_that_exist() -> None:
    table = re.search(r"(?m)^\| made with \|.*\n\|[-|]+\n((?:\|.*\n)+)", _PAGE.read_text())
    assert table is not None
    worlds = [row.split("|")[2].strip() for row in table[1].splitlines()]
    assert sorted(set(worlds)) == sorted(TESTS)
    named = {test for tests in TESTS.values() for test in tests}
    files = {_TESTS / test.partition("::")[0] for test in named}
    assert named - {test for file in files for test in _tests_in(file)} == set()
