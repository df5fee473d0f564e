-- +goose Up
-- A request's body as internal/pack stores it; body is empty then.
ALTER TABLE material_requests ADD COLUMN packed bytea;

-- Roles that may read the body may read it packed.
-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT grantee FROM information_schema.column_privileges WHERE table_schema = current_schema()
        AND table_name = 'material_requests' AND column_name = 'body' AND privilege_type = 'SELECT' AND grantee <> 'PUBLIC'
    LOOP
        EXECUTE format('GRANT SELECT (packed) ON material_requests TO %I', name);
    END LOOP;
END $$;
-- +goose StatementEnd
