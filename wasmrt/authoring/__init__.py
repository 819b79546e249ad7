"""Making tools: a project from a template, its build, its tests in the real sandbox, and what its component needs.

It runs compilers, and nothing here decides what a tool may do once it is installed.
Each name loads its own part when it is first used: `wasmrt new` starts no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.authoring._build import Built, build, read_component, sidecar_of
    from wasmrt.authoring._cases import RecordedExchange, TestCase, read_cases
    from wasmrt.authoring._docs import with_docs
    from wasmrt.authoring._measure import Measured, limits_that_start, measure
    from wasmrt.authoring._project import Project, create_project, open_project
    from wasmrt.authoring._template import Need, Packages, Step, Template, load_template, template_names
    from wasmrt.authoring._toolchain import Agree, Progress, Toolchain, find_toolchain, silent, toolchains_dir
    from wasmrt.authoring._trial import TestResult, difference, run_cases
    from wasmrt.authoring._verdict import Verdict, judge
    from wasmrt.authoring._watch import Wait, changes, is_stale

_LATER = {
    "_build": ("Built", "build", "read_component", "sidecar_of"),
    "_cases": ("RecordedExchange", "TestCase", "read_cases"),
    "_docs": ("with_docs",),
    "_measure": ("Measured", "limits_that_start", "measure"),
    "_project": ("Project", "create_project", "open_project"),
    "_template": ("Need", "Packages", "Step", "Template", "load_template", "template_names"),
    "_toolchain": ("Agree", "Progress", "Toolchain", "find_toolchain", "silent", "toolchains_dir"),
    "_trial": ("TestResult", "difference", "run_cases"),
    "_verdict": ("Verdict", "judge"),
    "_watch": ("Wait", "changes", "is_stale"),
}
__getattr__ = lazy(__name__, _LATER, globals())

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
    "with_docs",
]
