"""Build software with a model: requirements, scaffolds, the loop, and the checks of the result.

The program passes the model. `wasmrt.interop.builder` connects the loop to a registry.
"""

from wasmrt.authoring.builder._builder import LlmSoftwareBuilder
from wasmrt.authoring.builder._model import ChatModel, Outcome
from wasmrt.authoring.builder._steps import ProjectSteps, TestHarness
from wasmrt.authoring.builder._templates import TemplateEngine
from wasmrt.authoring.builder._values import (
    BuilderConfig,
    BuildResult,
    Language,
    SoftwareType,
)

__all__ = [
    "BuildResult",
    "BuilderConfig",
    "ChatModel",
    "Language",
    "LlmSoftwareBuilder",
    "Outcome",
    "ProjectSteps",
    "SoftwareType",
    "TemplateEngine",
    "TestHarness",
]
