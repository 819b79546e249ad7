"""A program that uses an X display: it reads one request as JSON, writes one answer, and ends."""
