"""Count the definitions that determine the compiler's work, and check them against limits before compilation.

A component of a few kilobytes can make the compiler use gigabytes: by instances that expand, or by locals that are
alive in loops. Counting takes time linear in the size of the component and expands nothing.
"""

from __future__ import annotations

from wasmrt.sandbox.component.counts._expanded import check_counts

__all__ = ["check_counts"]
