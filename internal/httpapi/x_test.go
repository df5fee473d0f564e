package httpapi
import ("testing";"fmt";"strings";"errors"
 json "github.com/go-json-experiment/json"
 "github.com/go-json-experiment/json/jsontext")
func TestX(t *testing.T){
 type item struct{ Q *int64 `json:"q"`; S *string `json:"s"`}
 type T struct{ A *int64 `json:"a"`; M []item `json:"m"`; F *float64 `json:"f"`}
 for _, s := range []string{``,` `,`{`,`{"a":1,"a":2}`,`{"x":{"y":1,"y":2}}`,`{"m":[{"q":1,"q":2}]}`,"{\"x\":\"\xff\"}","{\"m\":[{\"s\":\"a\xff\"}]}","{\"\xff\":1}",`{"m":[{"s":"ab\ud800x"}]}`,`{"m":[{"s":"\udc00"}]}`,`{"a":1} x`,`{"a":1}{}`,"\xef\xbb\xbf{}",`{"a":01}`,`{"a":1,}`,`{"a" 1}`,`{'a':1}`,`nul`,`{"f":1e400}`,`{"f":NaN}`,`{"a":"x\u0000"}`,"{\"a\":\"\x01\"}",`{"m":[{"q":1},{"q":tru}]}`,`{"m":[1,{"q":1}`,strings.Repeat("[",11000),`{"x":`+strings.Repeat("[",11000),`{"m":[{"s":"\x"}]}`, `{"m":[{"s":"abc`} {
  var v T
  err := json.Unmarshal([]byte(s), &v)
  if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
    _, vs := Decode[T]([]byte(s)); for _, x := range vs { fmt.Printf("   -> %.30q %s\n", *x.Pointer, x.Detail) }
    fmt.Printf("%.40q SYN off=%d ptr=%.30q err=%v\n", s, se.ByteOffset, se.JSONPointer, se.Err)
  } else if se, ok := errors.AsType[*json.SemanticError](err); ok {
    fmt.Printf("%.40q SEM off=%d ptr=%.30q err=%v\n", s, se.ByteOffset, se.JSONPointer, se.Err)
  } else { fmt.Printf("%.40q %v\n", s, err)}
 }
}
