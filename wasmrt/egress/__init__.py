"""Outgoing connections: gateway, DNS and address checks, credentials, secrets, logins, rate limits, leak detector."""
