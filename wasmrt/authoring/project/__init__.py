"""Create tools: projects from templates, builds, tests in the sandbox, and reports on components."""

from wasmrt.authoring.project._build import Built, build, read_component, read_sidecar, with_docs
from wasmrt.authoring.project._cases import read_cases
from wasmrt.authoring.project._confined import missing_layers, open_sandbox
from wasmrt.authoring.project._measure import find_starting_limits, measure
from wasmrt.authoring.project._preview1 import adapt_program, find_adapter
from wasmrt.authoring.project._process import CommandResult, run_command
from wasmrt.authoring.project._project import Project, create_project, open_project
from wasmrt.authoring.project._report import check_build
from wasmrt.authoring.project._storage import BuildFolder, build_folders, remove_build_folders, use_build_folders
from wasmrt.authoring.project._template import Need, Packages, Step, Template, WorldForm, load_template, template_names
from wasmrt.authoring.project._test_run import TestResult, find_difference, run_cases
from wasmrt.authoring.project._toolchain import (
    Confirm,
    Progress,
    Toolchain,
    find_toolchain,
    missing_needs,
    toolchains_dir,
)
from wasmrt.authoring.project._unchanged import Wait, is_stale, watch_changes
from wasmrt.authoring.project._wasm_tools import find_wasm_tools

__all__ = [
    "BuildFolder",
    "Built",
    "CommandResult",
    "Confirm",
    "Need",
    "Packages",
    "Progress",
    "Project",
    "Step",
    "Template",
    "TestResult",
    "Toolchain",
    "Wait",
    "WorldForm",
    "adapt_program",
    "build",
    "build_folders",
    "check_build",
    "create_project",
    "find_adapter",
    "find_difference",
    "find_starting_limits",
    "find_toolchain",
    "find_wasm_tools",
    "is_stale",
    "load_template",
    "measure",
    "missing_layers",
    "missing_needs",
    "open_project",
    "open_sandbox",
    "read_cases",
    "read_component",
    "read_sidecar",
    "remove_build_folders",
    "run_cases",
    "run_command",
    "template_names",
    "toolchains_dir",
    "use_build_folders",
    "watch_changes",
    "with_docs",
]
