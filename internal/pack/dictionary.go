package pack

import "github.com/klauspost/compress/s2"

const newest = 1 // the dictionary that Pack uses

// dictionaries are all that stored texts may be packed with. Once released, one is never changed nor removed: another
// gets the next number.
var dictionaries = map[byte]*s2.Dict{1: s2.MakeDictManual([]byte(dictionary1), 0)}

// dictionary1 has the members' names and fixed words of events and requests, as encoding/json writes them.
const dictionary1 = `{"id":10000,"shop_code":"` +
	`","comment":null,"materials":[{"material_id":` +
	`","comment":"` +
	`","materials":[{"material_id":1` +
	`,"material":"` +
	`","material_variant_id":1` +
	`,"material_variant":"` +
	`","material_variant_id":null,"material_variant":null,"sku":"` +
	`","width":1` +
	`0,"height":1` +
	`0,"depth":null,"quantity":1` +
	`0,"depth":1` +
	`0,"quantity":1},{"material_id":1` +
	`}]}` +
	`{"type":"material_request.estimated","timestamp":"2026-01-01T00:00:00.000000Z","data":{"supplier_id":"sup_` +
	`","request_id":10000,"shop_code":"` +
	`","estimates":[{"estimate_id":"est_` +
	`","service":"express","carrier":"Expresso Aereo","price_cents":1` +
	`","service":"bulky","carrier":"Carga Especial","price_cents":1` +
	`","service":"road","carrier":"Rodovia Cargas","price_cents":1` +
	`0,"currency":"BRL","lead_time_days":1` +
	`,"dispatch_date":"2026-01-01","delivery_date":"2026-01-01","chargeable_weight_kg":1` +
	`,"volume_m3":0.0` +
	`,"valid_until":"2026-01-01T02:59:59Z"},{"estimate_id":"est_` +
	`,"valid_until":"2026-01-01T02:59:59Z"}],"unavailable":[{"service":"express","reason":"The chargeable weight is ` +
	` kg, the service takes up to 30 kg."}]}}` +
	`"},{"service":"bulky","reason":"The largest side is ` +
	` cm, the service takes up to 120 cm."` +
	`The product  is not active."` +
	`The weight is out of range."` +
	`The production takes too long."`
