"""The tool system of an agent: registry and pipeline, policy, approvals, access requests, flows, safety, built-in tools."""
