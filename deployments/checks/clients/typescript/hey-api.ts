// The whole story by hey-api's client.
import assert from "node:assert/strict";
import {
  createMaterialRequest, createToken, getMaterialRequest, listDeliveries, listTrackers, refreshToken, selectEstimate,
  setReceiver, showScoreboard,
} from "./generated/hey-api/index.js";
import { client } from "./generated/hey-api/client.gen.js";
import { API_KEY, BASE, imei, PULSE_KEY, RECEIVER, request, there, TRACKER_KEY } from "./story.js";

let access = "";
client.setConfig({
  baseUrl: BASE,
  auth: ({ scheme, name }) =>
    scheme === "bearer" ? access
    : { "x-api-key": API_KEY, "svc-pulse-key": PULSE_KEY, "svc-public-hub-key": TRACKER_KEY }[name ?? ""],
});
const pair = there((await createToken()).data, "token");
access = pair.AccessToken;

const receiver = there((await setReceiver({ body: { url: RECEIVER } })).data, "receiver");
assert.equal(receiver.paused_by, null);
for (const id of [0, 1]) {
  assert.equal(Number(there((await createMaterialRequest({ body: request(id) })).data, "request").id), id);
  const read = there((await getMaterialRequest({ path: { id }, query: { wait: "30s" } })).data, "wait");
  const estimate = there(read.estimates[0], "an estimate");
  const chosen = await selectEstimate({ path: { id }, body: { estimate_id: estimate.estimate_id } });
  assert.equal(there(chosen.data, "selection").status, "selected");
}
const refused = await createMaterialRequest({ body: { ...request(2), shop_code: "" } });
assert.equal(refused.response?.status, 400);

let seen = 0;
let cursor: string | undefined;
do {
  const page = there((await listDeliveries({ query: { limit: 1, cursor } })).data, "page");
  seen += page.data.length;
  cursor = page.next_cursor ?? undefined;
} while (cursor);
assert.equal(seen, 2);

assert.ok(there((await showScoreboard()).data, "scoreboard").Response.result.scoreboard.games.length > 0);
assert.ok(there((await listTrackers()).data, "trackers").data.some((r) => Number(r.imei) === imei));
assert.ok(there((await refreshToken({ body: { refreshToken: pair.RefreshToken } })).data, "refresh").AccessToken);
