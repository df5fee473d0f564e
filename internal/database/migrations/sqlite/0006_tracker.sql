-- +goose Up
CREATE TABLE tracker_clients (
    number               integer PRIMARY KEY AUTOINCREMENT,
    id                   text NOT NULL UNIQUE,
    name                 text NOT NULL,
    views                text NOT NULL DEFAULT '[]',  -- JSON array of the granted views, the first is read
    active               boolean NOT NULL DEFAULT 1,
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    version              integer NOT NULL DEFAULT 1          -- counts the changes
);

CREATE TABLE tracker_client_keys (
    hash                 blob PRIMARY KEY,            -- SHA-256
    client_number        integer NOT NULL REFERENCES tracker_clients (number),
    active_until         integer,                     -- NULL: until it is rotated
    created_at           integer NOT NULL
);
CREATE INDEX tracker_client_keys_client ON tracker_client_keys (client_number);

-- The views that were made over tracker_records, with their text as the engine tells it: a view whose text is another
-- one now was made by somebody else, and the counters below say nothing about it.
CREATE TABLE tracker_views (
    client_number        integer PRIMARY KEY,
    name                 text NOT NULL UNIQUE,
    definition           text NOT NULL
);

CREATE TABLE tracker_records (
    id                   integer PRIMARY KEY AUTOINCREMENT,
    client_number        integer NOT NULL,
    dt_carga             text NOT NULL,               -- dates are YYYY-MM-DD, times HH:mm:ss
    dispositivo              text,
    material                 text,
    identificador            integer,
    cnpj                     text,
    planejado                integer,
    endereco                 text,
    latitude                 real,
    longitude                real,
    ligado                   integer,
    sem_sinal                integer,
    desligado                integer,
    em_estoque               integer,
    nao_positivado           integer,
    alerta_inicial           integer,
    alerta_moderado          integer,
    alerta_critico           integer,
    imei                     integer NOT NULL,
    data_de_captura          text,
    data_de_ping             text,
    data_de_positivacao      text,
    data_de_recebimento      text,
    data_captura             text,
    hora_de_captura          text,
    hora_de_ping             text,
    hora_de_positivacao      text,
    hora_captura             text,
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
    perc_bateria             integer
);
-- A descending index has nulls last here without saying so.
CREATE INDEX tracker_records_list ON tracker_records (client_number, dt_carga DESC, id DESC);
CREATE INDEX tracker_records_snapshot ON tracker_records (client_number, data_de_ping DESC, imei, hora_de_ping DESC, dt_carga DESC, id DESC);

-- How many records each load day has, kept by triggers so that every loader keeps it.
CREATE TABLE tracker_days (
    client_number        integer NOT NULL,
    dt_carga             text NOT NULL,
    records              integer NOT NULL,
    PRIMARY KEY (client_number, dt_carga)
) WITHOUT ROWID;

-- version changes with every change of a client's records. generation changes only when records of an older version
-- may not be "those up to max_id" any longer: a deletion, an update, or an id that came late.
CREATE TABLE tracker_versions (
    client_number        integer PRIMARY KEY,
    version              integer NOT NULL,
    generation           integer NOT NULL,
    max_id               integer NOT NULL
);

-- +goose StatementBegin
CREATE TRIGGER tracker_records_inserted AFTER INSERT ON tracker_records BEGIN
    INSERT INTO tracker_versions (client_number, version, generation, max_id) VALUES (NEW.client_number, 1, 1, NEW.id)
    ON CONFLICT (client_number) DO UPDATE SET version = version + 1, generation = generation + (excluded.max_id <= max_id),
        max_id = max(max_id, excluded.max_id);
    INSERT INTO tracker_days (client_number, dt_carga, records) VALUES (NEW.client_number, NEW.dt_carga, 1)
    ON CONFLICT (client_number, dt_carga) DO UPDATE SET records = records + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER tracker_records_deleted AFTER DELETE ON tracker_records BEGIN
    UPDATE tracker_versions SET version = version + 1, generation = generation + 1 WHERE client_number = OLD.client_number;
    UPDATE tracker_days SET records = records - 1 WHERE client_number = OLD.client_number AND dt_carga = OLD.dt_carga;
    DELETE FROM tracker_days WHERE client_number = OLD.client_number AND dt_carga = OLD.dt_carga AND records = 0;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER tracker_records_updated AFTER UPDATE ON tracker_records BEGIN
    UPDATE tracker_versions SET version = version + 1, generation = generation + 1 WHERE client_number = OLD.client_number;
    UPDATE tracker_days SET records = records - 1 WHERE client_number = OLD.client_number AND dt_carga = OLD.dt_carga;
    DELETE FROM tracker_days WHERE client_number = OLD.client_number AND dt_carga = OLD.dt_carga AND records = 0;
    INSERT INTO tracker_versions (client_number, version, generation, max_id) VALUES (NEW.client_number, 1, 1, NEW.id)
    ON CONFLICT (client_number) DO UPDATE SET version = version + 1, generation = generation + 1, max_id = max(max_id, excluded.max_id);
    INSERT INTO tracker_days (client_number, dt_carga, records) VALUES (NEW.client_number, NEW.dt_carga, 1)
    ON CONFLICT (client_number, dt_carga) DO UPDATE SET records = records + 1;
END;
-- +goose StatementEnd

-- Which state of a view a client's crawl reads, noted with its first page: later pages, of any replica, read the same.
CREATE TABLE tracker_pins (
    client_number        integer NOT NULL,
    listing              text NOT NULL,
    filter               text NOT NULL,
    page_size            integer NOT NULL,
    view                 text NOT NULL,
    generation           integer NOT NULL,
    max_id               integer NOT NULL,
    day                  text NOT NULL,               -- the snapshot's date, empty when there is none
    pinned_at            integer NOT NULL,
    PRIMARY KEY (client_number, listing, filter, page_size)
);
