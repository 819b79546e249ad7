"""The tool system of an agent: registry, pipeline, policy, approvals, access, flows, safety, built-in tools."""
