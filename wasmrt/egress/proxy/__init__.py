"""A proxy for one run of a confined program, which connects to checked addresses of granted hosts only."""

from __future__ import annotations

from wasmrt.egress.proxy._proxy import ProgramProxy

__all__ = ["ProgramProxy"]
