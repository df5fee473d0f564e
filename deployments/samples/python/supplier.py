"""A supplier in one file, with Python's standard library alone.

    export SUPPLYHUB_URL=http://localhost:8080 SUPPLYHUB_API_KEY=hub_sk_… WEBHOOK_SECRET=whsec_… PORT=7001
    python3 supplier.py receive         # serves the webhook-url http://127.0.0.1:7001 and chooses the cheapest estimate
    python3 supplier.py request 1001    # asks for materials
"""
import base64, hashlib, hmac, json, os, random, re, socket, sys, threading, time
import http.client, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_ANSWER = 16 << 20


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # the API key would go along


class Hub:
    """Calls the service: tokens are renewed in time, once for all threads, and what may pass is tried again."""

    def __init__(self, url, api_key):
        self.url, self.api_key = url.rstrip("/"), api_key.strip()
        if not re.fullmatch("[!-~]+", self.api_key):
            sys.exit("SUPPLYHUB_API_KEY is empty, or has characters that no key has")
        self.opener = urllib.request.build_opener(NoRedirect)
        self.lock, self.access, self.refresh, self.use_until = threading.Lock(), None, None, 0.0

    def call(self, method, path, body=None):
        pause, renewed = 1.0, False
        for attempt in range(1, 6):
            token, refusal = self._token()
            status, headers, answer = refusal or self._send(method, path, body, {"authorization": "Bearer " + token})
            if status == 401 and not refusal and not renewed:
                renewed = True
                self._reject(token)
            elif status in (0, 429, 500, 502, 503, 504) and attempt < 5:
                wait = headers.get("retry-after", "")  # a proxy may send a date: the pause is enough then
                time.sleep(max(pause * random.uniform(0.75, 1.25), min(60.0, float(wait) if wait.isdigit() else 0)))
                pause *= 2
            elif 200 <= status < 300 and not refusal:
                return answer
            else:
                what = f"no token for {method} {path}" if refusal else f"{method} {path}"
                raise RuntimeError(f"{what}: {status} {answer} (request id {headers.get('x-request-id')})")
        raise RuntimeError(f"{method} {path}: still {status} after {attempt} attempts")

    def _token(self):
        """Returns the access token, or what refused one."""
        with self.lock:  # one thread renews, the others wait for it
            refusal = self._renew() if self.access is None or time.monotonic() > self.use_until else None
            return self.access, refusal

    def _reject(self, token):
        with self.lock:
            if self.access == token:
                self.access = None

    def _renew(self):
        asked, refresh, self.refresh = time.monotonic(), self.refresh, None  # a refresh token works once
        status = 0
        if refresh:
            status, headers, answer = self._send("POST", "/api/external-auth/refresh", {"refreshToken": refresh}, {})
        if status != 200:  # refused, or its answer was lost: never repeat it
            status, headers, answer = self._send("POST", "/api/external-auth/token", None, {"x-api-key": self.api_key})
        if status != 200:
            return status, headers, answer
        self.access, self.refresh = answer["AccessToken"], answer["RefreshToken"]
        self.use_until = asked + answer["ExpiresIn"] - min(60, answer["ExpiresIn"] / 2)

    def _send(self, method, path, body, headers):
        """Returns status (0 without an answer), headers and the decoded body."""
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers = {**headers, "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with self.opener.open(request, timeout=90) as response:
                text = whole(response)
                return response.status, response.headers, json.loads(text) if text else None
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, refused.read(1 << 16).decode(errors="replace")
        except (OSError, http.client.HTTPException, ValueError) as failed:  # no answer, or a part of one
            return 0, {}, str(failed)


def whole(response):
    """Returns the answer, unless it is too large or takes too long."""
    parts, size, end = [], 0, time.monotonic() + 90
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER or time.monotonic() > end:
            raise RuntimeError("the answer is over 16 MiB, or takes longer than 90 s")
    return b"".join(parts)


def key_of(secret):
    """Returns the key, and ends the program when the secret is none."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith("whsec_") or not 24 <= len(key) <= 64:
        sys.exit("WEBHOOK_SECRET must be whsec_ followed by base64 of 24 to 64 bytes")
    return key


def verified(key, headers, body):
    """Standard Webhooks: HMAC-SHA256 over id.timestamp.body; several signatures while a secret is rotated."""
    call_id, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,12}", sent) or abs(time.time() - int(sent)) > 300:
        return False
    mac = hmac.new(key, f"{call_id}.{sent}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(mac)
    return any([hmac.compare_digest(expected, one) for one in headers.get("webhook-signature", "").encode().split()])


def receive(hub, secret, port):
    key = key_of(secret)
    handled = set()  # keep the ids in your database

    class Receiver(BaseHTTPRequestHandler):
        def setup(self):  # a caller that sends slowly is cut off
            super().setup()
            self.end = threading.Timer(15, self.connection.shutdown, [socket.SHUT_RD])
            self.end.start()

        def finish(self):
            self.end.cancel()
            super().finish()

        def do_POST(self):
            try:  # nothing is 2xx before the work is done: a failed event is sent again on the schedule
                status = self.take()
            except Exception as failed:
                print(repr(failed), file=sys.stderr, flush=True)
                status = 500
            self.send_response(status)
            self.end_headers()

        def take(self):
            length = self.headers.get("content-length", "")
            if not length.isdecimal():
                return 411
            if len(length) > 7 or int(length) > 1 << 20:
                return 413
            body = self.rfile.read(int(length))  # the raw bytes, before anything parses them
            if len(body) < int(length):
                return 408
            if not verified(key, self.headers, body):
                return 401
            call_id, event = self.headers["webhook-id"], json.loads(body)
            if event["type"] == "material_request.estimated" and call_id not in handled:
                choose(hub, event["data"])  # longer work than the 15 s of a call: store the event here instead
                handled.add(call_id)  # not before: a failed event has to be handled again
            return 204

        def log_message(self, *_):
            pass

    print(f"receiving on port {port}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()


def choose(hub, data):
    if not data["estimates"]:
        return print("request", data["request_id"], "cannot be delivered:", data["unavailable"], flush=True)
    path = f"/api/material-requests/{data['request_id']}"
    # the call may come here before the service itself has the estimates, or after others have taken their place
    known = hub.call("GET", path + "?wait=5s")
    cheapest = min(data["estimates"], key=lambda e: e["price_cents"])
    if known["status"] == "selected" or cheapest["estimate_id"] not in [e["estimate_id"] for e in known["estimates"]]:
        return print("request", data["request_id"], "is", known["status"], "with other estimates", flush=True)
    chosen = hub.call("PATCH", path + "/selected-estimate", {"estimate_id": cheapest["estimate_id"]})
    print("request", chosen["id"], "is", chosen["status"], "by", cheapest["service"], flush=True)


def request(hub, number):
    answer = hub.call("POST", "/api/material-requests", {
        "id": number, "shop_code": "SP-0042",
        "materials": [{"material_id": 7, "material": "Shelf", "sku": "SHELF-90-W", "width": 90, "height": 30, "depth": 25, "quantity": 4}],
    })
    print("request", answer["id"], "is", answer["status"], flush=True)


if __name__ == "__main__":
    service = Hub(os.environ["SUPPLYHUB_URL"], os.environ.get("SUPPLYHUB_API_KEY", ""))
    if sys.argv[1:2] == ["receive"]:
        receive(service, os.environ.get("WEBHOOK_SECRET", ""), int(os.environ["PORT"]))
    elif sys.argv[1:2] == ["request"] and len(sys.argv) == 3:
        request(service, int(sys.argv[2]))
    else:
        sys.exit(__doc__)
