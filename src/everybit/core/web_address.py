"""Addresses that findings are sent to: checked when they are given, shown without their secrets."""

from __future__ import annotations

from urllib.parse import urlsplit

from everybit.core.errors import ConfigError


def check_web_address(address: str, *, key: str) -> None:
    """Raise `ConfigError` where `address` is no http or https address; never shows it whole."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
        good = good and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or not address.isprintable() or " " in address:
        raise ConfigError(
            f"{key} is no web address", todo="give one that begins with https:// or http://"
        )


def shown_address(address: str) -> str:
    """Return scheme and host: what follows them is often a secret.

    >>> shown_address("https://me:pw@hooks.example.org:8443/services/T0/B1?key=abc")
    'https://hooks.example.org:8443/...'
    >>> shown_address("http://localhost/")
    'http://localhost'
    """
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    more = parts.path.strip("/") or parts.query or parts.fragment
    return f"{parts.scheme}://{host}" + ("/..." if more else "")
