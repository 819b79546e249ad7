"""What an agent holds: registry and pipeline, policy, approvals, access requests, flows, safety, built-in tools."""
