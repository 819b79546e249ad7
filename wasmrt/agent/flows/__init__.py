"""Flows: the labels of a trace's content, the provenance of a call's values, and paths of data through tools."""

from __future__ import annotations

from wasmrt.agent.flows._declared import find_declaration, find_declaration_file, schema_digest
from wasmrt.agent.flows._destinations import (
    Destination,
    Kind,
    Outgoing,
    describe_params,
    find_outgoing,
    is_control,
    is_email,
)
from wasmrt.agent.flows._forms import make_skeleton
from wasmrt.agent.flows._known import flow_texts
from wasmrt.agent.flows._labels import Provenance, derive_labels, only_transforms, read_labels
from wasmrt.agent.flows._paths import Change, FlowMap, FlowPath, Reach, draw_paths
from wasmrt.agent.flows._planned import ApprovedPlans, PlannedCall
from wasmrt.agent.flows._plans import PROPOSE_PLAN, Plan
from wasmrt.agent.flows._private import WrittenText
from wasmrt.agent.flows._shared import SharedLabels
from wasmrt.agent.flows._trace import Flow, FlowTrace, Traced
from wasmrt.agent.flows._untrusted_text import Origin, UntrustedText
from wasmrt.core.labels import Label

__all__ = [
    "PROPOSE_PLAN",
    "ApprovedPlans",
    "Change",
    "Destination",
    "Flow",
    "FlowMap",
    "FlowPath",
    "FlowTrace",
    "Kind",
    "Label",
    "Origin",
    "Outgoing",
    "Plan",
    "PlannedCall",
    "Provenance",
    "Reach",
    "SharedLabels",
    "Traced",
    "UntrustedText",
    "WrittenText",
    "derive_labels",
    "describe_params",
    "draw_paths",
    "find_declaration",
    "find_declaration_file",
    "find_outgoing",
    "flow_texts",
    "is_control",
    "is_email",
    "make_skeleton",
    "only_transforms",
    "read_labels",
    "schema_digest",
]
