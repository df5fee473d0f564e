package supplierauth

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Where a supplier takes webhooks. The operator sets it with the supplier (admin.go); the supplier changes its own
// address and secrets here, over the API and in the portal. Package sending reads the result through Receivers for
// each batch that it sends, and remembers it for two seconds: so long a change may go unnoticed.
//
// Secrets are stored sealed, AES-256-GCM under SECRETS_KEY with the secret's id as associated data: a row copied to
// another supplier does not open.

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
		r.URL, r.Active, r.Concurrency = row.WebhookURL, row.Active, s.deps.ReceiverConcurrency
		if row.ReceiverConcurrency != nil {
			r.Concurrency = *row.ReceiverConcurrency
		}
		if row.SecretID != nil {
			secret, err := s.openSecret(row)
			if err != nil {
				s.deps.Log.ErrorContext(ctx, "a webhook secret cannot be read", "supplier_id", row.SupplierID, "secret_id",
					*row.SecretID, "error", err)
			} else {
				r.Secrets = append(r.Secrets, secret)
			}
		}
		receivers[row.SupplierID] = r
	}
	return receivers, nil
}

// openSecret opens a secret that was sealed by one of SECRETS_KEY.
func (s *Service) openSecret(row receiverRow) (webhook.Secret, error) {
	text, err := s.sealer.open(row.Sealed, *row.SecretID)
	if err != nil {
		return webhook.Secret{}, err
	}
	return webhook.ParseSecret(text)
}

// sample is how many stored secrets are opened to learn whether SECRETS_KEY opens them.
const sample = 1000

// CheckSecrets reports that stored secrets cannot be read: SECRETS_KEY lacks the key that sealed them.
func (s *Service) CheckSecrets(ctx context.Context) error {
	_, err := s.openSome(ctx)
	return err
}

// openSome opens some of the stored secrets. none says that there are some and no key opens any of them.
func (s *Service) openSome(ctx context.Context) (none bool, err error) {
	rows, err := s.store.someSecrets(ctx, s.now(), sample)
	if err != nil {
		return false, fmt.Errorf("read stored secrets: %w", err)
	}
	closed := 0
	for _, row := range rows {
		if _, err := s.openSecret(row); err != nil {
			closed++
		}
	}
	if closed == 0 {
		return false, nil
	}
	return closed == len(rows), errs.New(errs.Unavailable, fmt.Sprintf(
		"SECRETS_KEY opens %d of %d stored secrets: put back the key that sealed them", len(rows)-closed, len(rows)))
}

// WebhookSecrets returns the secrets that sign now, the newest first; never nil.
func (s *Service) WebhookSecrets(ctx context.Context, supplierID string) ([]caller.SecretValidity, error) {
	secrets, err := s.store.secrets(ctx, supplierID, s.now())
	return secrets, errs.Doing("list webhook secrets", err)
}

// SetWebhookURL stores a supplier's own choice of its receiver; empty removes it. Errors: errs.Invalid, errs.NotFound.
func (s *Service) SetWebhookURL(ctx context.Context, supplierID, url string) error {
	if faults := s.ownURLFaults(url); len(faults) > 0 {
		return errs.InvalidInput("The receiver's address is not valid.", violationsAt("/url", faults)...)
	}
	err := s.store.db.InTx(ctx, "set a webhook address", func(ctx context.Context) error {
		changed, err := s.store.setWebhookURL(ctx, supplierID, storedURL(url), s.now())
		if err == nil && changed {
			err = s.deps.Moved(ctx, supplierID, storedURL(url))
		}
		if err != nil {
			return err
		}
		return s.deps.Callable(ctx, supplierID)
	})
	if err != nil {
		return fmt.Errorf("set webhook address: %w", err)
	}
	logctx.Note(ctx, hostOf(url))
	return nil
}

// ownURLFaults is stricter than the operator's rule: a supplier's own address is https, unless private ones are
// allowed. It names no setting, which suppliers cannot change.
func (s *Service) ownURLFaults(url string) []string {
	faults := lists.Of(webhookURLFaults(url, s.deps.AllowPrivateWebhooks),
		func(fault string) string { return strings.TrimSuffix(fault, unlessAllowed) })
	if scheme, _, _ := strings.Cut(url, "://"); !s.deps.AllowPrivateWebhooks && strings.EqualFold(scheme, "http") {
		faults = append(faults, "must start with https://")
	}
	return faults
}

const secretsKeySize = 32 // AES-256

// sealer encrypts what must be readable again, with AES-256-GCM: the first key encrypts, all decrypt.
type sealer struct{ keys []cipher.AEAD }

// GenerateSecretsKey makes a value for SECRETS_KEY.
func GenerateSecretsKey() (string, error) {
	key := make([]byte, secretsKeySize)
	rand.Read(key) // never fails: the process ends first
	return base64.StdEncoding.EncodeToString(key), nil
}

// CheckSecretsKeys reports what is wrong with a value of SECRETS_KEY: the position of a bad key, never the key.
func CheckSecretsKeys(text string) error {
	_, err := newSealer(text)
	return err
}

// newSealer reads keys separated by commas, each base64 of 32 bytes. Without any key it can neither seal nor open.
func newSealer(text string) (sealer, error) {
	var s sealer
	if text == "" {
		return s, nil
	}
	for i, part := range strings.Split(text, ",") {
		key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(part))
		if err != nil || len(key) != secretsKeySize {
			return sealer{}, fmt.Errorf("key %d must be base64 of %d bytes", i+1, secretsKeySize)
		}
		block, _ := aes.NewCipher(key)                 // its size is right
		aead, _ := cipher.NewGCMWithRandomNonce(block) // it fails for other ciphers than AES
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// seal encrypts text. A text that is sealed for one row cannot be opened as another's.
func (s sealer) seal(text, row string) ([]byte, error) {
	if len(s.keys) == 0 {
		return nil, errors.New("SECRETS_KEY is not set: a webhook secret cannot be stored")
	}
	return s.keys[0].Seal(nil, nil, []byte(text), []byte(row)), nil
}

// open returns the text that was sealed for the row.
func (s sealer) open(sealed []byte, row string) (string, error) {
	for _, key := range s.keys {
		if text, err := key.Open(nil, nil, sealed, []byte(row)); err == nil {
			return string(text), nil
		}
	}
	return "", errs.New(errs.Unavailable, "no key of SECRETS_KEY opens it")
}
