"""Sources of the local engine without the records that can't be written.

Text is read twice: to find the bad lines, and without them. A block of lines that can't be read as a whole is
halved until single lines are left that can't, so that good ones are never read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_, or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from hoodie.codec.arrays import array, pc
from hoodie.engine.files import bad_file
from hoodie.engine.streams import Stream
from hoodie.errors import ConfigError, InputError
from hoodie.source import Format, Source, source_files
from hoodie.source.arrow import read, text_files
from hoodie.source.arrow_files import file_system
from hoodie.source.csv_file import check_no_lines_in_values
from hoodie.source.record_files import record_files, record_rows
from hoodie.source.rejected_records import BadRows, Required, Screened, lacking, located, record_texts
from hoodie.source.text import TextFile, text_rows

_FILE_NAME = "__filename"


def screened(source: Source, known: pa.Schema | None, required: Required, limit: int) -> Screened:
    """The rows, after the transform, and the records that can't be written: those that can't be read in the
    types of `known`, or, where there is no transform, lack what is required.

    Raises InputError for more than `limit` of them, and for what `read` raises it.
    """
    source.check_no_table()
    if (problem := source.local_problem()) is not None:
        raise problem
    bad = BadRows(limit)
    if source.transform:
        required = Required()
    rows: Any
    if source.format is Format.PARQUET:
        rows = _parquet(source, required, bad)
    elif source.format in (Format.AVRO, Format.ORC):
        rows = _records(source, required, bad)
    else:
        rows = _text(source, known, required, bad)
    if source.transform:
        from hoodie.source.transform import transformed

        rows = transformed(rows, source.transform)
    return Screened(rows, bad.table())


def _text(source: Source, known: pa.Schema | None, required: Required, bad: BadRows) -> Any:
    if source.format is Format.CSV:
        if not source.flag("header", True):
            raise ConfigError("an error table needs CSV files with a header", option="header")
        check_no_lines_in_values(source)
    good = []
    for file in text_files(source, known):
        screen = Screen(file, required, bad)
        with file.reading():
            screen.run()
        if screen.records or source.format is Format.CSV:
            good.append(replace(file, holes=tuple(screen.holes)))
    if good:
        return text_rows(good)
    if known is None:
        raise InputError(
            f"no record of {source} can be read, so that there are no columns to make a table of; mend the "
            f"files: {bad.items[0]['error']}"
            if bad.items
            else f"{source} has no records",
            source=str(source),
        )
    return known.empty_table()


@dataclass
class Screen:
    """Of one file: how many good records it has, and where the bad ones lie in its text."""

    file: TextFile
    required: Required
    bad: BadRows
    records: int = 0

    def __post_init__(self) -> None:
        self.holes: list[tuple[int, int]] = []

    def run(self) -> None:
        place, line = 0, 1
        for number, block in enumerate(self.file.whole_blocks()):
            head = 0
            if not number:
                self.file, head = self.file.begun(block)
            lines = self.file.lines(block[head:])
            self._block(lines, place + head, line + block[:head].count(b"\n"))
            place, line = place + len(block), line + block.count(b"\n")

    def _block(self, lines: Sequence[bytes], place: int, line: int) -> None:
        """`place` and `line` are those of the first one."""
        texts = pa.array(lines, pa.binary())
        sizes = pc.binary_length(texts).to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        lasting = np.flatnonzero(_has_text(texts))
        for number, error in self._problems(lines, lasting):
            begin, end = int(starts[number]), int(starts[number + 1])
            text = lines[number].decode("utf-8", "replace").rstrip("\r\n")
            self.bad.add(self.file.path, line + number, text, error)
            self.holes.append((place + begin, place + end))

    def _problems(self, lines: Sequence[bytes], numbers: Any) -> Iterator[tuple[int, str]]:
        """Of the lines with these numbers, ascending."""
        todo = [numbers] if len(numbers) else []
        while todo:
            some = todo.pop()
            try:
                rows = self.file.checked(b"".join(lines[some[0] : some[-1] + 1]), len(some))
            except (pa.ArrowException, UnicodeDecodeError) as error:
                if len(some) == 1:
                    yield int(some[0]), _said(error)
                else:
                    half = len(some) // 2
                    todo += [some[half:], some[:half]]
                continue
            self.records += rows.num_rows
            for number, problem in self.required.problems(self.file.full(rows)):
                self.records -= 1
                yield int(some[number]), problem


def _has_text(lines: pa.Array[Any]) -> Any:
    """Mask of the lines that are not blank; their ends may be all that they have."""
    return pc.match_substring_regex(lines, r"[^\r\n]").to_numpy(zero_copy_only=False)


def _said(error: Exception) -> str:
    """Without the numbers of rows and columns in a text that is a part of the file only."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = text.removeprefix("JSON parse error: ")
    return (
        text.removesuffix(" in row 0").partition("Row #")[0] + text.partition("Row #")[2].partition(": ")[2]
    )


def _parquet(source: Source, required: Required, bad: BadRows) -> Any:
    """Rows of a file have the types that the file says: those of all are wrong, or none."""
    rows = read(replace(source, transform=""))
    assert isinstance(rows, ds.Dataset)
    wrong = _wrong(required, rows.schema)
    if wrong is None:
        return rows
    scanner: Any = rows.scanner(columns=[*rows.schema.names, _FILE_NAME], filter=wrong)
    try:
        found = scanner.head(bad.limit + 1)
    except (pa.ArrowException, OSError) as error:
        raise bad_file(rows) or error from None
    paths = {
        file_system(source, file.path)[1]: file.path
        for group in source_files(source).values()
        for file in group
    }
    names = found.column(_FILE_NAME).to_pylist()
    plain = found.drop_columns([_FILE_NAME])
    problems = dict(required.problems(plain))
    texts = record_texts(plain, range(plain.num_rows))
    for number, (name, text) in enumerate(zip(names, texts, strict=True)):
        bad.add(paths.get(name, name), None, text, problems[number])
    return rows.filter(~wrong) if found.num_rows else rows


def _records(source: Source, required: Required, bad: BadRows) -> Stream:
    """Rows of a file have the types that the file says, as in Parquet."""
    files = record_files(source)
    for file in files:
        for batch in file():
            rows = pa.Table.from_batches([batch])
            problems = dict(required.problems(rows))
            texts = record_texts(rows, list(problems))
            for error, text in zip(problems.values(), texts, strict=True):
                bad.add(file.path, None, text, error)
    rows_ = record_rows(files)
    return Stream(rows_.schema, tuple(partial(_valid_rows, part, required) for part in rows_.parts))


def _valid_rows(part: Callable[[], Iterator[pa.RecordBatch]], required: Required) -> Iterator[pa.RecordBatch]:
    for batch in part():
        rows = pa.Table.from_batches([batch])
        if lacking := [number for number, _ in required.problems(rows)]:
            kept = np.ones(rows.num_rows, np.bool_)
            kept[lacking] = False
            rows = rows.filter(array(kept))
        yield from rows.to_batches()


def _wrong(required: Required, schema: pa.Schema) -> Any:
    """The rows that lack what is required, as an expression; None where nothing is. A column that no file has
    is left to the write, which names it.
    """

    def without(name: str, empty: bool) -> Any:
        found = located(schema, name)
        return pc.scalar(False) if found is None else lacking(pc.field(*found[0]), found[1], empty)

    parts = [
        reduce(and_, [without(name, empty) for name in fields]) for fields, _, empty in required.groups()
    ]
    return reduce(or_, parts) if parts else None
