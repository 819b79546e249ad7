"""A proxy for one run of a confined program: it reaches granted hosts, by checked addresses, and no other."""

from __future__ import annotations

from wasmrt.egress.proxy._proxy import ProgramProxy

__all__ = ["ProgramProxy"]
