package supplierauth

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Receivers returns the receivers of the given suppliers, by supplier id. Unknown suppliers are absent. A secret that
// no key of SECRETS_KEY opens is reported in the log and left out, so that it stops no other supplier's webhooks.
func (s *Service) Receivers(ctx context.Context, supplierIDs []string) (map[string]caller.Receiver, error) {
	receivers := make(map[string]caller.Receiver, len(supplierIDs))
	if len(supplierIDs) == 0 {
		return receivers, nil
	}
	rows, err := s.store.receivers(ctx, supplierIDs, s.now())
	if err != nil {
		return nil, fmt.Errorf("read receivers: %w", err)
	}
	for _, row := range rows {
		r := receivers[row.SupplierID]
		r.URL, r.Active, r.Concurrency = row.WebhookURL, row.Active, s.receiverConcurrency
		if row.ReceiverConcurrency != nil {
			r.Concurrency = *row.ReceiverConcurrency
		}
		if row.SecretID != nil {
			secret, err := s.openSecret(row)
			if err != nil {
				s.log.ErrorContext(ctx, "a webhook secret cannot be read", "supplier_id", row.SupplierID, "secret_id",
					*row.SecretID, "error", err)
			} else {
				r.Secrets = append(r.Secrets, secret)
			}
		}
		receivers[row.SupplierID] = r
	}
	return receivers, nil
}

func (s *Service) openSecret(row receiverRow) (webhook.Secret, error) {
	text, err := s.sealer.open(row.Sealed, *row.SecretID)
	if err != nil {
		return webhook.Secret{}, err
	}
	return webhook.ParseSecret(text)
}

// Names returns the names of the given suppliers, by id; unknown ones are absent.
func (s *Service) Names(ctx context.Context, supplierIDs []string) (map[string]string, error) {
	names, err := s.store.names(ctx, supplierIDs)
	if err != nil {
		return nil, fmt.Errorf("read suppliers' names: %w", err)
	}
	return names, nil
}
