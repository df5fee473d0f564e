package webhooks

// BodyOf returns the SQL expression of the body of a round's event, so that a request is read with it by one statement.
func (d *Dispatcher) BodyOf(supplier, uid, number string) string {
	return `(SELECT e.body FROM webhook_events e WHERE e.uid = ` + uid + ` AND e.round = ` + number +
		d.deps.DB.OnOneServer(`e.supplier_id = `+supplier) + `)`
}
