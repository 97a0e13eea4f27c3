"""The answers of the page: a path and its query in, status, headers and body out. Every host uses it.

    GET /                                     the page (and its files: page.css, *.js, icon*.svg)
    GET /tables                               the list; ?open=false: names and paths, no table is looked at;
                                              in Airflow their assets, too, where its API is, and the DAG
                                              that the page may trigger there
    GET /tables/NAME/health                   what needs a hand, in a few listings
    GET /tables/NAME/services                 what the planner of services would do; ?again=true: a new look
    GET /tables/NAME/doctor                   all findings of the doctor; ?again=true
    GET /tables/NAME/instants                 ?limit=1..1000&before=T&archived=true
    GET /tables/NAME/instants/T               ?action=A&archived=true

A table is known by its name on the list; no request names a path. Errors are `{"error": {code, message,
values}}`: 404 for what is not there, 400 for a wrong request, 422 for a table that is not what it should be,
500 where the storage or this page fails. (A server that has no thread for a request answers 503.)
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import logging
import re
import textwrap
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from hoodie.errors import ConfigError, HoodieError, TableError, TableNotFound
from hoodie.serve import details, instants, tables
from hoodie.serve.health import DOCTOR, SERVICES, UNREADABLE, Examiner, health, not_written
from hoodie.serve.instants import Summaries, parse_before, parse_limit
from hoodie.serve.tables import Bounded, Options, ShownTable
from hoodie.text import lines, visible

log = logging.getLogger(__name__)

#: the page's own files and no others
STATIC = {
    "": ("index.html", "text/html; charset=utf-8"),
    "index.html": ("index.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "axis.js": ("axis.js", "text/javascript; charset=utf-8"),
    "details.js": ("details.js", "text/javascript; charset=utf-8"),
    "list.js": ("list.js", "text/javascript; charset=utf-8"),
    "format.js": ("format.js", "text/javascript; charset=utf-8"),
    "health.js": ("health.js", "text/javascript; charset=utf-8"),
    "overview.js": ("overview.js", "text/javascript; charset=utf-8"),
    "producers.js": ("producers.js", "text/javascript; charset=utf-8"),
    "repair.js": ("repair.js", "text/javascript; charset=utf-8"),
    "server.js": ("server.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    "icon-dark.svg": ("icon-dark.svg", "image/svg+xml"),
}
#: seconds that a table has for a line of the list
_TABLE_S = 10.0
JSON = "application/json; charset=utf-8"
#: nothing from elsewhere, nothing inline; a page of the same origin (Airflow's) may frame it
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_MARKUP = re.compile("[<>&]")


@dataclass(frozen=True)
class Reply:
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: dict(HEADERS))

    @classmethod
    def of(cls, document: Mapping[str, Any], status: int = HTTPStatus.OK) -> Reply:
        """ASCII, without `<`, `>` and `&`: whatever takes it for another type finds no markup in it."""
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
        return cls(int(status), JSON, _MARKUP.sub(lambda char: f"\\u{ord(char[0]):04x}", text).encode())


def _no_dag() -> str:
    return ""


def _no_options(_: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Page:
    """The page of the tables that `allowed` names; it is asked at each request.

    airflow: where Airflow's own pages are, without a trailing slash ("" for the same host), so that task
    runs are links; None: they are text. options: settings of the storage of each. asset: by a table's path
    the URI of its asset in Airflow; with it the page asks Airflow's public API, as the user who looks, for
    failed runs of the tasks that produce the table. maintenance: the DAG that the page may trigger there, by
    that API and with that user's rights; "" for none.
    """

    allowed: Callable[[], Mapping[str, str]]
    airflow: str | None = None
    summaries: Summaries = field(default_factory=Summaries)
    options: Options = _no_options
    bounded: Bounded = field(default_factory=lambda: Bounded(_TABLE_S))
    examiner: Examiner = field(default_factory=Examiner)
    asset: Callable[[str], str] | None = None
    maintenance: Callable[[], str] = _no_dag

    def get(self, path: str, query: str = "") -> Reply:
        """`path` is the rest of the URL below the page's own, still quoted. Never raises for a request."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        try:
            if len(parts) == 1 and parts[0] in STATIC:
                name, content_type = STATIC[parts[0]]
                return Reply(HTTPStatus.OK, content_type, _static(name))
            values = {name: items[-1] for name, items in parse_qs(query, keep_blank_values=True).items()}
            document = self._document(parts, values)
            if document is not None:
                return Reply.of(document)
        except TableNotFound as error:
            return _failed(error.to_dict(), HTTPStatus.NOT_FOUND)
        except ConfigError as error:
            return _failed(error.to_dict(), HTTPStatus.BAD_REQUEST)
        except TableError as error:
            return _failed(error.to_dict(), HTTPStatus.UNPROCESSABLE_ENTITY)
        except HoodieError as error:
            return _failed(error.to_dict(), HTTPStatus.INTERNAL_SERVER_ERROR)
        except OSError as error:
            message = f"{error.filename or 'the storage'}: {error.strerror or error}; check the storage"
            return _failed({"code": "storage", "message": message}, HTTPStatus.INTERNAL_SERVER_ERROR)
        except Exception as error:  # noqa: BLE001  a bug; the page says so and the server goes on
            shown = textwrap.indent(lines(traceback.format_exc()), "  ")
            log.error("The timeline page failed at %s:\n%s", visible(path), shown)
            message = f"this page failed ({type(error).__name__}); the server's log says where"
            return _failed({"code": "internal", "message": message}, HTTPStatus.INTERNAL_SERVER_ERROR)
        where = "/".join(parts)[:200]
        return _failed({"code": "not_found", "message": f"there is no {where!r}"}, HTTPStatus.NOT_FOUND)

    def _document(self, parts: list[str], query: Mapping[str, str]) -> dict[str, Any] | None:
        match parts:
            case ["tables"]:
                allowed = self.allowed()
                if not _flag(query, "open", default=True):
                    return self._listed(allowed)
                return {"tables": tables.describe(allowed, self.options, self.bounded)}
            case ["tables", name, "health"]:
                self._path(name)
                return self._health(name)
            case ["tables", name, "services" | "doctor" as what]:
                asked = SERVICES if what == "services" else DOCTOR
                return self._examined(asked, self._table(name), _flag(query, "again"))
            case ["tables", name, "instants"]:
                return self._instants(self._table(name), query)
            case ["tables", name, "instants", time]:
                return self._instant(self._table(name), time, query)
        return None

    def _listed(self, allowed: Mapping[str, str]) -> dict[str, Any]:
        """No table is looked at."""
        found = tables.listed(allowed)
        if self.asset is None or self.airflow is None:
            return {"tables": found}
        listed = [{**item, "asset": self.asset(item["base_path"])} for item in found]
        return {"tables": listed, "api": f"{self.airflow}/api/v2", "maintenance": self.maintenance()}

    def _table(self, name: str) -> ShownTable:
        return ShownTable.open(name, self._path(name), self.options(name))

    def _path(self, name: str) -> str:
        allowed = self.allowed()
        if name not in allowed:
            raise TableNotFound(
                f"no table {name[:100]!r} is on this page's list; there are "
                f"{', '.join(sorted(allowed)) or 'none'}",
                name=name[:100],
            )
        return allowed[name]

    def _health(self, name: str) -> dict[str, Any]:
        """Also of a table that can't be looked at: that is what is wrong with it."""

        def look() -> dict[str, Any]:
            out = health(self._table(name), self.summaries)
            for item in (*out["pending"], *out["rolled_back"], *out["waiting"], out["last_write"]):
                self._link(item)
            out["last_write"]["outside"] = self._is_outside(out["last_write"])
            return out

        try:
            found: dict[str, Any] = self.bounded.run(f"{name} at a glance", look)
            return found
        except TableNotFound as error:
            problem = error.to_dict()
            judged = not_written(f"not written yet: no table is at {visible(self._path(name))}")
        except HoodieError as error:
            problem = error.to_dict()
            judged = {"level": 3, "rank": UNREADABLE, "reasons": [problem["message"]]}
        except OSError as error:
            text = f"{error.filename or 'the storage'}: {error.strerror or error}; check the storage"
            problem = {"code": "storage", "message": text}
            judged = {"level": 3, "rank": UNREADABLE, "reasons": [text]}
        nothing: dict[str, list[Any]] = {"pending": [], "rolled_back": [], "waiting": [], "findings": []}
        return {**judged, "error": problem, **nothing}

    def _examined(self, what: str, table: ShownTable, again: bool) -> dict[str, Any]:
        """`problem`: why there is no answer."""
        try:
            return self.examiner.ask(what, table, again)
        except HoodieError as error:
            return {"problem": error.message}

    def _instants(self, table: ShownTable, query: Mapping[str, str]) -> dict[str, Any]:
        choose = instants.archived_page if _flag(query, "archived") else instants.active_page
        limit, before = parse_limit(query.get("limit")), parse_before(query.get("before"))
        out = choose(table, self.summaries, limit, before)
        for item in (*out["instants"], *out["older_pending"], *out["waiting"]):
            self._link(item)
        for item in out["instants"]:
            item["outside"] = self._is_outside(item)
        return out

    def _instant(self, table: ShownTable, time: str, query: Mapping[str, str]) -> dict[str, Any] | None:
        choose = details.archived_details if _flag(query, "archived") else details.active_details
        out = choose(table, self.summaries, time, query.get("action"))
        if out is None:
            return None
        self._link(out)
        return {"table": table.to_dict(), **out, "outside": self._is_outside(out)}

    def _is_outside(self, item: Mapping[str, Any]) -> bool:
        """Is it a commit of rows that no task made, where tables are Airflow's?"""
        known = item.get("instant") and "run" in item and not item.get("service")
        done = item.get("status", "completed") == "completed"
        return self.airflow is not None and bool(known) and done and item["run"] is None

    def _link(self, item: dict[str, Any]) -> None:
        """Add where Airflow shows the run; its task, where the commit does not name the run. Also the runs of
        what a rollback took back, and of those that a job waits for.
        """
        for other in ("writer", "taken_back"):
            if item.get(other):
                self._link(item[other])
        for holder in item.get("for", ()):
            self._link(holder)
        run = item.get("run")
        if not run or self.airflow is None:
            return
        place = f"{self.airflow}/dags/{quote(run['dag_id'], safe='')}"
        if run["run_id"]:
            place += f"/runs/{quote(run['run_id'], safe='')}"
        place += f"/tasks/{quote(run['task_id'], safe='')}"
        if run["run_id"] and run["map_index"] >= 0:
            place += f"/mapped/{run['map_index']}"
        item["run"] = {**run, "href": place}


@functools.cache
def _static(name: str) -> bytes:
    return (importlib.resources.files("hoodie.serve") / "static" / name).read_bytes()


def _flag(query: Mapping[str, str], name: str, default: bool = False) -> bool:
    text = query.get(name, str(default).lower())
    if text not in ("true", "false"):
        raise ConfigError(f"{name}={text!r}; use true or false", **{name: text})
    return text == "true"


def _failed(error: Mapping[str, Any], status: int) -> Reply:
    return Reply.of({"error": error}, status)
