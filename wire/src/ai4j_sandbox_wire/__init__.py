"""The wire: what providers that talk HTTP share. Nothing here knows a vendor.

Read in this order, each file needs only the ones before it:

* `errors`, `base_url`, `message` (requests and replies as data), `faults` (what a refusal means)
* `http1` (sans-io reader), `connection` (sockets and their pool), `direct` (our fast path, streams)
* `requests_sender` (the control plane), `http` (`HttpClient`: one set of rules over both)
* `connect` (sans-io envelopes), `protobuf`, `envd` (messages), `envd_client`
* `process_tree` (ending a whole tree), `process_channel`, `envd_files`, `pausing`
* `answers` (members of JSON), `sandbox_records`, `creation` (undoing one that failed), `remote_provider`
* `heartbeat` (keeping alive what is used)
* `sandbox_host`, `envd_session` (what sessions with an envd have in common)
"""
