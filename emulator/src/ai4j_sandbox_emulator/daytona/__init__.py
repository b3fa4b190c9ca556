"""Daytona as clients see it: the control API and the toolbox of every sandbox, as of 0.190.

Read in this order: `errors`, `requests`, `records`, `replies`, `control`; for the toolbox `commands`, `shells`,
`terminals`, `filesystem`, `repositories`, `daemon`; then `face`, which puts both behind one port.
"""
