"""Count the definitions that determine the compiler's work, and check the counts against limits before compilation.

A component of a few kilobytes can make the compiler use gigabytes, either with instances that instantiate further
instances, or with locals that are alive in loops. Counting takes time linear in the component's size, because nothing
is expanded.
"""

from __future__ import annotations

from wasmrt.sandbox.component.counts._expanded import check_counts

__all__ = ["check_counts"]
