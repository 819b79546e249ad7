"""Processes that can do nothing: workers for guests and compilers, and the confinement of every stranger's program."""
