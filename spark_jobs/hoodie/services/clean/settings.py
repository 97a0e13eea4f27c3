"""Settings of the cleaner."""

from __future__ import annotations

import enum

from hoodie.config.key import bool_key, enum_key, int_key


class Policy(enum.Enum):
    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


AUTOMATIC = bool_key(
    "hoodie.clean.automatic",
    True,
    "After each write delete file slices that are older than what is kept. A failure there is a warning of "
    "the write; its commit stays.",
    group="clean",
)
MAX_COMMITS = int_key(
    "hoodie.clean.max.commits",
    1,
    "Commits since the last clean that make the next one due; 0: it always is.",
    minimum=0,
    aliases=("hoodie.clean.trigger.max.commits",),
    group="clean",
)
POLICY = enum_key(
    "hoodie.cleaner.policy",
    Policy.KEEP_LATEST_COMMITS,
    "What is kept: all that queries as of the last commits or hours need, or a number of versions of each "
    "file group (the files of replaced file groups then go at once).",
    aliases=("hoodie.clean.policy",),
    group="clean",
)
COMMITS_RETAINED = int_key(
    "hoodie.cleaner.commits.retained",
    10,
    "KEEP_LATEST_COMMITS: the number of newest commits that can be read as of their time, and incrementally.",
    minimum=1,
    aliases=("hoodie.clean.commits.retained",),
    group="clean",
)
VERSIONS_RETAINED = int_key(
    "hoodie.cleaner.fileversions.retained",
    3,
    "KEEP_LATEST_FILE_VERSIONS: the number of newest slices of each file group.",
    minimum=1,
    aliases=("hoodie.clean.fileversions.retained",),
    group="clean",
)
HOURS_RETAINED = int_key(
    "hoodie.cleaner.hours.retained",
    24,
    "KEEP_LATEST_BY_HOURS: the hours whose commits can be read as of their time, and incrementally.",
    minimum=1,
    aliases=("hoodie.clean.hours.retained",),
    group="clean",
)
INCREMENTAL = bool_key(
    "hoodie.cleaner.incremental.mode",
    True,
    "Look only into partitions that commits changed since what the last clean kept, instead of all.",
    aliases=("hoodie.clean.incremental.enabled",),
    group="clean",
)
