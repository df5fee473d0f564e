package openapitest

import "strings"

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D")
	unescaper = strings.NewReplacer("%7D", "}", "%7B", "{", "%25", "%", "~1", "/", "~0", "~")
)

// escape makes a member's name one part of a JSON pointer that may be in a URL's fragment.
func escape(name string) string { return escaper.Replace(name) }

// at returns the value at the pointer, references followed, nil when there is none.
func (v *V) at(pointer string) any {
	var value any = v.document
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		members, ok := value.(object)
		if !ok {
			return nil
		}
		if to, ok := members["$ref"].(string); ok && strings.HasPrefix(to, "#/") {
			members, _ = v.at(to[1:]).(object)
		}
		value = members[unescaper.Replace(part)]
	}
	return value
}

// follow returns where the value at the pointer really is.
func follow(pointer string, value any) string {
	if members, ok := value.(object); ok {
		if to, ok := members["$ref"].(string); ok {
			return to[1:]
		}
	}
	return pointer
}

// schemaPointers returns the places of all schemas of answers and of their headers.
func (v *V) schemaPointers() []string {
	var pointers []string
	answer := func(pointer string, value any) {
		members, _ := value.(object)
		for _, kind := range []string{"headers", "content"} {
			described, _ := members[kind].(object)
			for name, d := range described {
				at := follow(pointer+"/"+kind+"/"+escape(name), d)
				if v.at(at+"/schema") != nil {
					pointers = append(pointers, at+"/schema")
				}
			}
		}
	}
	responses, _ := v.at("/components/responses").(object)
	for name, r := range responses {
		answer("/components/responses/"+name, r)
	}
	for path, item := range v.document["paths"].(object) {
		for method, operation := range item.(object) {
			members, _ := operation.(object)
			responses, _ := members["responses"].(object)
			for status, r := range responses {
				answer("/paths/"+escape(path)+"/"+method+"/responses/"+status, r)
			}
		}
	}
	return pointers
}
