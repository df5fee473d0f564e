package openapitest

// strict makes of the published document the one that answers are held against. Published it is open, as an answer may
// have one more member some day; today's answers have no member that the document does not describe. It also gets the
// rules that generators of clients stumble over.
func strict(document object) {
	schemas := document["components"].(object)["schemas"].(object)
	seal(schemas)
	violation := schemas["Violation"].(object)
	violation["oneOf"] = []any{object{"required": []any{"pointer"}}, object{"required": []any{"parameter"}}}
	problem := schemas["Problem"].(object)["properties"].(object)
	problem["type"].(object)["pattern"] = "^/docs/errors#[a-z-]+$"
}

// seal closes every schema below value that names its members. Examples are no schemas; a condition is a part of one.
func seal(value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			seal(v)
		}
	case object:
		for name, v := range value {
			if name != "example" && name != "if" && name != "then" {
				seal(v)
			}
		}
		if _, names := value["properties"].(object); names && value["type"] == "object" {
			value["additionalProperties"] = false
		}
	}
}
