package webhook

// Secret signs and verifies events. Its text form is whsec_ followed by base64; it prints as ***.
type Secret struct{ key []byte }
