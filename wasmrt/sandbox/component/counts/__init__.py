"""Counts of what a component makes the compiler do, held against bounds before the compiler sees a byte.

A few kilobytes can ask for gigabytes: instances that expand, locals that live through loops. The counts are linear in
the bytes, and nothing is expanded for them.
"""

from __future__ import annotations

from wasmrt.sandbox.component.counts._check import check_counts

__all__ = ["check_counts"]
