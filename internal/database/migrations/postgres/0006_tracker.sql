-- +goose Up
CREATE TABLE tracker_clients (
    number               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                   text NOT NULL UNIQUE,
    name                 text NOT NULL,
    views                text NOT NULL DEFAULT '[]',  -- JSON array of the granted views, the first is read
    active               boolean NOT NULL DEFAULT true,
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    version              bigint NOT NULL DEFAULT 1           -- counts the changes
);

CREATE TABLE tracker_client_keys (
    hash                 bytea PRIMARY KEY,           -- SHA-256
    client_number        bigint NOT NULL REFERENCES tracker_clients (number),
    active_until         bigint,                      -- NULL: until it is rotated
    created_at           bigint NOT NULL
);
CREATE INDEX tracker_client_keys_client ON tracker_client_keys (client_number);

-- The views that were made over tracker_records, with their text as the engine tells it: a view whose text is another
-- one now was made by somebody else, and the counters below say nothing about it.
CREATE TABLE tracker_views (
    client_number        bigint PRIMARY KEY,
    name                 text NOT NULL UNIQUE,
    definition           text NOT NULL
);

-- Insert-only tables are vacuumed after a fifth of them is new; a listing reads just the newest part.
CREATE TABLE tracker_records (
    id                   bigint GENERATED ALWAYS AS IDENTITY,
    client_number        bigint NOT NULL,
    dt_carga             date NOT NULL,
    dispositivo              text,
    material                 text,
    identificador            bigint,
    cnpj                     text,
    planejado                boolean,
    endereco                 text,
    latitude                 double precision,
    longitude                double precision,
    ligado                   boolean,
    sem_sinal                boolean,
    desligado                boolean,
    em_estoque               boolean,
    nao_positivado           boolean,
    alerta_inicial           boolean,
    alerta_moderado          boolean,
    alerta_critico           boolean,
    imei                     bigint NOT NULL,
    data_de_captura          date,
    data_de_ping             date,
    data_de_positivacao      date,
    data_de_recebimento      date,
    data_captura             date,
    hora_de_captura          time(0),
    hora_de_ping             time(0),
    hora_de_positivacao      time(0),
    hora_captura             time(0),
    nome_do_pdv              text,
    canal                    text,
    regiao                   text,
    projeto                  text,
    loja_alvo                text,
    rede                     text,
    categoria                text,
    cnpj_da_loja             text,
    razao_social_da_loja     text,
    nome_fantasia_da_loja    text,
    rua_positivacao          text,
    cep_positivacao          text,
    cidade_positivacao       text,
    estado_positivacao       text,
    bairro_positivacao       text,
    logradouro_positivacao   text,
    numero_positivacao       text,
    complemento_positivacao  text,
    latitude_positivacao     text,
    longitude_positivacao    text,
    latitude_rastreada       text,
    longitude_rastreada      text,
    endereco_rastreado       text,
    emails_para_notificar    text,
    perc_bateria             bigint
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 5000, vacuum_index_cleanup = on);
-- The listings order by exactly these keys, NULLS LAST included; one word less and every row is sorted.
CREATE INDEX tracker_records_list ON tracker_records (client_number, dt_carga DESC, id DESC);
CREATE INDEX tracker_records_snapshot ON tracker_records (client_number, data_de_ping DESC NULLS LAST, imei,
    hora_de_ping DESC NULLS LAST, dt_carga DESC, id DESC);
-- Made last: of indexes that cost the same, as all do over an empty table, the planner takes the youngest.
ALTER TABLE tracker_records ADD PRIMARY KEY (id);

-- How many records each load day has, kept by triggers so that every loader keeps it.
CREATE TABLE tracker_days (
    client_number        bigint NOT NULL,
    dt_carga             date NOT NULL,
    records              bigint NOT NULL,
    PRIMARY KEY (client_number, dt_carga)
);

-- version changes with every change of a client's records. generation changes only when records of an older version
-- may not be "those up to max_id" any longer: a deletion, an update, or an id that came late.
CREATE TABLE tracker_versions (
    client_number        bigint PRIMARY KEY,
    version              bigint NOT NULL,
    generation           bigint NOT NULL,
    max_id               bigint NOT NULL
);

-- The version's row comes first and in the clients' order: it makes writers of one client wait for each other.
-- +goose StatementBegin
CREATE FUNCTION tracker_records_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tracker_versions AS v (client_number, version, generation, max_id)
    SELECT client_number, 1, 1, max(id) FROM added GROUP BY client_number ORDER BY client_number
    ON CONFLICT (client_number) DO UPDATE SET version = v.version + 1,
        generation = v.generation + (SELECT (min(a.id) <= v.max_id)::int FROM added a WHERE a.client_number = v.client_number),
        max_id = greatest(v.max_id, excluded.max_id);
    INSERT INTO tracker_days AS d (client_number, dt_carga, records)
    SELECT client_number, dt_carga, count(*) FROM added GROUP BY client_number, dt_carga ORDER BY client_number, dt_carga
    ON CONFLICT (client_number, dt_carga) DO UPDATE SET records = d.records + excluded.records;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tracker_records_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tracker_versions AS v (client_number, version, generation, max_id)
    SELECT client_number, 1, 1, max(id) FROM removed GROUP BY client_number ORDER BY client_number
    ON CONFLICT (client_number) DO UPDATE SET version = v.version + 1, generation = v.generation + 1;
    INSERT INTO tracker_days AS d (client_number, dt_carga, records)
    SELECT client_number, dt_carga, -count(*) FROM removed GROUP BY client_number, dt_carga ORDER BY client_number, dt_carga
    ON CONFLICT (client_number, dt_carga) DO UPDATE SET records = d.records + excluded.records;
    DELETE FROM tracker_days WHERE records = 0 AND client_number IN (SELECT client_number FROM removed);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tracker_records_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tracker_versions AS v (client_number, version, generation, max_id)
    SELECT client_number, 1, 1, max(id) FROM (SELECT client_number, id FROM removed UNION ALL SELECT client_number, id FROM added) c
    GROUP BY client_number ORDER BY client_number
    ON CONFLICT (client_number) DO UPDATE SET version = v.version + 1, generation = v.generation + 1,
        max_id = greatest(v.max_id, excluded.max_id);
    INSERT INTO tracker_days AS d (client_number, dt_carga, records)
    SELECT client_number, dt_carga, sum(n)
    FROM (SELECT client_number, dt_carga, -1 AS n FROM removed UNION ALL SELECT client_number, dt_carga, 1 FROM added) c
    GROUP BY client_number, dt_carga HAVING sum(n) <> 0 ORDER BY client_number, dt_carga
    ON CONFLICT (client_number, dt_carga) DO UPDATE SET records = d.records + excluded.records;
    DELETE FROM tracker_days WHERE records = 0 AND client_number IN (SELECT client_number FROM removed);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION tracker_records_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tracker_versions SET version = version + 1, generation = generation + 1;
    DELETE FROM tracker_days;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER tracker_records_inserted AFTER INSERT ON tracker_records
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION tracker_records_inserted();
CREATE TRIGGER tracker_records_deleted AFTER DELETE ON tracker_records
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION tracker_records_deleted();
CREATE TRIGGER tracker_records_updated AFTER UPDATE ON tracker_records
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION tracker_records_updated();
CREATE TRIGGER tracker_records_truncated AFTER TRUNCATE ON tracker_records
    FOR EACH STATEMENT EXECUTE FUNCTION tracker_records_truncated();

-- Which state of a view a client's crawl reads, noted with its first page: later pages, of any replica, read the same.
CREATE TABLE tracker_pins (
    client_number        bigint NOT NULL,
    listing              text NOT NULL,
    filter               text NOT NULL,
    page_size            bigint NOT NULL,
    view                 text NOT NULL,
    generation           bigint NOT NULL,
    max_id               bigint NOT NULL,
    day                  text NOT NULL,               -- the snapshot's date, empty when there is none
    pinned_at            bigint NOT NULL,
    PRIMARY KEY (client_number, listing, filter, page_size)
);
