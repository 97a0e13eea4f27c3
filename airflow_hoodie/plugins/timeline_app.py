"""The timeline page in Airflow's API server: hoodie.serve's answers, for users who may read assets.

Which tables: the option `tables` in Airflow's section `[hoodie]`, a JSON object of names and paths, and with
`tables_of_assets` those of all assets that DAGs declare. In place of a path there may be an object of `path`
and `hoodie_conn_id`, a connection whose warehouse and storage the table has. Nothing else can be named by a
request. Who is not signed in gets 401, and for the page itself Airflow's sign-in; a user who may not read
assets gets 403.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from airflow.api_fastapi.core_api.security import requires_access_asset
from airflow.configuration import conf
from airflow.models.asset import AssetModel
from airflow.utils.session import create_session
from fastapi import Depends, FastAPI, Request, Response, status
from fastapi.responses import JSONResponse, RedirectResponse
from sqlalchemy import select
from starlette.exceptions import HTTPException

from airflow_hoodie.assets.hoodie import SCHEME, asset_uri, table_folder
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.hooks.hoodie import located, resolved_path
from hoodie.errors import ConfigError
from hoodie.serve.page import HEADERS, Page
from hoodie.serve.tables import allow_list

_UNFIT = re.compile(r"[^\w.-]")
#: of a table's name
_LONGEST = 100
SECTION, OPTION, ASSETS = "hoodie", "tables", "tables_of_assets"
MAINTENANCE = "maintenance_dag"


def listed_tables() -> dict[str, str]:
    """The allow-list. Raises ConfigError."""
    given = configured_tables()
    if not conf.getboolean(SECTION, ASSETS, fallback=False):
        return given
    return {**named(asset_paths() - set(given.values()), taken=set(given)), **given}


def asset_paths() -> set[str]:
    """Folders of the tables of Airflow's assets, on file systems."""
    with create_session() as session:
        uris = session.scalars(select(AssetModel.uri).where(AssetModel.uri.like(f"{SCHEME}://%"))).all()
    paths = {table_folder(uri) for uri in uris}
    return {path for path in paths if path is not None}


def named(paths: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """A name for each path: its last folder, and as many of those above as it takes to be the only one."""
    tails = {path: _tails(path) for path in sorted(paths)}
    uses = Counter(tail for own in tails.values() for tail in own)
    out: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for path, own in tails.items():
        free = (tail for tail in own if uses[tail] == 1 and tail not in taken and tail not in out)
        name = next(free, "")
        if not name:
            stem = own[-1][: _LONGEST - 10]
            number = max(len(out), numbers.get(stem, 0))
            while (name := f"{stem}.{number}") in taken or name in out:
                number += 1
            numbers[stem] = number
        out[name] = path
    return out


def _tails(path: str) -> list[str]:
    """Names for a path, shortest first, of its last folder and more and more of those above."""
    parts = path.strip("/").rsplit("/", _LONGEST // 2)  # more would be too long a name
    last, *above = [_UNFIT.sub("_", part) for part in reversed(parts)]
    found = [last[:_LONGEST] if last.strip(".") else f"_{last[1:_LONGEST]}"]
    for part in above:
        tail = f"{part}.{found[-1]}"
        if len(tail) > _LONGEST:
            break
        found.append(tail)
    return found


def configured_tables() -> dict[str, str]:
    """Those that Airflow's configuration names. Raises ConfigError."""
    return allow_list({name: _found(resolved_path, value) for name, value in _configured().items()})


def storage_of(name: str) -> Mapping[str, str]:
    """Settings of the storage of a table on the list. Raises ConfigError."""
    value = _configured().get(name)
    return _found(located, value)[1] if isinstance(value, Mapping) else {}


def _configured() -> Mapping[str, Any]:
    text = conf.get(SECTION, OPTION, fallback="") or "{}"
    try:
        tables = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f'[{SECTION}] {OPTION} is no JSON ({error}); write such as {{"orders": "/data/orders"}}'
        ) from None
    if not isinstance(tables, Mapping):
        raise ConfigError(f'[{SECTION}] {OPTION} is {text[:80]}; write such as {{"orders": "/data/orders"}}')
    return tables


def _found(what: Callable[[Any], Any], value: Any) -> Any:
    """What is asked of a table as the configuration has it; a path is itself. Raises ConfigError."""
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"path", "hoodie_conn_id"}:
        raise ConfigError(
            f"[{SECTION}] {OPTION}: a table has {', '.join(map(repr, sorted(value)))}; give its path, or "
            "path and hoodie_conn_id"
        )
    try:
        return what(value)
    except HoodieConfigurationError as error:
        raise ConfigError(error.message) from None


def maintenance_dag() -> str:
    """Id of the DAG that a button of the page triggers; "" for none."""
    return (conf.get(SECTION, MAINTENANCE, fallback="") or "").strip()


def base_path() -> str:
    """Path of Airflow's own pages, without a trailing slash."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


app = FastAPI(title="Hoodie timeline", docs_url=None, redoc_url=None, openapi_url=None)
page = Page(listed_tables, base_path(), options=storage_of, asset=asset_uri, maintenance=maintenance_dag)


@app.get("/{path:path}", dependencies=[Depends(requires_access_asset("GET"))])
def answer(path: str, request: Request) -> Response:
    """The page's answer; in a thread, as it reads files."""
    reply = page.get(quote(path), request.url.query)
    return Response(reply.body, reply.status, dict(reply.headers), media_type=reply.content_type)


@app.exception_handler(HTTPException)
async def refused(request: Request, error: HTTPException) -> Response:
    """People who open the page are sent to sign in; scripts get the status."""
    if error.status_code == status.HTTP_401_UNAUTHORIZED and request.url.path.endswith("/"):
        query = urlencode({"next": str(request.url)})
        return RedirectResponse(
            f"{base_path()}/api/v2/auth/login?{query}",
            status.HTTP_307_TEMPORARY_REDIRECT,
            headers=dict(HEADERS),
        )
    document = {"error": {"code": "refused", "message": str(error.detail)}}
    return JSONResponse(document, error.status_code, {**HEADERS, **(error.headers or {})})
