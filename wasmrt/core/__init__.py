"""Values and rules that every area uses: errors, effects, limits, time, names, files, strict JSON and TOML, URLs."""
