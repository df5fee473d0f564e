package clients_test

import (
	"context"
	"testing"

	"github.com/ogen-go/ogen/ogenerrors"

	api "generated.invalid/clients/ogen"
)

// credentials are what ogen's client asks for before each call.
type credentials struct{ key, access, pulse, tracker string }

func (c *credentials) ApiKey(context.Context, api.OperationName) (api.ApiKey, error) {
	return api.ApiKey{APIKey: c.key}, nil
}

func (c *credentials) Bearer(context.Context, api.OperationName) (api.Bearer, error) {
	return api.Bearer{Token: c.access}, nil
}

func (c *credentials) PulseKey(context.Context, api.OperationName) (api.PulseKey, error) {
	return api.PulseKey{APIKey: c.pulse}, nil
}

func (c *credentials) TrackerKey(context.Context, api.OperationName) (api.TrackerKey, error) {
	return api.TrackerKey{APIKey: c.tracker}, nil
}

func (c *credentials) PortalSession(context.Context, api.OperationName) (api.PortalSession, error) {
	return api.PortalSession{}, ogenerrors.ErrSkipClientSecurity
}

func (c *credentials) WebhookSignature(context.Context, api.OperationName) (api.WebhookSignature, error) {
	return api.WebhookSignature{}, ogenerrors.ErrSkipClientSecurity
}

// as returns the answer as the type that it should have.
func as[T any](t *testing.T, answer any, err error) T {
	t.Helper()
	must(t, err)
	wanted, ok := answer.(T)
	if !ok {
		t.Fatalf("the answer is a %T: %+v", answer, answer)
	}
	return wanted
}

// ogenStory is the whole story by ogen's client.
func ogenStory(t *testing.T, s *service, base, key string) {
	ctx := t.Context()
	by := &credentials{key: key, pulse: s.PulseKey, tracker: s.TrackerKey}
	c, err := api.NewClient(base, by)
	must(t, err)
	token, err := c.CreateToken(ctx)
	pair := as[*api.TokenPairHeaders](t, token, err).Response
	by.access = pair.AccessToken

	receiver, err := c.SetReceiver(ctx, &api.NewReceiver{URL: s.Receiver})
	if r := as[*api.ReceiverHeaders](t, receiver, err).Response; !r.PausedBy.IsNull() {
		t.Errorf("receiver: %+v", r)
	}
	for id := range int64(2) {
		made, err := c.CreateMaterialRequest(ctx, &api.NewMaterialRequest{ID: id, ShopCode: "SP-001",
			Materials: []api.NewItem{{
				MaterialID: 10, Material: "Shelf", Sku: "SHELF-90", Width: 90.5, Height: 30, Quantity: 4}}})
		as[*api.EnqueuedHeaders](t, made, err)
		read, err := c.GetMaterialRequest(ctx, api.GetMaterialRequestParams{ID: id, Wait: api.NewOptString("30s")})
		r := as[*api.MaterialRequestHeaders](t, read, err).Response
		if len(r.Estimates) == 0 || r.Materials[0].Width != 90.5 {
			t.Fatalf("request: %+v", r)
		}
		selected, err := c.SelectEstimate(ctx, &api.Selection{EstimateID: r.Estimates[0].EstimateID},
			api.SelectEstimateParams{ID: id})
		as[*api.SelectedHeaders](t, selected, err)
	}
	other, err := c.CreateMaterialRequest(ctx, &api.NewMaterialRequest{ID: 1, ShopCode: "SP-002",
		Materials: []api.NewItem{{
			MaterialID: 10, Material: "Shelf", Sku: "SHELF-90", Width: 90.5, Height: 30, Quantity: 4}}})
	if p := as[*api.ProblemHeaders](t, other, err).Response; p.Status != 409 {
		t.Errorf("another content under the same id: %+v", p)
	}

	seen := 0
	for params := (api.ListDeliveriesParams{Limit: api.NewOptInt32(1)}); ; {
		listed, err := c.ListDeliveries(ctx, params)
		page := as[*api.DeliveryPageHeaders](t, listed, err).Response
		for _, d := range page.Data {
			seen++
			one, err := c.GetDelivery(ctx, api.GetDeliveryParams{ID: d.ID})
			if detail := as[*api.DeliveryDetailHeaders](t, one, err).Response; detail.Event.Data.RequestID != d.RequestID {
				t.Errorf("delivery: %+v", detail)
			}
		}
		next, more := page.NextCursor.Get()
		if !more {
			break
		}
		params.Cursor = api.NewOptString(string(next))
	}
	if seen != 2 {
		t.Errorf("%d deliveries", seen)
	}

	board, err := c.ShowScoreboard(ctx, api.ShowScoreboardParams{})
	if b := as[*api.ScoreboardHeaders](t, board, err).Response; len(b.Response.Result.Scoreboard.Games) == 0 {
		t.Errorf("scoreboard: %+v", b)
	}
	trackers, err := c.ListTrackers(ctx, api.ListTrackersParams{})
	page := as[*api.TrackerPageHeaders](t, trackers, err).Response
	hasDevice(t, len(page.Data), func(i int) int64 { return page.Data[i].Imei.Value })
	renewed, err := c.RefreshToken(ctx, &api.RefreshToken{RefreshToken: pair.RefreshToken})
	as[*api.TokenPairHeaders](t, renewed, err)
}
