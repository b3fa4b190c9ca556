"""The E2B face: control API, shared sandbox host and envd on one port.

Read in this order: `errors`, `requests`, `replies`, `listing`, `routing`, `control`, `face`.
"""
