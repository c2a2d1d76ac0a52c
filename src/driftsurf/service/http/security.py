"""Keys with scopes, sessions of the page, and where requests may come from."""

from __future__ import annotations

import datetime
import fnmatch
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, Literal, TypeAlias, get_args

from driftsurf.errors import Option, OptionError
from driftsurf.runs.prometheus import names_this_machine
from driftsurf.service.http.problems import HttpProblem

KeyScope: TypeAlias = Literal["predict", "learn", "read", "operate", "admin"]
SCOPES: Final[tuple[KeyScope, ...]] = get_args(KeyScope)
ALLOWED: Final[Mapping[KeyScope, str]] = {
    "predict": "predicts rows",
    "learn": "gives rows with labels, and labels of predicted rows",
    "read": "sees the state, journal, report, live page and metrics",
    "operate": "gives orders, such as rollback",
    "admin": "everything, for all models",
}
"""What each scope allows."""
COOKIE = "driftsurf"
SESSION_SECONDS = 12 * 3600
MOST_SESSIONS = 1000


class TokenBucket:
    """Allows ``rate`` requests a second in the long run, and ``burst`` at once.

    Examples
    --------
    >>> now = [0.0]
    >>> bucket = TokenBucket(2.0, 1, clock=lambda: now[0])
    >>> bucket.take(), bucket.take()
    (0.0, 0.5)
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = clock
        self._left = float(burst)
        self._last = clock()

    def take(self) -> float:
        """Take one token; return 0, or the seconds after which there is one."""
        now = self.clock()
        self._left = min(float(self.burst), self._left + (now - self._last) * self.rate)
        self._last = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self.rate


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of a client, of which only the SHA-256 is kept.

    >>> key, secret = new_key("shop", ["predict", "learn"])
    >>> key.allows("predict", "sales"), key.allows("operate", "sales")
    (True, False)
    """

    name: str
    sha256: str
    """SHA-256 of the key, as 64 hexadecimal digits."""
    scopes: tuple[KeyScope, ...]
    """What it allows; "admin" allows everything."""
    models: tuple[str, ...] = ("*",)
    """Names of the models, or patterns such as "sales-*"."""
    rate: float | None = None
    """Requests a second in the long run; None for no limit."""
    burst: int = 100
    """Requests at once, where there is a rate."""
    expires: datetime.datetime | None = None

    def scopes_for(self, model: str) -> list[KeyScope]:
        """Return what the key allows with a model."""
        return [scope for scope in SCOPES if self.allows(scope, model)]

    def check(self) -> None:
        """Raise OptionError if an entry has a value that cannot be used."""
        if not self.name or len(self.name) > 100:
            raise OptionError(Option("keys"), f": a key needs a name of at most 100 characters; got {self.name!r}")
        if len(self.sha256) != 64 or not set(self.sha256) <= set("0123456789abcdef"):
            raise OptionError(
                Option("keys"),
                f": sha256 of {self.name!r} must be 64 hexadecimal digits; make a key with driftsurf serve --make-key",
            )
        unknown = [scope for scope in self.scopes if scope not in SCOPES]
        if unknown or not self.scopes:
            raise OptionError(
                Option("keys"), f": scopes of {self.name!r} are {list(self.scopes)}; choices: {', '.join(SCOPES)}"
            )
        if self.rate is not None and not self.rate > 0:
            raise OptionError(Option("keys"), f": rate of {self.name!r} must be above 0; got {self.rate!r}")
        if self.burst < 1:
            raise OptionError(Option("keys"), f": burst of {self.name!r} must be at least 1; got {self.burst!r}")

    def allows(self, scope: KeyScope, model: str | None) -> bool:
        """Return whether the key allows something, for a model or, with None, for the service."""
        if "admin" in self.scopes:
            return True
        return scope in self.scopes and (model is None or any(fnmatch.fnmatchcase(model, one) for one in self.models))


def new_key(name: str, scopes: Sequence[KeyScope]) -> tuple[ApiKey, str]:
    """Return a new random key, and its secret, which is kept nowhere."""
    secret = "ds_" + secrets.token_urlsafe(32)
    return ApiKey(name, digest_of(secret), tuple(scopes)), secret


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret, as hexadecimal digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. Without keys, everybody on this machine may do everything."""

    key: ApiKey | None = None

    @property
    def name(self) -> str:
        """Name for logs and for the journal."""
        return "" if self.key is None else self.key.name

    def allows(self, scope: KeyScope, model: str | None) -> bool:
        """Return whether the caller may do something."""
        return self.key is None or self.key.allows(scope, model)

    def scopes_for(self, model: str) -> list[KeyScope]:
        """Return what the caller may do with a model."""
        return [*SCOPES] if self.key is None else self.key.scopes_for(model)

    def sees(self, model: str) -> bool:
        """Return whether the caller may know of a model, because its key allows something with it."""
        return self.key is None or bool(self.key.scopes_for(model))

    def require(self, scope: KeyScope, model: str | None) -> None:
        """Raise HttpProblem unless the caller may do something."""
        if not self.allows(scope, model):
            about = "" if model is None else f" for the model {model!r}"
            raise HttpProblem("forbidden", f"the key {self.name!r} does not have the scope {scope!r}{about}")


EVERYBODY = Caller()


@dataclass(slots=True)
class Gate:
    """Finds out who sent a request, and refuses those of nobody, of foreign pages, and of those who send too many.

    Parameters
    ----------
    keys
        The keys; without any, only requests to this machine itself are answered.
    """

    keys: Sequence[ApiKey] = ()
    clock: Callable[[], float] = time.time
    _by_digest: dict[str, ApiKey] = field(init=False)
    _buckets: dict[str, TokenBucket] = field(init=False)
    _sessions: dict[str, tuple[str, float]] = field(init=False, default_factory=dict)
    """Digest of the key and end of each session, by the digest of its cookie."""

    def __post_init__(self) -> None:
        self._use(self.keys)

    def _use(self, keys: Sequence[ApiKey]) -> None:
        self.keys = tuple(keys)
        self._by_digest = {key.sha256: key for key in keys}
        self._buckets = {key.sha256: TokenBucket(key.rate, key.burst) for key in keys if key.rate is not None}

    def replace(self, keys: Sequence[ApiKey]) -> None:
        """Use other keys from now on; sessions whose key is gone end with it."""
        self._use(keys)

    def admit(self, headers: Mapping[str, str], method: str) -> Caller:
        """Return who sent a request; HttpProblem if it may not be answered."""
        self.check_host(headers)
        self.check_origin(headers, method)
        if not self.keys:
            return EVERYBODY
        key = self._key(headers)
        if key.expires is not None and self.clock() >= key.expires.timestamp():
            raise _unauthenticated(f"the key {key.name!r} has expired")
        bucket = self._buckets.get(key.sha256)
        wait = 0.0 if bucket is None else bucket.take()
        if wait:
            raise HttpProblem(
                "too-many-requests",
                f"the key {key.name!r} may send {key.rate:g} requests a second",
                headers={"retry-after": str(max(1, round(wait)))},
            )
        return Caller(key)

    def _key(self, headers: Mapping[str, str]) -> ApiKey:
        given = headers.get("authorization", "")
        scheme, _, secret = given.partition(" ")
        if scheme.lower() == "bearer" and secret:
            return self._known(digest_of(secret.strip()))
        session = self._sessions.get(digest_of(_cookie(headers)))
        if session is not None and session[1] > self.clock():
            return self._known(session[0])
        raise _unauthenticated("pass a key as Authorization: Bearer KEY")

    def _known(self, digest: str) -> ApiKey:
        # The digest of a secret is looked up, so the time that takes tells nothing about the secret.
        found = self._by_digest.get(digest)
        if found is None or not hmac.compare_digest(found.sha256, digest):
            raise _unauthenticated("the key is not known")
        return found

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Raise HttpProblem for another host than this machine, unless there are keys.

        A page of another site can have its name resolved to 127.0.0.1, and then reads what the service answers to a
        browser on this machine (DNS rebinding). The browser still sends the name as ``Host``.
        """
        host = headers.get("host", "")
        if not self.keys and not names_this_machine(host):
            raise HttpProblem(
                "forbidden",
                f"Host is {host[:100]!r}; without keys only localhost is answered; make keys with "
                "driftsurf serve --make-key NAME",
            )

    def check_origin(self, headers: Mapping[str, str], method: str) -> None:
        """Raise HttpProblem for requests that a page of another site may have made a browser send."""
        host = headers.get("host", "")
        if method in ("GET", "HEAD"):
            return
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise HttpProblem("forbidden", f"Origin is {origin[:100]!r}; pages of other sites may not send requests")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise HttpProblem("forbidden", "pages of other sites may not send requests")

    def log_in(self, secret: str, *, secure: bool) -> tuple[Caller, str]:
        """Return who has a key, and the header that gives a browser a session."""
        key = self._known(digest_of(secret))
        if key.expires is not None and self.clock() >= key.expires.timestamp():
            raise _unauthenticated(f"the key {key.name!r} has expired")
        now = self.clock()
        self._sessions = {name: one for name, one in self._sessions.items() if one[1] > now}
        while len(self._sessions) >= MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        token = secrets.token_urlsafe(32)
        self._sessions[digest_of(token)] = key.sha256, now + SESSION_SECONDS
        return Caller(key), _set_cookie(token, SESSION_SECONDS, secure=secure)

    def log_out(self, headers: Mapping[str, str]) -> str:
        """End a session; return the header that makes a browser forget it."""
        self._sessions.pop(digest_of(_cookie(headers)), None)
        return _set_cookie("", 0, secure=False)


def _set_cookie(token: str, seconds: int, *, secure: bool) -> str:
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}" + ("; Secure" if secure else "")


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found: Any = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else str(found.value)


def _unauthenticated(text: str) -> HttpProblem:
    return HttpProblem("unauthenticated", text, headers={"www-authenticate": 'Bearer realm="driftsurf"'})
