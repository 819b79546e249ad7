"""Tools that are not components, because they work on the host: memory, shell, skills, code mode, desktop, plugins."""
