-- +goose Up
CREATE TABLE products (
    supplier_id          text NOT NULL,
    sku                  text NOT NULL,
    active               boolean NOT NULL,
    digest               bytea NOT NULL,              -- SHA-256 of the canonical product: equal means unchanged
    material_id          bigint NOT NULL,
    material             text NOT NULL,
    material_variant_id  bigint,
    material_variant     text,
    width                double precision,            -- centimetres
    height               double precision,
    depth                double precision,
    weight_kg            double precision,
    production_days      bigint,                      -- business days
    source_updated_at    bigint NOT NULL,             -- the supplier's updated_at, or when it arrived
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    PRIMARY KEY (supplier_id, sku)
);
