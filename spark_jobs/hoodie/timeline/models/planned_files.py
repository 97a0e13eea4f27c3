"""The files of a slice in a plan. Standard library only."""

from __future__ import annotations

from hoodie.format.names import file_id, file_name, relative_path


class PlannedFiles:
    """Of a plan's file slice: its names in the partition's folder, where the plan may have whole paths.

    Raises TableError for a slice that is not in the table.
    """

    partition_path: str
    file_id: str
    data_file: str | None
    log_files: tuple[str, ...]

    def __post_init__(self) -> None:
        relative_path(self.partition_path, "partitionPath")
        file_id(self.file_id, "fileId")
        for path in (self.data_file, *self.log_files):
            if path:
                file_name(path, "file of a slice")

    @property
    def group(self) -> tuple[str, str]:
        return self.partition_path, self.file_id

    @property
    def base_name(self) -> str | None:
        return _bare(self.data_file) if self.data_file else None

    @property
    def log_names(self) -> tuple[str, ...]:
        return tuple(map(_bare, self.log_files))


def _bare(path: str) -> str:
    return path.rpartition("/")[2]
