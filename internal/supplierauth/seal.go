package supplierauth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

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
		block, err := aes.NewCipher(key)
		if err != nil {
			return sealer{}, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return sealer{}, err
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// seal encrypts text. What is sealed for one row cannot be opened as another's.
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
	return "", errors.New("no key of SECRETS_KEY opens it")
}
