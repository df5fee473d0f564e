import assert from "node:assert/strict";

// What a story needs; the check sets it.
export const { BASE = "", API_KEY = "", PULSE_KEY = "", TRACKER_KEY = "", RECEIVER = "" } = process.env;

// The device of the tracker's sample: 15 digits.
export const imei = 356938035643809;

export const request = (id: number) => ({
  id,
  shop_code: "SP-001",
  materials: [{ material_id: 10, material: "Shelf", sku: "SHELF-90", width: 90.5, height: 30, quantity: 4 }],
});

// Returns what has to be there.
export function there<T>(value: T | null | undefined, what: string): T {
  assert.ok(value !== null && value !== undefined, what);
  return value;
}
