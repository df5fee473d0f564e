# A receiver of supplyhub's webhook calls: python3 receiver.py with WEBHOOK_SECRET and PORT.
import base64, hashlib, hmac, json, os, re, socket, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

handled = set()  # keep the ids in your database


def key_of(secret):
    """Returns the key, and ends the program when the secret is none."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith("whsec_") or not 24 <= len(key) <= 64:
        sys.exit("WEBHOOK_SECRET must be whsec_ followed by base64 of 24 to 64 bytes")
    return key


KEY = key_of(os.environ.get("WEBHOOK_SECRET", ""))


def verified(headers, body):
    call_id, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not re.fullmatch("[0-9]{1,12}", sent) or abs(time.time() - int(sent)) > 300:
        return False
    mac = hmac.new(KEY, f"{call_id}.{sent}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(mac)
    given = headers.get("webhook-signature", "").encode().split()
    return any([hmac.compare_digest(expected, one) for one in given])


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
            status = self.receive()
        except Exception as failed:
            print(repr(failed), file=sys.stderr, flush=True)
            status = 500
        self.send_response(status)
        self.end_headers()

    def receive(self):
        length = self.headers.get("content-length", "")
        if not length.isdecimal():
            return 411
        if len(length) > 7 or int(length) > 1 << 20:
            return 413
        body = self.rfile.read(int(length))  # the raw bytes, before anything parses them
        if len(body) < int(length):
            return 408
        if not verified(self.headers, body):
            return 401
        event, call_id = json.loads(body), self.headers["webhook-id"]
        if event["type"] == "material_request.estimated" and call_id not in handled:
            work(call_id, event["data"])
            handled.add(call_id)  # not before: a failed event has to be handled again
        return 204


def work(call_id, data):  # or store the event, and work on it afterwards
    print(call_id, "request", data["request_id"], "estimates", len(data["estimates"]), flush=True)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
