package figures

// Counting is the statement that counts the gauges.
const Counting = counting
