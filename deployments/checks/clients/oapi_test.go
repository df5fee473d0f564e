package clients_test

import (
	"context"
	"net/http"
	"testing"

	api "generated.invalid/clients/oapi"
)

// with returns an editor of requests that sets a header.
func with(name, value string) api.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set(name, value)
		return nil
	}
}

// oapiStory is the whole story by oapi-codegen's client.
func oapiStory(t *testing.T, s *service, base, key string) {
	ctx := t.Context()
	c, err := api.NewClientWithResponses(base)
	must(t, err)
	pair, err := c.CreateTokenWithResponse(ctx, with("x-api-key", key))
	must(t, err)
	if pair.JSON200 == nil {
		t.Fatalf("token: %s", pair.Status())
	}
	bearer := with("Authorization", "Bearer "+pair.JSON200.AccessToken)

	receiver, err := c.SetReceiverWithResponse(ctx, api.NewReceiver{Url: s.Receiver}, bearer)
	must(t, err)
	if receiver.JSON200 == nil || receiver.JSON200.PausedBy != nil {
		t.Fatalf("receiver: %s %s", receiver.Status(), receiver.Body)
	}
	for id := range int64(2) {
		request := api.NewMaterialRequest{Id: id, ShopCode: "SP-001", Materials: []api.NewItem{{
			MaterialId: 10, Material: "Shelf", Sku: "SHELF-90", Width: 90.5, Height: 30, Quantity: 4}}}
		made, err := c.CreateMaterialRequestWithResponse(ctx, request, bearer)
		must(t, err)
		if made.JSON201 == nil || made.JSON201.Id != id {
			t.Fatalf("request %d: %s %s", id, made.Status(), made.Body)
		}
		wait := "30s"
		read, err := c.GetMaterialRequestWithResponse(ctx, id, &api.GetMaterialRequestParams{Wait: &wait}, bearer)
		must(t, err)
		if read.JSON200 == nil || len(read.JSON200.Estimates) == 0 || read.JSON200.Materials[0].Width != 90.5 {
			t.Fatalf("request %d: %s %s", id, read.Status(), read.Body)
		}
		choice := api.Selection{EstimateId: read.JSON200.Estimates[0].EstimateId}
		selected, err := c.SelectEstimateWithResponse(ctx, id, choice, bearer)
		must(t, err)
		if selected.JSON200 == nil {
			t.Fatalf("selection: %s %s", selected.Status(), selected.Body)
		}
	}
	refused, err := c.CreateMaterialRequestWithResponse(ctx, api.NewMaterialRequest{}, bearer)
	must(t, err)
	if p := refused.ApplicationproblemJSON400; p == nil || p.Errors == nil || *(*p.Errors)[0].Pointer != "/shop_code" {
		t.Errorf("an empty request: %s %s", refused.Status(), refused.Body)
	}

	limit, seen := api.Limit(1), 0
	for params := (api.ListDeliveriesParams{Limit: &limit}); ; {
		page, err := c.ListDeliveriesWithResponse(ctx, &params, bearer)
		must(t, err)
		if page.JSON200 == nil {
			t.Fatalf("deliveries: %s %s", page.Status(), page.Body)
		}
		for _, d := range page.JSON200.Data {
			seen++
			one, err := c.GetDeliveryWithResponse(ctx, d.Id, bearer)
			must(t, err)
			if one.JSON200 == nil || one.JSON200.Event.Data.RequestId != d.RequestId {
				t.Errorf("delivery: %s %s", one.Status(), one.Body)
			}
		}
		if params.Cursor = page.JSON200.NextCursor; params.Cursor == nil {
			break
		}
	}
	if seen != 2 {
		t.Errorf("%d deliveries", seen)
	}

	board, err := c.ShowScoreboardWithResponse(ctx, &api.ShowScoreboardParams{}, with("svc-pulse-key", s.PulseKey))
	must(t, err)
	if board.JSON200 == nil || len(board.JSON200.Response.Result.Scoreboard.Games) == 0 {
		t.Errorf("scoreboard: %s %s", board.Status(), board.Body)
	}
	page, err := c.ListTrackersWithResponse(ctx, &api.ListTrackersParams{}, with("svc-public-hub-key", s.TrackerKey))
	must(t, err)
	if page.JSON200 == nil {
		t.Fatalf("trackers: %s %s", page.Status(), page.Body)
	}
	hasDevice(t, len(page.JSON200.Data), func(i int) int64 { return *page.JSON200.Data[i].Imei })
	renewed, err := c.RefreshTokenWithResponse(ctx, api.RefreshToken{RefreshToken: pair.JSON200.RefreshToken})
	must(t, err)
	if renewed.JSON200 == nil {
		t.Errorf("refresh: %s %s", renewed.Status(), renewed.Body)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hasDevice fails unless one of the records belongs to the device whose number needs more than 32 bits.
func hasDevice(t *testing.T, records int, of func(i int) int64) {
	t.Helper()
	for i := range records {
		if of(i) == imei {
			return
		}
	}
	t.Errorf("none of the %d records is of the device %d", records, imei)
}
