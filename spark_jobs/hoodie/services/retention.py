"""The check of the cleaner's settings against the archiver's."""

from __future__ import annotations

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.services.archive.settings import MAX_COMMITS, MIN_COMMITS
from hoodie.services.clean.settings import COMMITS_RETAINED, POLICY, Policy


def check_retention(config: Config) -> None:
    """Raises ConfigError unless cleaner.commits.retained <= keep.min.commits < keep.max.commits.

    Commits that are archived before their old files were cleaned can't be read incrementally although their
    files are there; and the archiver needs room between its two limits.
    """
    least, most = config[MIN_COMMITS], config[MAX_COMMITS]
    if least >= most:
        raise ConfigError(
            f"{MIN_COMMITS.name}={least} must be less than {MAX_COMMITS.name}={most}: beyond {most} commits "
            f"the oldest are archived until {least} are left. Raise {MAX_COMMITS.name}",
            **{MIN_COMMITS.name: least, MAX_COMMITS.name: most},
        )
    kept = config[COMMITS_RETAINED]
    if config[POLICY] is Policy.KEEP_LATEST_COMMITS and kept > least:
        raise ConfigError(
            f"{COMMITS_RETAINED.name}={kept} must be at most {MIN_COMMITS.name}={least}: commits would be "
            f"archived whose files are still kept for queries. Raise {MIN_COMMITS.name} and, if it is less "
            f"than {kept + 1}, {MAX_COMMITS.name}",
            **{COMMITS_RETAINED.name: kept, MIN_COMMITS.name: least},
        )
