"""A table, opened once for an operation: its storage, its properties, its timeline, its files.

Standard library only, so that sensors may open tables, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hoodie.config import versions
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, CommitConflict, HalfUpgraded, TableNotFound
from hoodie.format.names import META_FOLDER, METADATA_TABLE, join
from hoodie.storage import Storage, normalize, storage_for
from hoodie.storage.settings import options_of
from hoodie.table import properties
from hoodie.table.listing import FileListing, StorageListing
from hoodie.table.properties import TableProperties
from hoodie.timeline.active import Timeline, meta_path
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import Instant, State
from hoodie.timeline.layout import Layout
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.store import TimelineStore
from hoodie.timeline.time import REQUESTED

if TYPE_CHECKING:
    from hoodie.table.view import TimelineView
    from hoodie.timeline.archive.archive import Archive, WrittenArchive


@dataclass(frozen=True)
class TableRef:
    """Where a table lies, and the settings of its storage: small and picklable, it travels to executors.

    `uri` is normalized. Every task opens the table's storage from it, with the settings of the driver.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, path: str, config: Config | None = None) -> TableRef:
        """Raises ConfigError for what is no path, or has a scheme without a storage."""
        return cls(normalize(path), {} if config is None else options_of(config.texts))

    @property
    def metadata_table(self) -> TableRef:
        """Of the table's metadata table, which lies in the same storage, there or not."""
        return TableRef(join(meta_path(self.uri), METADATA_TABLE), self.storage_options)

    def storage(self) -> Storage:
        return storage_for(self.uri, self.storage_options)

    def listing(self) -> FileListing:
        """The data files as they are from now on."""
        return StorageListing(self.storage(), self.uri)


class Table:
    """One operation's handle of a table: what it reads of the table once serves all of its steps.

    `properties` and `timeline` are read when they are first asked for, and stay as they were. The timeline is
    listed again by `refresh` only, which the caller says where another process may have changed the table and
    the next step depends on it. Contents of completed instants never change and are kept across listings,
    within a bound (see Timeline). For one thread.
    """

    def __init__(self, ref: TableRef, storage: Storage | None = None) -> None:
        self.ref = ref
        self.storage = storage or ref.storage()
        self._writes = False
        self._empty: Layout = ONE  # of a timeline without instants, as long as no properties were read
        self._properties: TableProperties | None = None
        self._since_listing = False  # were the properties read after the timeline was listed last
        self._timeline: Timeline | None = None
        self._view: TimelineView | None = None

    @classmethod
    def open(cls, path: str, config: Config | None = None, *, rounds: int = 5) -> Table:
        """A table that is there. Raises as `TableRef.of`, and TableNotFound, TornProperties,
        UnsupportedVersion. `rounds`: see `properties.load`.
        """
        table = cls(TableRef.of(path, config))
        table.read_properties(rounds=rounds)
        return table

    def for_writing(self) -> None:
        """Let the handle refuse a version that is read only, from now on: another process may upgrade the
        table. Raises UnsupportedVersion.
        """
        self._writes = True
        if self._properties is not None:
            self._check_writable(self._properties)

    def _check_writable(self, props: TableProperties) -> None:
        versions.check_writable(props.version, self.base_path, props.name)

    @property
    def base_path(self) -> str:
        return self.ref.uri

    @property
    def metadata_table(self) -> Table:
        """The handle of its metadata table, which is a table with properties and a timeline of its own."""
        table = Table(self.ref.metadata_table, self.storage)
        if self._properties is not None:
            table._empty = self.layout
        return table

    @property
    def layout(self) -> Layout:
        """How the timeline and its archive lie, by the table's version."""
        return layout_of(self.properties.version)

    @property
    def archive(self) -> Archive:
        """The archived timeline."""
        return open_archive(self.storage, self.layout, self.base_path, self.properties)

    @property
    def written_archive(self) -> WrittenArchive:
        """The same, to be written."""
        return open_archive(self.storage, self.layout, self.base_path, self.properties)

    @property
    def archive_folder(self) -> str:
        """Of the archived timeline."""
        return self.layout.archive_folder(self.base_path, self.properties.archive_folder)

    @property
    def properties(self) -> TableProperties:
        """Raises TableNotFound, TornProperties, UnsupportedVersion."""
        return self.read_properties() if self._properties is None else self._properties

    def read_properties(self, *, rounds: int = 5) -> TableProperties:
        """The properties as they are now."""
        self._properties = properties.load(self.storage, self.base_path, rounds=rounds)
        self._since_listing = True
        if self._writes:
            self._check_writable(self._properties)
        return self._properties

    @property
    def listed_properties(self) -> TableProperties:
        """The properties as they were when the timeline was listed last, or later."""
        return self.properties if self._since_listing else self.read_properties()

    @property
    def timeline(self) -> Timeline:
        """As it was listed last. Raises TableNotFound, UnsupportedVersion, HalfUpgraded."""
        return self._refreshed(read=False) if self._timeline is None else self._timeline

    def create(self, props: Mapping[str, str]) -> None:
        """Make the table, unless another process just made it. Raises ConfigError as `properties.create`."""
        try:
            self._properties = properties.create(self.storage, self.base_path, props)
        except AlreadyExists:
            self.read_properties()
        if self._timeline is not None and self._timeline.layout is not self.layout:
            self.refresh()

    def reopen(self, *, moved: bool = False) -> None:
        """Forget properties and timeline: they are read again when they are asked for. Raises as `refresh`,
        but not where the instants may have been `moved`: by this process, or before what comes next.
        """
        former, self._properties = self._timeline, None
        if former is not None:
            if not former.instants:  # its properties say where they will lie
                with contextlib.suppress(TableNotFound):
                    self.read_properties()
            self._list()
            if not moved:
                self._check_not_moved(former)

    def refresh(self, *, read: bool = True, beside: bool = True) -> Timeline:
        """The timeline as it is now. Raises CommitConflict in a handle that writes where another process has
        moved the instants to the layout of another version. Without `read` the properties stay as they were,
        without `beside` what lies beside the timeline, too: for a look at the files of known instants, which
        go where the layout changes.
        """
        return self._refreshed(read=read, beside=beside)

    def _refreshed(self, *, read: bool, beside: bool = True) -> Timeline:
        former, timeline = self._timeline, self._list(read=read, beside=beside)
        self._check_not_moved(former)
        return timeline

    def _check_not_moved(self, former: Timeline | None) -> None:
        if self._writes and former and former.instants and former.layout is not self.timeline.layout:
            version = self.properties.version
            raise CommitConflict(
                f"another process changed the table version of {self.base_path} to {version}: nothing of "
                "this was published, run it again",
                path=self.base_path,
                version=version,
            )

    def _list(self, *, read: bool = True, beside: bool = True) -> Timeline:
        """Without `read`, properties that were read just before stay."""
        props = self._properties
        timeline = Timeline.load(
            self.base_path,
            self.storage,
            self._timeline,
            empty=self._empty if props is None else self.layout,
            whole=self._writes,
            beside=beside,
            known=None if props is None else (props.version, props.timeline_utc),
        )
        # the listing may tell that they are as they were
        stamp = timeline.stamp if beside else ""
        self._since_listing = props is not None and bool(stamp) and props.stamp == stamp
        outdated = props is not None and self.layout is not timeline.layout
        unread = self._writes and read and not self._since_listing
        if timeline.layout is not ONE and (outdated or unread):
            self.read_properties()
        if timeline.layout is ONE and timeline.instants and self._properties and self.layout is not ONE:
            self._check_place(self._properties.version)
        if timeline is not self._timeline:
            self._timeline, self._view = timeline, None
        return timeline

    @property
    def view(self) -> TimelineView:
        """Computed once a listing of the timeline. Raises as that, and TableError for damaged contents."""
        from hoodie.table.view import TimelineView

        timeline = self.timeline
        if self._view is None:
            self._view = TimelineView.of(timeline, self.storage)
        return self._view

    def view_of(self, timeline: Timeline) -> TimelineView:
        """`view` of a timeline that may have been listed earlier. Raises as `view`."""
        from hoodie.table.view import TimelineView

        return self.view if timeline is self._timeline else TimelineView.of(timeline, self.storage)

    def _check_place(self, version: int) -> None:
        """Raises HalfUpgraded where instants lie as versions up to 7 have them, and the table's is later."""
        if not versions.is_of_layout(self.read_properties().version, ONE.version):
            raise HalfUpgraded(
                f"hoodie.properties of {self.base_path} has table version {version}, but instants lie in "
                f"{META_FOLDER}, where versions up to 7 keep them: a downgrade by Apache Hudi 1.x goes on or "
                "failed half-way, or the properties were edited. Let Apache Hudi 1.x finish it, or restore "
                ".hoodie from a copy",
                path=self.base_path,
                version=version,
            )

    @property
    def store(self) -> TimelineStore:
        """The files of the timeline."""
        layout = self.layout if self._timeline is None else self._timeline.layout
        return TimelineStore(self.storage, self.base_path, layout)

    def completing(self, instant: Instant, *, shared: bool = False) -> Instant:
        """An instant as it is completed now, where names have that time: later than all on the timeline.
        `shared`: other processes may complete it, too, so that they agree on the time; `settle` follows.
        """
        timeline, done = self.timeline, instant.with_state(State.COMPLETED)
        if not timeline.layout.has_completion_time:
            return done
        last = REQUESTED.last(filter(None, (timeline.last_time, instant.time)))
        done = replace(done, completion=new_instant_time(last, timeline.utc))
        return self.store.agree(done) if shared else done

    def settle(self, completed: Instant) -> None:
        """What `completing` left of an instant whose completed file is there."""
        if completed.completion:
            self.store.settle(completed)

    def listing(self) -> FileListing:
        """The data files as they are from now on; see FileListing."""
        return StorageListing(self.storage, self.base_path)


def layout_of(number: int) -> Layout:
    """That of the timeline of a table version."""
    return ONE if versions.is_of_layout(number, ONE.version) else TWO


def open_archive(storage: Storage, layout: Layout, base_path: str, props: TableProperties) -> WrittenArchive:
    """The archived timeline of a table, as its layout keeps it."""
    from hoodie.timeline.archive.log_archive import LogArchive
    from hoodie.timeline.archive.lsm_archive import LsmArchive

    folder = layout.archive_folder(base_path, props.archive_folder)
    return LogArchive(storage, folder) if layout.version is ONE.version else LsmArchive(storage, folder)
