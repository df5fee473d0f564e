// A supplier: npm ci && npm run build, then with SUPPLYHUB_URL, SUPPLYHUB_API_KEY, WEBHOOK_SECRET and PORT
//   node build/supplier.js receive        serves the webhook-url http://127.0.0.1:$PORT and chooses the cheapest estimate
//   node build/supplier.js request 1001   asks for materials
import { createServer, type IncomingMessage } from "node:http";
import { Webhook } from "standardwebhooks";
import { Hub } from "./hub.js";

type Estimate = { estimate_id: string; service: string; price_cents: number };
type Estimated = {
  type: string;
  data: { request_id: number; estimates: Estimate[]; unavailable: { service: string; reason: string }[] };
};

const hub = new Hub(process.env.SUPPLYHUB_URL ?? "http://localhost:8080", process.env.SUPPLYHUB_API_KEY ?? "");

const maxBody = 1 << 20;

function receive(secret: string, port: number): void {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  if (secret !== `whsec_${key.toString("base64")}` || key.length < 24 || key.length > 64) {
    throw new Error("WEBHOOK_SECRET must be whsec_ followed by base64 of 24 to 64 bytes");
  }
  const webhook = new Webhook(secret);
  const handled = new Set<string>(); // keep the ids in your database

  // Returns the status to answer with. Nothing is 2xx before the work is done: a failed event is sent again on the schedule.
  async function take(request: IncomingMessage): Promise<number> {
    if (Number(request.headers["content-length"] ?? 0) > maxBody) return 413;
    const chunks: Buffer[] = []; // the raw bytes, before anything parses them
    let size = 0;
    for await (const chunk of request) {
      if ((size += chunk.length) > maxBody) return 413;
      chunks.push(chunk);
    }
    let event: Estimated;
    try {
      event = webhook.verify(Buffer.concat(chunks).toString(), request.headers as Record<string, string>) as Estimated;
    } catch {
      return 401;
    }
    const id = String(request.headers["webhook-id"]);
    if (event.type === "material_request.estimated" && !handled.has(id)) {
      await choose(event); // longer work than the 15 s of a call: store the event here instead
      handled.add(id); // not before: a failed event has to be handled again
    }
    return 204;
  }

  // A caller that sends slowly is cut off.
  createServer({ requestTimeout: 15_000, headersTimeout: 15_000, connectionsCheckingInterval: 1000 }, (request, response) => {
    void take(request).catch((error: unknown) => (console.error(error), 500))
      .then((status) => response.writeHead(status).end());
  }).listen(port, "127.0.0.1", () => console.log(`receiving on port ${port}`));
}

async function choose({ data }: Estimated): Promise<void> {
  const [cheapest] = [...data.estimates].sort((a, b) => a.price_cents - b.price_cents);
  if (!cheapest) return console.log("request", data.request_id, "cannot be delivered:", data.unavailable);
  const path = `/api/material-requests/${data.request_id}`;
  // the call may come here before the service itself has the estimates, or after others have taken their place
  const known = await hub.call<{ status: string; estimates: { estimate_id: string }[] }>("GET", `${path}?wait=5s`);
  if (known.status === "selected" || !known.estimates.some((e) => e.estimate_id === cheapest.estimate_id)) {
    return console.log("request", data.request_id, "is", known.status, "with other estimates");
  }
  const chosen = await hub.call<{ id: number; status: string }>("PATCH", `${path}/selected-estimate`, { estimate_id: cheapest.estimate_id });
  if (chosen?.status !== "selected") throw new Error("the answer is not the service's");
  console.log("request", chosen.id, "is", chosen.status, "by", cheapest.service);
}

async function request(id: number): Promise<void> {
  const answer = await hub.call<{ id: number; status: string }>("POST", "/api/material-requests", {
    id, shop_code: "SP-0042",
    materials: [{ material_id: 7, material: "Shelf", sku: "SHELF-90-W", width: 90, height: 30, depth: 25, quantity: 4 }],
  });
  if (answer?.status !== "enqueued") throw new Error("the answer is not the service's");
  console.log("request", answer.id, "is", answer.status);
}

const [command, id] = process.argv.slice(2);
if (command === "receive") receive(process.env.WEBHOOK_SECRET ?? "", Number(process.env.PORT));
else if (command === "request" && id) await request(Number(id));
else throw new Error("usage: supplier.js receive | request ID");
