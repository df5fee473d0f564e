-- +goose Up
-- The body of a round's event, for a statement that reads one request. As part of that statement the look-up would have every
-- partition prepared, also for a request that has no event; here it is that of the uid alone, when it is asked for.
-- +goose StatementBegin
CREATE FUNCTION webhook_event_body(of_uid bigint, of_round bigint) RETURNS bytea LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN (SELECT body FROM webhook_events WHERE uid = of_uid AND round = of_round);
END $$;
-- +goose StatementEnd
