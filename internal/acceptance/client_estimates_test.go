package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const postedEvent = `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z",
	"data":{"supplier_id":"SUPPLIER","request_id":777,"shop_code":"SP","estimates":[{"estimate_id":"e1","service":"road",
	"carrier":"c","price_cents":1,"currency":"BRL","lead_time_days":5,"dispatch_date":"2026-11-23",
	"delivery_date":"2026-11-27","chargeable_weight_kg":12.5,"volume_m3":0.075,"valid_until":"2026-11-27T12:00:00Z"}],
	"unavailable":[{"service":"express","reason":"too heavy"}]}}`

// postedChanges make an event that is good, by a member's text and what takes its place, one that is refused. The
// document cannot say some of these rules but in words.
var postedChanges = []struct {
	from, to string
	inWords  bool
}{
	{`"SP"`, `" "`, false}, {`"SP"`, `null`, false}, {`"SP"`, `"` + strings.Repeat("x", 256) + `"`, false},
	{`"material_request.estimated"`, `"x"`, false}, {`"SUPPLIER"`, `""`, false},
	{`0T12:00:00Z`, `0t12:00:00Z`, false}, {`0T12:00:00Z`, `0T12:00:00z`, false},
	{`0T12:00:00Z`, `0T12:00:60Z`, false}, {`0T12:00:00Z`, `0T2:00:00Z`, false},
	{`"2026-11-20T12:00:00Z"`, `"` + time.Now().UTC().Add(24*time.Hour).Format(time.RFC3339) + `"`, true},
	{`777`, `778`, true}, {`777`, `"777"`, false}, {`"e1"`, `"\u0085"`, false}, {`"road"`, `" "`, false},
	{`"c"`, `""`, false}, {`"c"`, `"` + strings.Repeat("é", 256) + `"`, false}, {`:1,`, `:-1,`, false},
	{`:1,`, `:9007199254740992,`, false}, {`:1,`, `:1.5,`, false}, {`"BRL"`, `"brl"`, false},
	{`:5,`, `:2147483648,`, false},
	{`:5,`, `:-1,`, false}, {`"2026-11-23"`, `"2026-02-30"`, false}, {`"2026-11-23"`, `"2026-11-28"`, true},
	{`12.5`, `-1`, false}, {`0.075`, `1e400`, false}, {`"2026-11-27T12:00:00Z"`, `"2026-11-27"`, false},
	{`"too heavy"`, `"\t"`, false}, {`"too heavy"`, `"` + strings.Repeat("x", 4001) + `"`, false},
	{`"express"`, `"` + strings.Repeat("x", 256) + `"`, false},
	{`{"service":"express","reason":"too heavy"}`, `null`, false},
	{`[{"service":"express","reason":"too heavy"}]`, `null`, false}, {`"estimates":[`, `"estimates":[null,`, false},
	{`"estimates":[`, `"x":[`, false}, {`,"volume_m3":0.075`, ``, false},
}

func TestClienttest_refuses_the_estimates_that_the_service_refuses_and_the_document_does(t *testing.T) {
	t.Parallel()
	const path = "/api/material-requests/{id}/delivery-estimates"
	raw, err := httpapi.OpenAPIDocument()
	must(t, "read the document", err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	must(t, "decode the document", err)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	must(t, "add the document", compiler.AddResource("https://hub.example/", document))
	schema, err := compiler.Compile("https://hub.example/#/paths/" + strings.ReplaceAll(path, "/", "~1") +
		"/post/requestBody/content/application~1json/schema")
	must(t, "compile the schema", err)

	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t, "--scopes", "estimates:write")
	fake := clienttest.Start(t, clienttest.Config{Scopes: []string{"estimates:write"}})
	fakeToken := tokenOf(t, fake)
	check := func(name, body string, status int, inWords bool) {
		t.Helper()
		call := rawCall{name, http.MethodPost, strings.Replace(path, "{id}", "777", 1), "", nil}
		call.body = strings.Replace(body, "SUPPLIER", s.ID, 1)
		service := try(t, h.URL(0, ""), s.AccessToken(), call)
		call.body = strings.Replace(body, "SUPPLIER", fake.SupplierID, 1)
		if diff := cmp.Diff(service, try(t, fake.URL, fakeToken, call)); diff != "" || service.Status != status {
			t.Errorf("%s: %d (-service +fake):\n%s", name, service.Status, diff)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		must(t, name, err)
		if err := schema.Validate(value); (err != nil) != (status == http.StatusBadRequest && !inWords) {
			t.Errorf("%s: by the document %v", name, err)
		}
	}
	check("a good one of an unknown request", postedEvent, http.StatusNotFound, false)
	check("another supplier's", strings.Replace(postedEvent, "SUPPLIER", "another", 1), http.StatusNotFound, false)
	twice := strings.Replace(postedEvent, `"estimates":[`, `"estimates":[`+
		postedEvent[strings.Index(postedEvent, `{"estimate_id"`):strings.Index(postedEvent, `],`)]+`,`, 1)
	check("two of one id", twice, http.StatusBadRequest, true)
	for _, c := range postedChanges {
		changed := strings.Replace(postedEvent, c.from, c.to, 1)
		if changed == postedEvent {
			t.Fatalf("the event has no %s", c.from)
		}
		check(fmt.Sprintf("%s as %.40s", c.from, c.to), changed, http.StatusBadRequest, c.inWords)
	}
}

// clientTimes checks by which times products and posted estimates are old. It holds against the service and the fake.
// fail lets an estimated request fail.
func clientTimes(t *testing.T, c *client.Client, fail func(id int64)) {
	t.Helper()
	ctx, now, none := t.Context(), time.Now(), time.Time{}
	type step struct {
		at   time.Time
		want client.ProductStatus
	}
	for i, steps := range [][]step{
		{{none, client.ProductCreated}, {now.Add(-time.Hour), client.ProductStale}},
		{{now.Add(-time.Hour), client.ProductCreated}, {none, client.ProductUpdated},
			{now.Add(-time.Minute), client.ProductStale}, {none, client.ProductUpdated}},
		{{now.Add(time.Hour), client.ProductCreated}, {none, client.ProductUpdated}, {now, client.ProductStale}},
	} {
		for n, step := range steps {
			got, err := c.UpsertProduct(ctx, client.Product{SKU: fmt.Sprint("TIMED-", i), MaterialID: new(int64(7)),
				Material: fmt.Sprint("Shelf ", n)}, step.at)
			if err != nil || got != step.want {
				t.Errorf("product %d, step %d: %s, %v, want %s", i, n, got, err, step.want)
			}
		}
	}

	ping, err := c.Ping(ctx)
	must(t, "ping", err)
	r := client.NewRequest{ID: nextID(), ShopCode: "SP-0042", Materials: []client.Item{
		{MaterialID: 7, Material: "Shelf", SKU: "SHELF-90", Width: 90, Height: 30, Quantity: 4},
	}}
	must(t, "create", c.CreateRequest(ctx, r))
	var made webhook.Estimate
	estimated := func() {
		t.Helper()
		got, err := c.Wait(ctx, r.ID)
		must(t, "wait", err)
		if got.Status != client.Estimated || len(got.Estimates) == 0 {
			t.Fatalf("got %+v", got)
		}
		made = got.Estimates[0]
	}
	send := func(name string, at time.Time) error {
		own := made
		own.EstimateID = name
		return c.PostEstimates(ctx, webhook.Event{Type: webhook.TypeEstimated, Timestamp: at, Data: webhook.Data{
			SupplierID: ping.Supplier.ID, RequestID: r.ID, ShopCode: r.ShopCode, Estimates: []webhook.Estimate{own}}})
	}
	post := func(name string, at time.Time, kept string) {
		t.Helper()
		must(t, name, send(name, at))
		got, err := c.Request(ctx, r.ID)
		must(t, "read", err)
		if got.Status != client.Estimated || got.Failure != "" || len(got.Estimates) == 0 ||
			got.Estimates[0].EstimateID != kept {
			t.Errorf("after %s: %+v, want %s", name, got, kept)
		}
	}
	estimated()
	post("one of before the round", now.Add(-6*time.Minute), made.EstimateID)
	post("one of a clock that is behind", now.Add(-4*time.Minute), "one of a clock that is behind")
	post("one of before the last", now.Add(-270*time.Second), "one of a clock that is behind")
	post("one of a clock that is ahead", now.Add(2*time.Minute), "one of a clock that is ahead")
	post("one of now", now, "one of a clock that is ahead")
	must(t, "estimate again", c.Reestimate(ctx, r.ID))
	estimated()
	post("one of before the second round", now.Add(-6*time.Minute), made.EstimateID)
	post("one of the second round", now, "one of the second round") // the first one's do not count
	post("one without a time", none, "one without a time")
	fail(r.ID)
	if got, err := c.Request(ctx, r.ID); err != nil || got.Status != client.Failed || got.Failure == "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	post("one after the failure", none, "one after the failure")
	_, err = c.Select(ctx, r.ID, "one after the failure")
	must(t, "select", err)
	must(t, "an old one after the selection", send("an old one", now))
	if err := send("a new one", none); !errors.Is(err, client.ErrConflict) {
		t.Errorf("a new one after the selection: %v", err)
	}
}
