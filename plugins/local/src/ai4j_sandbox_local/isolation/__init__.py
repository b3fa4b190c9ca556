"""What a sandbox sees and may do, and how it is started.

Pure: `seccomp` (system calls), `layout` (the file system), `bubblewrap` (both as options), `landlock` (both for the
tier without namespaces). With effects: `identity`, `staging`, `cgroup`, `launch`, `tiers`.
"""
