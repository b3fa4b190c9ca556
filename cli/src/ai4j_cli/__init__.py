"""The ``ai4j`` command.

Read in this order: `application` and `failures` (what all commands share), `lazy_group`, `installed_commands` and
`main` (the command tree);
then `sandbox_run` with `parameters`, `request` (options to a job), `job` (the run), with `interruption`, `streams`,
`forwarding`, `terminal` and `downloads` under it, and `report` (what became of it);
then `providers` with `catalog`, `health`, `documents` and `rendering`.

Starting is free: ``--help`` and ``--version`` load neither a provider nor rich, PyYAML or marshmallow. Every module
therefore imports at its top only what parsing a command line needs.
"""
