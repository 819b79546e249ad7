"""Worker processes for guests and compilers, and the confinement of every untrusted program."""
