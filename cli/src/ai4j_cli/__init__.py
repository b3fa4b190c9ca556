"""The ``ai4j`` command.

Read in this order: `startup` (the way in) and `streams`; `application` and `failures` (what all commands share),
`lazy_group`, `installed_commands` and `main` (the command tree);
`options` and `sandbox_run` with `parameters`, `spec_options`, `request` (options to a job), `job` (the run), with
`attachment`, `interruption`, `forwarding`, `terminal`, `metering` and `downloads` under it, and `report`
(what became of it);
for sandboxes that exist `address`, then `sandbox_exec`, `sandbox_copy` with `copying`, `sandbox_life`, and
`sandbox_fleet` with `fleet` and `inspection`;
then `providers` with `catalog`, `health`, `documents` and `rendering`; `blueprint_check`, `session_file`,
`completion_script`; and last the packages `top` and `chat`.

Starting is free: ``--help`` and ``--version`` load neither a provider nor rich, PyYAML or marshmallow. Every module
therefore imports at its top only what parsing a command line needs.
"""
