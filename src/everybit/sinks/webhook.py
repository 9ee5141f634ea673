"""Findings to a web address, from a thread of its own: the job never waits for it."""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING, Any, Final

from everybit.core.web_address import shown_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from everybit.core.finding import Finding
    from everybit.core.observation import StepRecord
    from everybit.core.verdict import Verdict

LOGGER = logging.getLogger("everybit")
SCHEMA: Final = "everybit.finding/1"

#: Findings that wait to be sent; more are counted.
MAX_WAITING: Final = 256
#: A longer message is sent without the finding's evidence.
MAX_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 10.0
#: Before the second try, the third ...
PAUSES_S: Final = (1.0, 4.0, 16.0)
#: How long the end of a run waits for what is still to be sent.
FLUSH_S: Final = 3.0
#: Answers after which another try may help; those of 500 and above may too.
_TRY_AGAIN: Final = (408, 425, 429)


class Webhook:
    """A sink that POSTs each finding as JSON.

    Args:
        address: Where to; its path may be a secret and is never shown.
        run: Name of the run folder.
        rank: Rank of this process.
        post: Sends bytes to the address and returns the status; raises `OSError` and the like.
        pauses_s: Seconds before each further try.
    """

    def __init__(
        self,
        address: str,
        *,
        run: str,
        rank: int,
        post: Callable[[str, bytes], int] | None = None,
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        self._address = address
        self._told = {"schema": SCHEMA, "run": run, "rank": rank}
        self._post = post or post_json
        self._pauses_s = pauses_s
        # Of the queues the one whose `put` may be called from a signal's handler at any moment.
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._dropped = 0
        self._warned = False
        self._thread = threading.Thread(target=self._send_all, name="everybit-webhook", daemon=True)
        self._thread.start()

    def step(self, record: StepRecord) -> None:
        """Steps are not sent."""

    def finding(self, finding: Finding) -> None:
        """Have a finding sent."""
        if self._waiting.qsize() < MAX_WAITING:
            self._waiting.put(self._message(finding))
        else:
            self._dropped += 1

    def close(self, verdict: Verdict) -> None:
        """Wait a few seconds for what is still to be sent."""
        self._closing.set()
        self._waiting.put(None)
        self._thread.join(FLUSH_S)
        if self._thread.is_alive() or self._dropped:
            unsent = self._waiting.qsize() + self._dropped
            self._warn(f"{max(unsent, 1)} or more findings were not sent in time")

    def _message(self, finding: Finding) -> bytes:
        told = finding.to_json()
        text = f"everybit: {finding.rule} {finding.message}"
        data = _encode({**self._told, "text": text, "finding": told})
        if len(data) > MAX_BYTES:
            told = {**told, "evidence": {}, "where": _short(told["where"])}
            data = _encode({**self._told, "text": text[:2000], "finding": told})
        return data

    def _send_all(self) -> None:
        while (message := self._waiting.get()) is not None:
            try:
                self._send(message)
            except Exception as error:
                # The error may show the address: only its kind is told.
                self._warn(f"a finding could not be sent ({type(error).__name__})")

    def _send(self, message: bytes) -> None:
        for pause_s in (*self._pauses_s, None):
            try:
                status = self._post(self._address, message)
                why = f"it answered {status}"
                if 200 <= status < 300:
                    return
                if status < 500 and status not in _TRY_AGAIN:
                    break
            except OSError as error:
                why = _reason(error)
            if pause_s is not None:
                self._closing.wait(pause_s)  # at the end of the run there is no time for it
        self._warn(f"a finding could not be sent: {why}")

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            LOGGER.warning(
                "everybit: webhook %s: %s; the run's record holds them all",
                shown_address(self._address),
                what,
            )


def post_json(address: str, data: bytes) -> int:
    """POST JSON and return the status of the answer; redirects are not followed.

    Raises:
        OSError: There was no answer.
    """
    import http.client
    import urllib.error
    import urllib.request

    class _Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_args: Any, **_more: Any) -> None:
            return None

    request = urllib.request.Request(
        address, data, {"Content-Type": "application/json", "User-Agent": "everybit"}
    )
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=TIMEOUT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except http.client.HTTPException as error:
        raise ConnectionError(type(error).__name__) from None


def _reason(error: OSError) -> str:
    inner = getattr(error, "reason", error)
    if isinstance(inner, TimeoutError):
        return "no answer in time"
    told = inner.strerror if isinstance(inner, OSError) else None
    return (told or type(inner).__name__).lower()


def _encode(message: dict[str, Any]) -> bytes:
    from everybit.ledger.folder import encode_plain

    return encode_plain(message)


def _short(where: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in where.items() if not isinstance(value, list)}
