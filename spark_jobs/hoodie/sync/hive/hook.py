"""The hook that syncs a table with a catalog after every commit of a write."""

from __future__ import annotations

from hoodie.config.key import Config
from hoodie.errors import HoodieError, ServiceError
from hoodie.hooks import CommitEvent, HookContext, PostCommitHook, WriteEvent
from hoodie.sync.settings import HIVE_SYNC, IGNORE_EXCEPTIONS, META_SYNC
from hoodie.write.table_options import merged


class HiveSync(PostCommitHook):
    """The rows stay committed; a sync that fails is an error all the same, unless the settings ignore it."""

    name = "the sync with a catalog"

    def check(self, config: Config) -> None:
        if _on(config):
            from hoodie.sync.hive.catalog import check_catalog

            check_catalog(config)

    def wants(self, config: Config, event: CommitEvent) -> bool:
        return isinstance(event, WriteEvent) and _on(config)

    def run(self, event: CommitEvent, context: HookContext) -> list[str]:
        from hoodie.sync.hive.catalog import catalog
        from hoodie.sync.hive.run import sync

        config = merged(context.config, event.table.properties)
        try:
            return sync(event.table, config, progress=context.progress).warnings
        except Exception as error:
            title, kind = catalog(config).title, type(error).__name__
            text = error.message if isinstance(error, HoodieError) else f"{kind}: {error}"
            if config[IGNORE_EXCEPTIONS]:
                return [f"the rows are committed, but the sync with {title} failed: {kind}: {error}"]
            raise ServiceError(
                f"the rows are committed at {event.instant.time}, don't write them again; the sync with "
                f"{title} failed: {text} (hoodie sync repeats it). With "
                f"{IGNORE_EXCEPTIONS.name}=true this is a warning",
                path=event.table.base_path,
                instant=event.instant.time,
                setting=IGNORE_EXCEPTIONS.name,
            ) from error


def _on(config: Config) -> bool:
    return bool(config[HIVE_SYNC] or config[META_SYNC])
