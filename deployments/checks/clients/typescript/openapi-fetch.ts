// The whole story by openapi-fetch over openapi-typescript's types.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./generated/openapi-typescript.js";
import { API_KEY, BASE, imei, PULSE_KEY, RECEIVER, request, there, TRACKER_KEY } from "./story.js";

const hub = createClient<paths>({ baseUrl: BASE });
const pair = there((await hub.POST("/api/external-auth/token", { headers: { "x-api-key": API_KEY } })).data, "token");
const headers = { authorization: `Bearer ${pair.AccessToken}` };

const receiver = there((await hub.PUT("/api/webhook-receiver", { headers, body: { url: RECEIVER } })).data, "receiver");
assert.equal(receiver.paused_by, null);
for (const id of [0, 1]) {
  assert.equal(there((await hub.POST("/api/material-requests", { headers, body: request(id) })).data, "request").id, id);
  const params = { path: { id } };
  const read = there(
    (await hub.GET("/api/material-requests/{id}", { headers, params: { ...params, query: { wait: "30s" } } })).data, "wait");
  const estimate = there(read.estimates[0], "an estimate");
  const chosen = await hub.PATCH("/api/material-requests/{id}/selected-estimate",
    { headers, params, body: { estimate_id: estimate.estimate_id } });
  assert.equal(there(chosen.data, "selection").status, "selected");
}
const refused = await hub.POST("/api/material-requests", { headers, body: { ...request(2), shop_code: "" } });
assert.equal(refused.response.status, 400);

let seen = 0;
let cursor: string | undefined;
do {
  const page = there((await hub.GET("/api/webhook-deliveries", { headers, params: { query: { limit: 1, cursor } } })).data, "page");
  seen += page.data.length;
  cursor = page.next_cursor ?? undefined;
} while (cursor);
assert.equal(seen, 2);

const board = await hub.POST("/pulse/scoreboard", { headers: { "svc-pulse-key": PULSE_KEY } });
assert.ok(there(board.data, "scoreboard").Response.result.scoreboard.games.length > 0);
const trackers = await hub.GET("/watch/devices/trackers", { headers: { "svc-public-hub-key": TRACKER_KEY } });
assert.ok(there(trackers.data, "trackers").data.some((r) => r.imei === imei));
const renewed = await hub.POST("/api/external-auth/refresh", { body: { refreshToken: pair.RefreshToken } });
assert.ok(there(renewed.data, "refresh").AccessToken);
