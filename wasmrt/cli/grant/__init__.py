"""Commands that install tools and manage their grants, approvals and policy."""
