"""Build software with a model: requirements, scaffolds, the loop, and the checks of the result.

The program passes the model. `wasmrt.interop.builder` connects the loop to a registry.
"""

from wasmrt.authoring.builder._builder import LlmSoftwareBuilder
from wasmrt.authoring.builder._model import ChatModel, Outcome, Workbench
from wasmrt.authoring.builder._requirement import parse_requirement
from wasmrt.authoring.builder._steps import ProjectSteps, SuiteResult, TestHarness
from wasmrt.authoring.builder._templates import TemplateEngine
from wasmrt.authoring.builder._values import (
    BuilderConfig,
    BuildLog,
    BuildPhase,
    BuildRequirement,
    BuildResult,
    Language,
    SoftwareType,
)

__all__ = [
    "BuildLog",
    "BuildPhase",
    "BuildRequirement",
    "BuildResult",
    "BuilderConfig",
    "ChatModel",
    "Language",
    "LlmSoftwareBuilder",
    "Outcome",
    "ProjectSteps",
    "SoftwareType",
    "SuiteResult",
    "TemplateEngine",
    "TestHarness",
    "Workbench",
    "parse_requirement",
]
