"""Flows: what a trace has seen, where the values of a call came from, and what the call carries. Runs nothing."""

from __future__ import annotations

from wasmrt.flows._destinations import Destination, Kind, Outgoing, outgoing
from wasmrt.flows._forms import skeleton
from wasmrt.flows._labels import Label, Provenance, labels_of, read_labels
from wasmrt.flows._paths import Change, FlowMap, FlowPath, Reach
from wasmrt.flows._picture import picture
from wasmrt.flows._seen import Origin
from wasmrt.flows._trace import Flow, FlowTrace, Traced, flow_texts
from wasmrt.flows._written import Written

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
