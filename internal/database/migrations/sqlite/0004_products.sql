-- +goose Up
CREATE TABLE products (
    supplier_id          text NOT NULL,
    sku                  text NOT NULL,
    active               boolean NOT NULL,
    digest               blob NOT NULL,              -- SHA-256 of the canonical product: equal means unchanged
    material_id          integer NOT NULL,
    material             text NOT NULL,
    material_variant_id  integer,
    material_variant     text,
    width                real,            -- centimetres
    height               real,
    depth                real,
    weight_kg            real,
    production_days      integer,                      -- business days
    source_updated_at    integer NOT NULL,             -- the supplier's updated_at, or when it arrived
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    PRIMARY KEY (supplier_id, sku)
);
