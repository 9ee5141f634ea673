"""The webhook: whole findings, in order, from a thread; nothing it does holds up the job."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.sinks.told import VERDICT, drive, finding_at

from everybit.core.config import Config
from everybit.core.finding import Finding
from everybit.sinks import open_sinks
from everybit.sinks import webhook as webhook_module
from everybit.sinks.webhook import Webhook

SECRET = "T0SECRETB1"


class Server:
    """Answers POSTs with the statuses it is given, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.bodies, self.headers = list(statuses), [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                size = int(self.headers["Content-Length"])
                outer.bodies.append(json.loads(self.rfile.read(size)))
                outer.headers.append(dict(self.headers))
                status = outer.statuses.pop(0) if len(outer.statuses) > 1 else outer.statuses[0]
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook/{SECRET}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def serve():
    servers = []

    def start(*statuses):
        servers.append(Server(*statuses))
        return servers[-1]

    yield start
    for each in servers:
        each.server.shutdown()
        each.server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


def told(webhook, *findings):
    for finding in findings:
        webhook.finding(finding)
    webhook.close(VERDICT)


def test_a_finding_arrives_whole(serve, tmp_path):
    server = serve(204)
    drive(open_sinks(Config(webhook=server.address), tmp_path / "a", 3))
    (body,) = server.bodies
    assert (body["schema"], body["run"], body["rank"]) == ("everybit.finding/1", "a", 3)
    assert body["text"] == "everybit: MEM601 w changed at step 7"
    assert Finding.from_json(body["finding"]).id == finding_at(7).id
    assert server.headers[0]["Content-Type"] == "application/json"


def test_it_is_tried_again_where_that_may_help(serve, caplog):
    server = serve(503, 429, 200)
    told(Webhook(server.address, run="a", rank=0, pauses_s=(0, 0, 0)), finding_at(1), finding_at(2))
    assert [body["finding"]["where"]["step"] for body in server.bodies] == [1, 1, 1, 2]
    assert caplog.messages == []


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (302, 1), (500, 3)])
def test_where_it_cannot_be_sent_one_warning_without_the_secret(serve, caplog, status, tries):
    server = serve(status)
    webhook = Webhook(server.address, run="a", rank=0, pauses_s=(0, 0))
    told(webhook, finding_at(1), finding_at(2))
    assert len(server.bodies) == 2 * tries
    (line,) = caplog.messages
    assert f"a finding could not be sent: it answered {status}" in line
    assert "127.0.0.1" in line
    assert SECRET not in line


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (f"http://127.0.0.1:1/{SECRET}", "connection refused"),
        (f"http://nowhere.invalid/{SECRET}", ""),
        (f"http://127.0.0.1:1/{SECRET}/\u00fc", "UnicodeEncodeError"),
    ],
)
def test_where_nobody_answers(caplog, address, why):
    told(Webhook(address, run="a", rank=0, pauses_s=()), finding_at(1))
    (line,) = caplog.messages
    assert why in line
    assert SECRET not in line


def test_a_slow_server_never_holds_up_the_job(monkeypatch, caplog):
    monkeypatch.setattr(webhook_module, "FLUSH_S", 0.3)
    monkeypatch.setattr(webhook_module, "MAX_WAITING", 8)
    release = threading.Event()

    def slow(_address, _data):
        release.wait(30)
        return 200

    began = time.monotonic()
    webhook = Webhook(f"https://x.example/{SECRET}", run="a", rank=0, post=slow)
    told(webhook, *(finding_at(step) for step in range(50)))
    assert time.monotonic() - began < 5
    release.set()
    (line,) = caplog.messages
    assert "or more findings were not sent in time" in line
    assert SECRET not in line


def test_a_huge_finding_is_sent_without_its_evidence(serve):
    server = serve(200)
    told(Webhook(server.address, run="a", rank=0), finding_at(1, changes=["x" * 100] * 10_000))
    (body,) = server.bodies
    assert body["finding"]["evidence"] == {}
    assert body["finding"]["where"]["parameter"] == "w"
