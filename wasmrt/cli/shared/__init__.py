"""Parts that several commands use: the root group, output, errors, options, and opening a runtime."""
