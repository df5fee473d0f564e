package materials

// Statuses are all states of a request.
var Statuses = statuses
