"""Wrong, missing, expired and limited keys on every address, and hostile names in everything that is shown."""

from __future__ import annotations

import hashlib
import json
import random
import secrets
from itertools import product
from typing import Any

from tests.reliability.harness import Outcome
from tests.reliability.http_fuzz import damaged
from tests.reliability.http_server import MODELS, Server, serving

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\"'`;--",
    "&lt;b&gt;&#60;",
    "\u202eabc\u2066",
    "a\u0000b",
    "\u0085\u2028\u2029",
    "{{7*7}}${7*7}%s%n",
    "\x1b[31mred\x1b[0m",
    "=1+1",
    "a" * 5000,
    "\ud83d\udca9" * 50,
    "__proto__",
    "../../etc/passwd",
    "a\r\nset-cookie: x=1",
    "]]>",
    "javascript:alert(1)",
)
"""Names and labels that somebody may send."""
MARKUP = b"<img src=x onerror", b"</script><script>alert", b"\x1b[31m"
"""What no page may have as it was sent."""
ROUTES: tuple[tuple[str, str, str, str], ...] = (
    ("GET", "/v1/models/sales", "read", ""),
    ("GET", "/v1/models/sales/explain", "read", ""),
    ("GET", "/v1/models/sales/journal", "read", ""),
    ("GET", "/v1/models/sales/trace", "read", ""),
    ("GET", "/v1/models/sales/columns", "read", ""),
    ("GET", "/v1/models/sales/report", "read", ""),
    ("GET", "/v1/models/sales/page", "read", ""),
    ("GET", "/v1/models/sales/state", "read", ""),
    ("POST", "/v1/models/sales/predict", "predict", '{"rows": [{"price": 1, "city": "a", "new": null, "day": null}]}'),
    ("POST", "/v1/models/sales/learn", "learn", "{}"),
    ("POST", "/v1/models/sales/label", "learn", '{"labels": {"a": "yes"}}'),
    ("POST", "/v1/models/sales/orders", "operate", '{"kind": "unpin"}'),
    ("GET", "/v2/models/sales", "predict", ""),
    ("GET", "/v2/models/sales/ready", "predict", ""),
    ("POST", "/v2/models/sales/infer", "predict", "{}"),
)
"""Method, address, scope and body of what a key can be needed for, as the documentation says."""
SCOPES = "predict", "learn", "read", "operate", "admin"


def keys(scale: float, seed: int, damages: int | None = None) -> Outcome:
    """Ask for every address with every kind of key; then with damaged keys; then show hostile names."""
    outcome = Outcome("keys and hostile names", seed)
    given = {name: "ds_" + secrets.token_urlsafe(32) for name in (*SCOPES, "others", "expired")}
    lines = []
    for name, secret in given.items():
        scopes = [name] if name in SCOPES else list(SCOPES[:4])
        models = '["delays", "sale"]' if name == "others" else '["sal*"]'
        lines.append(
            f'[[keys]]\nname = "{name}"\nsha256 = "{hashlib.sha256(secret.encode()).hexdigest()}"\n'
            f"scopes = {json.dumps(scopes)}\nmodels = {models}\n" + "expires = 2020-01-01\n" * (name == "expired")
        )
    with serving(models=MODELS + "\n".join(lines), key=given["admin"]) as server:
        for (method, path, scope, body), name in product(ROUTES, ("", "wrong", *given)):
            server.key = given.get(name, name)
            status, _, answer = server.ask(method, path, body or None)
            wanted = _wanted(scope, name)
            good = status == wanted if wanted else status not in (401, 403, 404) and status < 500
            outcome.count(f"{status // 100}xx")
            outcome.check(good, {"path": path, "key": name, "status": status, "wanted": wanted, "answer": answer})
        chance = random.Random(seed)
        count = round(20_000 * scale) if damages is None else damages
        for _ in range(count):
            right = given["read"].encode()
            _check_damaged(outcome, server, damaged(right, chance), right)
        server.key = given["admin"]
        text = server.log.read_text()
        leaked = [name for name, secret in given.items() if secret in text]
        outcome.check(not leaked, {"secrets in the log": leaked})
        outcome.check(server.alive() and not server.tracebacks(), {"alive": server.alive()})
    with serving() as server:
        _check_names(outcome, server)
    return outcome


def _wanted(scope: str, name: str) -> int:
    """Return the status that a request must have, and 0 if it is allowed."""
    if name in ("", "wrong", "expired"):
        return 401
    if name == "others":
        return 404
    return 0 if name in ("admin", scope) else 403


def _check_damaged(outcome: Outcome, server: Server, secret: bytes, right: bytes) -> None:
    """Ask with a key that is nearly right, as a header or as a login."""
    header = secret.translate(None, b"\r\n\x00")
    request = (
        b"GET /v1/models/sales HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer %b\r\n\r\n" % header
    )
    answer = server.raw(request)
    status = int(answer[9:12]) if answer else 0
    wanted = (200,) if header.strip() == right else (400, 401, 431)
    outcome.count("damaged keys")
    outcome.check(status in wanted, {"request": request, "answer": answer[:300]})


def _check_names(outcome: Outcome, server: Server) -> None:
    """Let a model learn rows with hostile names, labels and ids; look at everything that is shown of it."""
    taken = _accepted(outcome, server)
    outcome.figures["hostile names taken"] = len(taken)
    labels = [name[:200] for name in HOSTILE if "\0" not in name]
    chance, rows = random.Random(0), []
    for number in range(2000):
        first = chance.gauss(0, 1)
        label = labels[(first > 0) ^ (number > 1000)]  # a drift, which is told on the page
        rows.append({name: first + chance.gauss(0, 1) for name in taken} | {taken[0]: first, "label": label})
    body = json.dumps({"rows": rows + [rows[0] | {"label": label} for label in labels]})
    for what in ("learn", "learn", "predict"):  # the columns are known from the first time on
        status, _, answer = server.ask("POST", f"/v1/models/fresh/{what}", body, {"content-type": "application/json"})
        outcome.check(status == 200, {"what": what, "status": status, "answer": answer[:1000]})
        server.wait_applied("fresh")
    order = json.dumps({"kind": "challenge", "model": HOSTILE[0], "options": {"model": "oblivious"}})
    status, _, answer = server.ask("POST", "/v1/models/fresh/orders", order)
    outcome.check(status in (200, 409, 422), {"status": status, "answer": answer[:1000]})
    for what in ("", "/explain", "/journal", "/trace", "/columns", "/report", "/page", "/state"):
        status, headers, answer = server.ask("GET", f"/v1/models/fresh{what}")
        shown = headers["content-type"].startswith("text/html")
        bad = [one for one in MARKUP if shown and one in answer]
        if what == "/page":  # its parts are HTML, which the live page inserts
            bad = [one for one in MARKUP if one in json.dumps(_html(json.loads(answer)), ensure_ascii=False).encode()]
        outcome.check(status in (200, 409) and not bad, {"what": what, "status": status, "found": bad})
    for path in ("/metrics", "/v1/models", "/v2/models/fresh"):
        status, _, answer = server.ask("GET", path)
        outcome.check(status == 200 and b"\x1b[31m" not in answer, {"path": path, "status": status})
    outcome.check(server.alive() and not (traces := server.tracebacks()), {"traces": traces if traces else ""})
    outcome.check("\x1b[31m" not in server.log.read_text(), {"the log": "has an escape sequence"})


def _html(value: Any) -> Any:
    """Return the texts of a value that are HTML: those that begin with an element."""
    if isinstance(value, dict):
        return [_html(one) for one in value.values()]
    if isinstance(value, list):
        return [_html(one) for one in value]
    return value if isinstance(value, str) and value.lstrip().startswith("<") and value not in HOSTILE else ""


def _accepted(outcome: Outcome, server: Server) -> list[str]:
    """Return the hostile names that a model takes as columns; the others are refused with a reason."""
    taken = []
    for name in HOSTILE:
        # Rows without ids are not kept, so that they do not decide the columns of the model.
        status, _, answer = server.ask("POST", "/v1/models/fresh/predict", json.dumps({"rows": [{name: 1.0}]}))
        outcome.check(status in (200, 422), {"name": name, "status": status, "answer": answer[:500]})
        if status == 200:
            taken.append(name)
    return taken
