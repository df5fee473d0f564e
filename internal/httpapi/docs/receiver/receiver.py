# A receiver of supplyhub's webhook calls: python3 receiver.py with WEBHOOK_SECRET and PORT.
import base64, hashlib, hmac, json, os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
handled = set()  # keep the ids in your database


def verified(headers, body):
    call_id, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent.isdecimal() or abs(time.time() - int(sent)) > 300:
        return False
    mac = hmac.new(KEY, f"{call_id}.{sent}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(mac)
    given = headers.get("webhook-signature", "").encode().split()
    return any([hmac.compare_digest(expected, one) for one in given])


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if length > 1 << 20:
            return self.answer(413)
        body = self.rfile.read(length)  # the raw bytes, before anything parses them
        if not verified(self.headers, body):
            return self.answer(401)
        event, call_id = json.loads(body), self.headers["webhook-id"]
        if event["type"] == "material_request.estimated" and call_id not in handled:
            data = event["data"]
            print(call_id, "request", data["request_id"], "estimates", len(data["estimates"]), flush=True)
            handled.add(call_id)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
