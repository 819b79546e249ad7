"""Values and rules that all areas use: errors, effects, limits, names, files, strict JSON and TOML, and URLs."""
