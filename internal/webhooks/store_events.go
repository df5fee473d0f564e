package webhooks

import "github.com/supplyhub/supplyhub/internal/database"

// BodyOf returns the SQL expression of the body of a round's event, so that requests are read with theirs by one
// statement.
func (d *Dispatcher) BodyOf(supplier, uid, number string) string {
	return `(SELECT e.body FROM webhook_events e WHERE e.uid = ` + uid + ` AND e.round = ` + number +
		d.deps.DB.OnOneServer(`e.supplier_id = `+supplier) + `)`
}

// BodyOfOne is BodyOf for a statement that reads one request: it costs nothing where it is not evaluated, however many
// partitions the events have.
func (d *Dispatcher) BodyOfOne(supplier, uid, number string) string {
	if d.deps.DB.Engine() != database.Postgres || d.deps.DB.Spread() {
		return d.BodyOf(supplier, uid, number)
	}
	return `webhook_event_body(` + uid + `, ` + number + `)`
}
