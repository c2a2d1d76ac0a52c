"""Addresses of the live page: its document, its style and its scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from driftsurf.errors.visible import visible
from driftsurf.report import html
from driftsurf.service.http.app import App, Page
from driftsurf.service.http.requests import HttpRequest, Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page loads its own scripts and asks its own service, and nothing else."""
MEDIA = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


def _document() -> str:
    """Return the document, which the script fills."""
    text = files("driftsurf.service.page").joinpath("live.html").read_text(encoding="utf-8")
    for mark, part in (
        ("ICON", html.icon()),
        ("BRAND", html.brand()),
        ("TOOLBAR", html.asset("toolbar.html").rstrip()),
    ):
        text = text.replace(f"<!--{mark}-->", part)
    return visible(text, lines=True)


def _assets() -> Mapping[str, str]:
    own = files("driftsurf.service.page")
    return {
        "/live.css": html.STYLE + html.look() + own.joinpath("live.css").read_text(encoding="utf-8"),
        "/live.js": own.joinpath("live.js").read_text(encoding="utf-8"),
        "/page.js": html.asset("page.js"),
    }


async def _page(app: App, request: HttpRequest) -> Response:
    """Show the live page. It holds no data, so that it needs no key; its script asks for one."""
    headers = {"content-security-policy": POLICY, "referrer-policy": "no-referrer", "x-frame-options": "DENY"}
    return Response(_document().encode(), "text/html; charset=utf-8", 200, headers)


async def _asset(app: App, request: HttpRequest) -> Response:
    """Send a style or a script."""
    body = _assets()[request.path].encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    media = MEDIA[request.path[request.path.rindex(".") :]]
    if request.headers.get("if-none-match") == tag:
        return Response(b"", media, 304, {"etag": tag})
    return Response(body, media, 200, {"etag": tag})


PAGES: Final[Mapping[str, Page]] = {"/": _page, "/live.css": _asset, "/live.js": _asset, "/page.js": _asset}
"""What answers each address of the page."""
