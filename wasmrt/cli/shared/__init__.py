"""Code that several commands share: the root group, output, errors, options, and opening a runtime."""
