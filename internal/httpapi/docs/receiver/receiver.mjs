// A receiver of supplyhub's webhook calls: node receiver.mjs with WEBHOOK_SECRET and PORT.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = process.env.WEBHOOK_SECRET ?? "";
const key = Buffer.from(secret.slice("whsec_".length), "base64");
if (secret !== `whsec_${key.toString("base64")}` || key.length < 24 || key.length > 64) {
  throw new Error("WEBHOOK_SECRET must be whsec_ followed by base64 of 24 to 64 bytes");
}
const maxBody = 1 << 20;
const handled = new Set(); // keep the ids in your database

function verified(headers, body) {
  const id = headers["webhook-id"] ?? "", sent = headers["webhook-timestamp"] ?? "";
  if (!/^\d{1,12}$/.test(sent) || Math.abs(Date.now() / 1000 - Number(sent)) > 300) return false;
  const mac = createHmac("sha256", key).update(`${id}.${sent}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${mac}`);
  return (headers["webhook-signature"] ?? "").split(" ").map((one) => Buffer.from(one))
    .some((one) => one.length === expected.length && timingSafeEqual(one, expected));
}

// Returns the status to answer with. Nothing is 2xx before the work is done: a failed event is sent again on the schedule.
async function receive(request) {
  if (Number(request.headers["content-length"] ?? 0) > maxBody) return 413;
  const chunks = []; // the raw bytes, before anything parses them
  let size = 0;
  for await (const chunk of request) {
    if ((size += chunk.length) > maxBody) return 413;
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  if (request.method !== "POST" || !verified(request.headers, body)) return 401;
  const event = JSON.parse(body), id = request.headers["webhook-id"];
  if (event.type === "material_request.estimated" && !handled.has(id)) {
    await work(id, event.data);
    handled.add(id); // not before: a failed event has to be handled again
  }
  return 204;
}

async function work(id, data) { // or store the event, and work on it afterwards
  console.log(id, "request", data.request_id, "estimates", data.estimates.length);
}

// A caller that sends slowly is cut off.
createServer({ requestTimeout: 15_000, headersTimeout: 15_000, connectionsCheckingInterval: 1000 }, (request, response) => {
  receive(request).catch((error) => (console.error(error), 500)).then((status) => response.writeHead(status).end());
}).listen(Number(process.env.PORT), "127.0.0.1");
