"""Flows: what a trace has seen, where the values of a call came from, and what the call carries. Runs nothing."""

from __future__ import annotations

from wasmrt.agent.flows._destinations import Destination, Kind, Outgoing, outgoing
from wasmrt.agent.flows._forms import skeleton
from wasmrt.agent.flows._labels import Provenance, labels_of, read_labels
from wasmrt.agent.flows._paths import Change, FlowMap, FlowPath, Reach
from wasmrt.agent.flows._picture import picture
from wasmrt.agent.flows._seen import Origin
from wasmrt.agent.flows._trace import Flow, FlowTrace, Traced, flow_texts
from wasmrt.agent.flows._written import Written
from wasmrt.core.labels import Label

__all__ = [
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
    "Provenance",
    "Reach",
    "Traced",
    "Written",
    "flow_texts",
    "labels_of",
    "outgoing",
    "picture",
    "read_labels",
    "skeleton",
]
