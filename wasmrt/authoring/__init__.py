"""Making tools: projects from templates, build, tests, and the public fakes of `wasmrt.testing`."""
