"""Worker programs: one contestant in its own interpreter, driven over JSON lines.

Run by the parent as `python -m benchmarks.workers`.

Request, one line on stdin: `{"command": ..., ...}`; answer, one line on stdout: `{"ok": true, ...}` or
`{"ok": false, "error": text}`.  Everything else that is printed goes to stderr.

| command | fields | answer |
|---|---|---|
| setup | kind, session, options, engine | versions |
| an operation, see `OPERATIONS` | source (folder), table (path), options | seconds, result |
| rows | table, out (folder) | files that hold all rows, or none: the parent lists the latest slices |
| exit | | |
"""
