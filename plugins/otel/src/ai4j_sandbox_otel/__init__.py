"""OpenTelemetry spans for sandbox sessions and commands. `hooks` is the plugin, `spans` does the work."""
