-- +goose Up
CREATE TABLE rate_services (
    name                 text NOT NULL,
    effective_from       text NOT NULL,               -- Sao Paulo day, YYYY-MM-DD
    carrier              text NOT NULL,
    base_cents           integer NOT NULL,
    per_kg_cents         integer NOT NULL,
    minimum_cents        integer NOT NULL,
    cubage_kg_m3         real NOT NULL,   -- kilograms that a cubic metre is charged as
    max_side_cm          real NOT NULL,
    max_weight_kg        real NOT NULL,   -- of the chargeable weight
    transit_days         integer NOT NULL,             -- business days
    PRIMARY KEY (name, effective_from)
);
INSERT INTO rate_services VALUES
    ('road',    '2000-01-01', 'Rodovia Cargas',  2500, 180,  3500, 300, 250,   500, 5),
    ('express', '2000-01-01', 'Expresso Aereo',  4000, 650,  6000, 167, 120,    30, 2),
    ('bulky',   '2000-01-01', 'Carga Especial',  15000, 95, 25000, 200, 1200, 10000, 9);
