"""Plugin that puts the timeline page into Airflow: the app at `/hoodie/`, and its place in the menu Browse.

Every process that loads plugins imports this module, so it imports nothing but Airflow's plugin base; the
API server loads the page itself at the first request.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

PREFIX = "/hoodie"


class PageApp:
    """ASGI application: airflow_hoodie.plugins.timeline_app, imported when it is first asked."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from airflow_hoodie.plugins.timeline_app import app

        await app(scope, receive, send)


class HoodieTimelinePlugin(AirflowPlugin):
    # Airflow declares them as plain lists. Addresses are relative to Airflow's base, which may be a sub-path
    name = "hoodie_timeline"
    fastapi_apps = [{"app": PageApp(), "url_prefix": PREFIX, "name": "Hoodie timeline"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Hoodie timeline",
            "href": "hoodie/",
            "destination": "nav",
            "category": "browse",
            "url_route": "hoodie-timeline",
            "icon": "hoodie/icon.svg",
            "icon_dark_mode": "hoodie/icon-dark.svg",
        }
    ]
