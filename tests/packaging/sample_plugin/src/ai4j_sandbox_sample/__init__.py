"""A sandbox provider to copy from. It isolates NOTHING. Read `hooks`, `provider`, `session`, `channel`."""
