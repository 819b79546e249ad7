"""A program that uses an X display. It reads one request as JSON, writes one answer as JSON, and exits."""
