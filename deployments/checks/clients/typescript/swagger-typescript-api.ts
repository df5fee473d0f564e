// The whole story by swagger-typescript-api's client.
import assert from "node:assert/strict";
import { Api } from "./generated/swagger-typescript-api.js";
import { API_KEY, BASE, imei, PULSE_KEY, RECEIVER, request, there, TRACKER_KEY } from "./story.js";

const hub = new Api({ baseUrl: BASE });
const pair = (await hub.api.createToken({ headers: { "x-api-key": API_KEY } })).data;
const as = { headers: { authorization: `Bearer ${pair.AccessToken}` } };

assert.equal((await hub.api.setReceiver({ url: RECEIVER }, as)).data.paused_by, null);
for (const id of [0, 1]) {
  assert.equal((await hub.api.createMaterialRequest(request(id), as)).data.id, id);
  const read = (await hub.api.getMaterialRequest(id, { wait: "30s" }, as)).data;
  const estimate = there(read.estimates[0], "an estimate");
  const chosen = await hub.api.selectEstimate(id, { estimate_id: estimate.estimate_id }, as);
  assert.equal(chosen.data.status, "selected");
}
await assert.rejects(hub.api.createMaterialRequest({ ...request(2), shop_code: "" }, as),
  (answer: Response) => answer.status === 400);

let seen = 0;
let cursor: string | undefined;
do {
  const page = (await hub.api.listDeliveries({ limit: 1, cursor }, as)).data;
  seen += page.data.length;
  cursor = page.next_cursor ?? undefined;
} while (cursor);
assert.equal(seen, 2);

const board = await hub.pulse.showScoreboard({}, { headers: { "svc-pulse-key": PULSE_KEY } });
assert.ok(board.data.Response.result.scoreboard.games.length > 0);
const trackers = await hub.watch.listTrackers({}, { headers: { "svc-public-hub-key": TRACKER_KEY } });
assert.ok(trackers.data.data.some((r) => r.imei === imei));
assert.ok((await hub.api.refreshToken({ refreshToken: pair.RefreshToken })).data.AccessToken);
