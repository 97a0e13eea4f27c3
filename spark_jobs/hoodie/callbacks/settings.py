"""Settings of commit callbacks."""

from __future__ import annotations

from hoodie.config.key import Key, bool_key

ON = bool_key(
    "hoodie.write.commit.callback.on",
    False,
    "Call the class of hoodie.write.commit.callback.class after every commit of a write. Its failure is a "
    "warning of the result and never harms the commit.",
    group="write",
)
CLASS: Key[str | None] = Key(
    "hoodie.write.commit.callback.class",
    None,
    "A callback of your own, `module:Class`, derived from hoodie.callbacks.CommitCallback.",
    str.strip,
    group="write",
)
