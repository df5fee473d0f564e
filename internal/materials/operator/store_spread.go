package operator

// What this package does differently where Citus spreads the tables over several servers; see database/spread.go. These
// go through all rows of the suppliers where one server steps through their index: they are an operator's, not hot.

// boundsSpread is bounds of all suppliers in the list.
const boundsSpread = `SELECT coalesce(max(created_at), -1) AS newest, coalesce(min(created_at), 0) AS oldest
	FROM material_requests WHERE ` + byAge + `
		AND supplier_id = ANY(ARRAY(SELECT json_array_elements_text(CAST(? AS json))))`

// suppliersSpread are those with requests.
const suppliersSpread = `SELECT DISTINCT supplier_id FROM material_requests ORDER BY supplier_id`

// newestSpread is newestEach.
func newestSpread(from place, since int64, limit int) (query string, args []any) {
	return `SELECT supplier_id AS id, max(created_at) AS newest FROM material_requests
		WHERE ` + byAge + ` AND created_at >= ?` + behindPlace + `
		GROUP BY supplier_id ORDER BY newest DESC, supplier_id LIMIT ?`, append(append([]any{since}, from.behind()...), limit)
}
