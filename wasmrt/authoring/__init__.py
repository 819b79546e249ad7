"""Making tools: a project from a template, its build, its tests in the real sandbox, and what its component needs.

It runs compilers, and nothing here decides what a tool may do once it is installed.
"""

from wasmrt.authoring._build import Built, build, read_component, sidecar_of
from wasmrt.authoring._cases import RecordedExchange, TestCase, read_cases
from wasmrt.authoring._measure import Measured, limits_that_start, measure
from wasmrt.authoring._project import Project, create_project, open_project
from wasmrt.authoring._template import Need, Packages, Step, Template, load_template, template_names
from wasmrt.authoring._toolchain import Agree, Progress, Toolchain, find_toolchain, silent, toolchains_dir
from wasmrt.authoring._trial import TestResult, difference, run_cases
from wasmrt.authoring._verdict import Verdict, judge
from wasmrt.authoring._watch import Wait, changes, is_stale

__all__ = [
    "Agree",
    "Built",
    "Measured",
    "Need",
    "Packages",
    "Progress",
    "Project",
    "RecordedExchange",
    "Step",
    "Template",
    "TestCase",
    "TestResult",
    "Toolchain",
    "Verdict",
    "Wait",
    "build",
    "changes",
    "create_project",
    "difference",
    "find_toolchain",
    "is_stale",
    "judge",
    "limits_that_start",
    "load_template",
    "measure",
    "open_project",
    "read_cases",
    "read_component",
    "run_cases",
    "sidecar_of",
    "silent",
    "template_names",
    "toolchains_dir",
]
