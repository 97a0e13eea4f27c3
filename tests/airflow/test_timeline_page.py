"""The timeline page in Airflow: who may see it, and how it looks in Airflow's own pages, in Chromium.

Airflow's address has a path of its own, so that no link of the page may forget it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from airflow_hoodie.assets.hoodie import asset_uri
from hoodie.errors import ConfigError
from hoodie.serve import page as page_module
from hoodie.serve.page import HEADERS
from hoodie.serve.tables import allow_list
from hoodie.timeline.tokens import RUN_KEY
from tests.airflow.api_server import ApiServer, Signing, serve, serve_here, sign_in
from tests.airflow.timelines import WrittenTimeline
from tests.security.corpus import CASES
from tests.security.pages import NAMES, PAGES, forge
from tests.support.browser import Browser
from tests.support.tiers import full_but

SUB_PATH = "/airflow"
FRAME = "document.querySelector('iframe').contentDocument"
ROUTE = "plugin/hoodie-timeline"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> WrittenTimeline:
    written = WrittenTimeline.create(tmp_path_factory.mktemp("lake"))
    for number in range(3):
        written.commit(extra={RUN_KEY: f"hourly/upsert/-1/run=run_{number}"})
    return written


@pytest.fixture(scope="module")
def api_server(
    airflow_db: None, table: WrittenTimeline, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    with serve(tmp_path_factory.mktemp("airflow"), {"orders": table.path}, SUB_PATH) as made:
        yield made


@pytest.fixture(params=["here", pytest.param("api-server", marks=pytest.mark.full)])
def server(
    request: pytest.FixtureRequest, airflow_db: None, table: WrittenTimeline, tmp_path: Path
) -> Iterator[Signing]:
    """Airflow's own signing in, with the page and, in the API server, with all else that Airflow has."""
    if request.param == "api-server":
        yield request.getfixturevalue("api_server")
    else:
        with serve_here(tmp_path, {"orders": table.path}, SUB_PATH) as made:
            yield made


def test_nobody_is_served_without_signing_in(server: Signing) -> None:
    for path in ("tables", "tables/orders/instants", "page.js", "page.css", "icon.svg", "nothing"):
        status, headers, body = server.get(f"hoodie/{path}")
        assert (status, b"orders" in body) == (401, False), path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert server.get(f"hoodie/{path}", token="forged")[0] == 403
    status, headers, _ = server.get("hoodie/?table=orders")
    assert status == 307
    assert headers["Location"].startswith(f"{SUB_PATH}/api/v2/auth/login?next=http")
    status, headers, _ = server.get(headers["Location"].removeprefix(f"{SUB_PATH}/"))
    assert status == 307, "Airflow takes the page's address as the one to come back to"
    assert "hoodie" in headers["Location"]


def test_who_signed_in_sees_the_list_and_nothing_else(server: Signing, table: WrittenTimeline) -> None:
    token = server.token()
    status, headers, body = server.get("hoodie/tables", token)
    assert (status, [item["name"] for item in json.loads(body)["tables"]]) == (200, ["orders"])
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, _, body = server.get("hoodie/tables/orders/instants?limit=2", token)
    page = json.loads(body)
    assert [item["instant"] for item in page["instants"]] == table.commits[1:]
    assert page["instants"][1]["run"]["href"] == f"{SUB_PATH}/dags/hourly/runs/run_2/tasks/upsert"
    for path in ("tables/other/instants", "tables/..%2f..%2fetc/instants", "../etc/passwd", "api_server.py"):
        status, _, body = server.get(f"hoodie/{path}", token)
        assert (status, b"root:" in body) == (404, False), path
    assert server.get("hoodie/tables/orders/instants?limit=x", token)[0] == 400


def test_airflow_takes_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow import plugins_manager
    from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse, FastAPIAppResponse

    from airflow_hoodie.plugins.timeline import HoodieTimelinePlugin

    monkeypatch.setattr(plugins_manager, "_get_plugins", lambda: ([HoodieTimelinePlugin], {}))
    [view], _ = plugins_manager._get_ui_plugins.__wrapped__()
    assert ExternalViewResponse.model_validate(view).destination == "nav"
    [served], _ = plugins_manager.get_fastapi_plugins.__wrapped__()
    assert FastAPIAppResponse.model_validate({**served, "app": str(served["app"])}).url_prefix == "/hoodie"


def test_the_page_asks_airflows_api_for_runs_of_producers(server: Signing, table: WrittenTimeline) -> None:
    """Where the API is, by what URI it knows a table, and that it takes what the page (producers.js) asks."""
    from airflow.api_fastapi.core_api.datamodels.assets import AssetResponse
    from airflow.api_fastapi.core_api.datamodels.task_instances import TaskInstanceResponse
    from airflow.api_fastapi.core_api.routes.public.assets import assets_router
    from airflow.api_fastapi.core_api.routes.public.task_instances import task_instances_router
    from fastapi.dependencies.utils import get_flat_params

    status, _, body = server.get("hoodie/tables?open=false", server.token())
    listed = json.loads(body)
    assert (status, listed["api"]) == (200, f"{SUB_PATH}/api/v2")
    assert [item["asset"] for item in listed["tables"]] == [asset_uri(table.path)]
    script = Path(page_module.__file__).with_name("static").joinpath("producers.js").read_text()
    for router, path, names in (
        (assets_router, "/assets", {"uri_prefix_pattern", "limit", "offset"}),
        (
            task_instances_router,
            "/taskInstances",
            {"state", "task_id", "start_date_gte", "order_by", "limit"},
        ),
    ):
        [route] = [
            item
            for item in router.routes
            if getattr(item, "path", "").endswith(path) and "GET" in getattr(item, "methods", ())
        ]
        taken = {param.alias for param in get_flat_params(route.dependant)}  # type: ignore[attr-defined]
        assert names <= taken
        assert all(name in script for name in names)
    assert {"uri", "producing_tasks"} <= set(AssetResponse.model_fields)
    read = {"dag_id", "task_id", "dag_run_id", "map_index", "state", "start_date", "end_date"}
    assert read <= {field.alias or name for name, field in TaskInstanceResponse.model_fields.items()}


def test_the_dag_that_a_button_triggers(
    server: Signing, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """None, unless one is configured; and Airflow's API takes what the page (repair.js) posts."""
    from airflow.api_fastapi.core_api.datamodels.dag_run import DAGRunResponse, TriggerDAGRunPostBody
    from airflow.api_fastapi.core_api.routes.public.dag_run import dag_run_router

    def listed() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(server.get("hoodie/tables?open=false", server.token())[2])
        return found

    assert listed()["maintenance"] == ""
    if "here" in request.node.callspec.id:
        monkeypatch.setenv("AIRFLOW__HOODIE__MAINTENANCE_DAG", " care ")
        assert listed()["maintenance"] == "care"
    script = Path(page_module.__file__).with_name("static").joinpath("repair.js").read_text()
    assert "{ logical_date: null, conf }" in script
    conf = {"hoodie_table": {"name": "orders", "path": "/data/orders"}}
    assert TriggerDAGRunPostBody.model_validate({"logical_date": None, "conf": conf}).conf == conf
    assert {"dag_run_id", "state"} <= {
        field.alias or name for name, field in DAGRunResponse.model_fields.items()
    }
    assert [
        item
        for item in dag_run_router.routes
        if getattr(item, "path", "").endswith("/dags/{dag_id}/dagRuns")
        and "POST" in getattr(item, "methods", ())
    ]


CARE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, task

    with DAG("care", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        @task
        def look(): ...
        look()
"""


@pytest.mark.full
def test_a_button_triggers_the_maintenance_dag(
    browser: Browser,
    airflow_db: None,
    load_dag: Callable[[str], Any],
    publish: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In Airflow's own API server, by the session of who looks: a run with the table as its conf."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    publish(load_dag(CARE))
    failing = WrittenTimeline.create(tmp_path)
    failing.commit()
    failing.begin()
    monkeypatch.setenv("AIRFLOW__HOODIE__MAINTENANCE_DAG", "care")
    (tmp_path / "airflow").mkdir()
    with serve(tmp_path / "airflow", {"orders": failing.path}, SUB_PATH) as server:
        sign_in(browser, server)
        browser.open(f"{server.url}hoodie/?table=orders")
        browser.until("document.querySelector('[data-maintain]')")
        browser.run("document.querySelector('[data-tile=failures]').open = true")
        browser.click("[data-maintain]")
        browser.click("[data-yes]")
        browser.until("document.querySelector('.maintenance a')")
        href = browser.run("document.querySelector('.maintenance a').getAttribute('href')")
    with create_session() as session:
        [run] = session.scalars(select(DagRun).where(DagRun.dag_id == "care")).all()
    assert run.conf == {"hoodie_table": {"name": "orders", "path": failing.path}}
    assert unquote(href) == f"{SUB_PATH}/dags/care/runs/{run.run_id}"


@pytest.mark.full
def test_airflow_lists_the_plugin(api_server: ApiServer) -> None:
    status, _, body = api_server.get("api/v2/plugins", api_server.token())
    assert status == 200
    [plugin] = [item for item in json.loads(body)["plugins"] if item["name"] == "hoodie_timeline"]
    assert [view["destination"] for view in plugin["external_views"]] == ["nav"]
    assert [item["url_prefix"] for item in plugin["fastapi_apps"]] == ["/hoodie"]


@pytest.mark.full
def test_in_airflows_own_pages(browser: Browser, api_server: ApiServer, table: WrittenTimeline) -> None:
    sign_in(browser, api_server)
    browser.until("document.querySelector('nav')?.innerText.includes('Browse') "
                  "|| document.body.innerText.includes('Browse')")  # fmt: skip
    browser.run("localStorage.setItem('theme', 'dark')")
    first = table.commits[0]
    browser.open(f"{api_server.url}{ROUTE}/{SUB_PATH[1:]}/hoodie/?table={table.path}&instant={first}")
    browser.until(f"{FRAME}?.querySelectorAll('.mark').length === 3")
    browser.until(f"{FRAME}.querySelector('#details h2')")
    assert browser.run(f"{FRAME}.querySelector('#details h2').innerText").endswith(first)
    back = f"getComputedStyle({FRAME}.body).backgroundColor"
    browser.until(f"{back} === 'rgb(17, 20, 24)'")
    ours = [url for url in browser.requests if "/hoodie/" in url and ROUTE not in url]
    assert len(ours) >= 8
    assert all(url.startswith(f"{api_server.url}hoodie/") for url in ours)
    own = [error for error in browser.errors if "/hoodie/" in error or "Content Security" in error]
    assert own == []
    browser.run(f"{FRAME}.querySelector('#details a').click()")
    browser.until("location.pathname.endsWith('/dags/hourly/runs/run_0/tasks/upsert')")


@pytest.mark.full
def test_the_page_comes_back_after_signing_in(browser: Browser, api_server: ApiServer) -> None:
    sign_in(browser, api_server, "hoodie/?table=orders")
    browser.until("location.pathname.endsWith('/hoodie/') && document.querySelectorAll('.mark').length === 3")
    assert browser.run("new URLSearchParams(location.search).get('table')") == "orders"


@pytest.mark.full
def test_the_menu_leads_to_it(browser: Browser, api_server: ApiServer) -> None:
    sign_in(browser, api_server)
    browse = (
        "[...document.querySelectorAll('nav button, button, a')].find((e) => e.innerText.trim() === 'Browse')"
    )
    browser.until(browse)
    browser.run(f"{browse}.setAttribute('data-test', 'browse')")
    browser.click("[data-test=browse]")
    entry = "[...document.querySelectorAll('a')].find((e) => e.innerText.trim() === 'Hoodie timeline')"
    browser.until(entry)
    browser.until(f"{entry}.querySelector('img')?.naturalWidth > 0")
    browser.run(f"{entry}.click()")
    browser.until(f"{FRAME}?.querySelectorAll('.mark').length === 3")


def test_the_right_to_read_assets_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.api_fastapi.core_api import security
    from fastapi.testclient import TestClient

    from airflow_hoodie.plugins.timeline_app import app

    asked: list[str] = []

    def refuse(*, method: str, **details: Any) -> bool:
        asked.append(method)
        return False

    monkeypatch.setattr(security, "get_auth_manager", lambda: SimpleNamespace(is_authorized_asset=refuse))
    monkeypatch.setitem(app.dependency_overrides, security.get_user, lambda: SimpleNamespace())
    with TestClient(app) as client:
        assert client.get("/").status_code == client.get("/tables").status_code == 403
    assert asked == ["GET", "GET"]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The app, for somebody who may see it."""
    from airflow.api_fastapi.core_api import security
    from fastapi.testclient import TestClient

    from airflow_hoodie.plugins.timeline_app import app

    manager = SimpleNamespace(is_authorized_asset=lambda **_: True)
    monkeypatch.setattr(security, "get_auth_manager", lambda: manager)
    monkeypatch.setitem(app.dependency_overrides, security.get_user, lambda: SimpleNamespace())
    with TestClient(app) as made:
        yield made


@pytest.mark.parametrize("step", full_but({6}, [6, 1]))
def test_malicious_tables(step: int, client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As `hoodie serve` answers (tests/security/test_served.py): strict JSON of the table asked for."""
    others = [name for name in CASES if name.startswith(("a pipe", "a version", "a linked", "absolute"))]
    lakes, secret = forge(tmp_path, [*PAGES, *others][::step])
    listed = {NAMES[name]: f"{path}/table" for name, path in lakes.items()}
    monkeypatch.setenv("AIRFLOW__HOODIE__TABLES", json.dumps(listed))

    def ask(path: str) -> Any:
        answer = client.get(path)
        document = json.loads(answer.text, parse_constant=lambda text: pytest.fail(f"{path} has {text}"))
        assert (answer.status_code, path) == (answer.status_code % 500, path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert [text for text in secret if text in answer.text] == [], path
        return document

    assert len(ask("/tables")["tables"]) == len(lakes)
    for name in listed:
        for archived in ("false", "true"):
            page = ask(f"/tables/{name}/instants?archived={archived}")
            for item in page.get("instants", ()):
                query = f"action={item['action']}&archived={archived}"
                ask(f"/tables/{name}/instants/{item['instant']}?{query}")
    answer = client.post("/tables")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "refused")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[1]", r"tables is \[1\]; write such as"),
        ('{"a": 1}', "has the path 1"),
        ('{"a/b": "/x"}', "table name 'a/b'"),
    ],
)
def test_a_wrong_list(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_hoodie.plugins.timeline_app import listed_tables, page

    monkeypatch.setenv("AIRFLOW__HOODIE__TABLES", text)
    with pytest.raises(ConfigError, match=message):
        listed_tables()
    assert page.get("tables").status == 400


def test_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_hoodie.plugins.timeline_app import listed_tables

    monkeypatch.delenv("AIRFLOW__HOODIE__TABLES", raising=False)
    assert listed_tables() == {}
    monkeypatch.setenv("AIRFLOW__HOODIE__TABLES", '{"orders": "file:/data/orders/"}')
    assert listed_tables() == {"orders": "/data/orders"}


def test_tables_of_assets(
    load_dag: Callable[[str], Any], publish: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_hoodie.plugins.timeline_app import listed_tables

    dag = """
        from datetime import datetime, timezone
        from airflow.sdk import DAG, Asset, task
        from airflow_hoodie import HoodieTable

        orders = HoodieTable(name="orders", path="/shown/eu/or ders", record_keys="id")
        others = [orders.partitions, Asset("hoodie://s3/bucket/t"), Asset("hoodie://file/shown/listed")]
        begin = datetime(2026, 1, 1, tzinfo=timezone.utc)
        with DAG("page_assets", schedule=[orders.asset], start_date=begin):
            @task(outlets=others)
            def seen(): ...
            seen()
    """
    publish(load_dag(dag))
    monkeypatch.setenv("AIRFLOW__HOODIE__TABLES", '{"mine": "/shown/listed"}')
    assert listed_tables() == {"mine": "/shown/listed"}
    monkeypatch.setenv("AIRFLOW__HOODIE__TABLES_OF_ASSETS", "True")
    found = {name: path for name, path in listed_tables().items() if path.startswith("/shown/")}
    assert found == {"mine": "/shown/listed", "or_ders": "/shown/eu/or ders"}


def test_names_of_tables_of_assets() -> None:
    from airflow_hoodie.plugins.timeline_app import named

    assert named({"/lake/eu/orders", "/lake/us/orders", "/a/items", "/x"}, taken={"x"}) == {
        "items": "/a/items",
        "eu.orders": "/lake/eu/orders",
        "us.orders": "/lake/us/orders",
        "x.3": "/x",
    }
    for paths in (
        {"/t", "/a/t", "/b/a/t", "/a.t"},
        {"/...", "/", "/a/..."},
        {f"/{'x' * 200}/{n}" for n in range(3)} | {f"/{'y' * 200}{n}" for n in range(30)},
        {"/t", "/t.0", "/t.1", "/t.2", "/a.t", "/a/t", "/a.t.3"},
    ):
        names = named(paths, taken={"t.1"})
        assert set(names.values()) == paths
        assert allow_list(names) == names


def test_names_of_many_tables_are_found_in_one_pass() -> None:
    """Looked at is each name that a path may have, once: not each path for each path."""
    from airflow_hoodie.plugins import timeline_app

    class Counted(str):
        compared = 0

        def rsplit(self, *arguments: Any) -> Any:
            Counted.compared += 1
            return super().rsplit(*arguments)

        def strip(self, *arguments: Any) -> Counted:
            return Counted(super().strip(*arguments))

    deep = "/".join("d" * 2 for _ in range(100))
    paths = {Counted(f"/lake/{number % 7}/{deep}/t{number}/x") for number in range(2000)}
    names = timeline_app.named(paths, taken=())
    assert (len(names), Counted.compared) == (2000, 2000)
    assert sum(len(timeline_app._tails(path)) for path in paths) < 2000 * 50


#: an Airflow that is the base of plugins and nothing else
BASE = """
import sys, types
base = "airflow.providers.common.compat.sdk"
parts = base.split(".")
for end in range(len(parts)):
    name = ".".join(parts[:end + 1])
    sys.modules[name] = types.ModuleType(name)
sys.modules[base].AirflowPlugin = object
"""


@pytest.mark.parametrize(
    "base",
    [
        pytest.param(BASE, id="its base alone"),
        pytest.param("import sys", marks=pytest.mark.full, id="with Airflow"),
    ],
)
def test_the_plugin_costs_a_task_nothing(base: str) -> None:
    """Every process imports the plugin's module: no web framework comes with it."""
    import subprocess

    code = f"{base}\nfrom airflow_hoodie.plugins import timeline; print('fastapi' in sys.modules)"
    path = ["-c", code]
    run = subprocess.run([sys.executable, *path], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert run.stdout.split()[-1] == "False"
