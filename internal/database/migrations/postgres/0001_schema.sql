-- +goose Up
-- The schema, written to be read: tables by noun, then functions. Later migrations change it; `make schema` prints what results.
-- A time is in Unix microseconds, UTC, where nothing else is said: one meaning and one order on both engines. A supplier_id is
-- suppliers.id. Tables of many rows have their numbers before their texts: behind a text a number costs up to 7 bytes of padding.

-- Every function keeps the path that is set here: it finds what is in the schema and nothing that a role made for itself, as
-- PostgreSQL looks for a table in pg_temp first unless the path names it.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- ---- Installation ----

-- One row: a copy of the database, or its restore, is the same installation.
CREATE TABLE installation (
    id                   text PRIMARY KEY              -- random
);
INSERT INTO installation VALUES (replace(gen_random_uuid()::text, '-', ''));

-- The settings that an operator changed by `api settings`.
CREATE TABLE settings (
    key                  text PRIMARY KEY,
    value                text NOT NULL,
    updated_at           bigint NOT NULL
);

-- ---- Suppliers, their keys, sessions and portal ----

CREATE TABLE suppliers (
    id                   text PRIMARY KEY,
    name                 text NOT NULL,
    webhook_url          text NOT NULL DEFAULT '',     -- of the receiver; empty: there is none
    access_ttl           bigint NOT NULL,              -- seconds that an access token is valid
    refresh_ttl          bigint NOT NULL,              -- seconds that a refresh token is valid
    scopes               text NOT NULL,                -- separated by spaces
    active               boolean NOT NULL DEFAULT true,
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    receiver_concurrency bigint                        -- calls at once to the receiver, of all workers; null: RECEIVER_CONCURRENCY
);
-- Which suppliers have a receiver?
CREATE INDEX suppliers_with_receiver ON suppliers (id) WHERE active AND webhook_url <> '';

CREATE TABLE supplier_api_keys (
    hash                 bytea PRIMARY KEY,            -- SHA-256
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    last4                text NOT NULL,                -- the key's last four characters, to show
    active_until         bigint,                       -- null: until it is rotated
    created_at           bigint NOT NULL
);
-- Which keys has this supplier?
CREATE INDEX supplier_api_keys_supplier ON supplier_api_keys (supplier_id);

-- The secrets that sign a supplier's webhooks.
CREATE TABLE supplier_webhook_secrets (
    id                   text PRIMARY KEY,
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    sealed               bytea NOT NULL,               -- AES-256-GCM, the id as associated data
    active_until         bigint,                       -- null: until it is rotated
    created_at           bigint NOT NULL
);
-- Which secrets sign for this supplier?
CREATE INDEX supplier_webhook_secrets_supplier ON supplier_webhook_secrets (supplier_id);

-- A session is a family of refresh tokens: the handle stays, the secret changes at each rotation.
CREATE TABLE sessions (
    id                   text PRIMARY KEY,
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    handle_hash          bytea NOT NULL UNIQUE,        -- SHA-256
    current_hash         bytea NOT NULL,               -- SHA-256 of the secret that is valid now
    generation           bigint NOT NULL DEFAULT 1,    -- rotations, and one
    created_at           bigint NOT NULL,
    last_used_at         bigint NOT NULL,
    expires_at           bigint NOT NULL,
    expiry_day           bigint NOT NULL               -- the day of expires_at, since 1970: indexed, it costs a rotation nothing
) WITH (fillfactor = 80);
-- Which sessions has this supplier? Of all: were it of live ones only, a plan made over the empty table might go through them.
CREATE INDEX sessions_supplier ON sessions (supplier_id, created_at);
-- Which sessions may be deleted?
CREATE INDEX sessions_expiry ON sessions (expiry_day);

-- Links into the portal. One is deleted when it is used, so it works once whatever replica it comes to.
CREATE TABLE portal_links (
    hash                 bytea PRIMARY KEY,            -- SHA-256 of what the supplier has
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    secure               boolean NOT NULL,             -- whether the session's cookie is for https alone
    expires_at           bigint NOT NULL
);
-- Which links has this supplier?
CREATE INDEX portal_links_supplier ON portal_links (supplier_id);

-- Browser sessions of suppliers, and of operators in the console. One that ended is deleted.
CREATE TABLE portal_sessions (
    hash                 bytea PRIMARY KEY,            -- SHA-256 of what the browser has
    supplier_id          text REFERENCES suppliers (id), -- null: of the console
    created_at           bigint NOT NULL,
    expires_at           bigint NOT NULL
);
-- Which sessions has this supplier?
CREATE INDEX portal_sessions_supplier ON portal_sessions (supplier_id);

-- ---- Requests, rounds, products, rate card ----

CREATE SEQUENCE request_numbers; -- uids and workers: a number is given out once

-- All that becomes of a request is written by one UPDATE, its estimates next to it: each further row costs as much again.
-- An update's second entry for a key finds room: PostgreSQL (from 14 on) deletes the entries of versions that are dead before it
-- splits a leaf for it, so leaves need not be half empty.
CREATE TABLE material_requests (
    uid                  bigint NOT NULL CHECK (uid > 0), -- of the accepted request, never used again; it keys all that travels
    id                   bigint NOT NULL,              -- the supplier's own; it may be used again after retention
    round                bigint NOT NULL DEFAULT 1,    -- which estimation this is; a redelivery keeps it
    received             bigint NOT NULL DEFAULT 0,    -- the latest round whose own event was taken
    tries                bigint NOT NULL DEFAULT 0,    -- estimations of this round that came to nothing
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    shard                bigint NOT NULL,              -- follows from supplier_id: whose owner estimates it
    due_at               bigint,                       -- when its estimation is due; null: none is wanted
    round_at             bigint,                       -- when this round began; null: with the request
    posted_at            bigint,                       -- timestamp of the latest event of this round that another service posted
    selected_at          bigint,                       -- null: no estimate is selected
    supplier_id          text NOT NULL,
    status               text NOT NULL,                -- enqueued, estimated, selected, failed
    shop_code            text NOT NULL,
    digest               bytea NOT NULL,               -- SHA-256 of the canonical request: equal means same request
    trace_id             text NOT NULL,                -- X-Request-Id of the call that made it
    trace_parent         text,                         -- that call's span (W3C Trace Context); null: it is not traced
    selected_estimate_id text,                         -- null: none is selected
    failure              text NOT NULL DEFAULT '',     -- why it is failed, in a sentence for the supplier
    webhook_ids          text NOT NULL DEFAULT '',     -- of the events that other services posted, each between line breaks
    body                 bytea NOT NULL,               -- the canonical request, JSON, as internal/pack stores it
    estimates            text,                         -- JSON array; null: none received, or those of the event of round "received"
    unavailable          text,                         -- JSON array, as estimates
    PRIMARY KEY (supplier_id, id) WITH (fillfactor = 70)
);
-- Lists are in the order of acceptance, which is that of uid. The conditions uid > 0 and round > 0 hold for all rows. A list repeats
-- the one of its index; they keep look-ups by the key, and lists of another kind, off indexes that cost the same over an empty table.
-- Which are the newest, of all suppliers?
CREATE UNIQUE INDEX material_requests_uid ON material_requests (uid) WHERE uid > 0;
-- Which requests has this supplier, by status? A list of all statuses is merged from these.
CREATE INDEX material_requests_listed ON material_requests (supplier_id, status, uid) WHERE round > 0;
-- Which are enqueued, of all suppliers, the newest first?
CREATE INDEX material_requests_enqueued ON material_requests (uid) WHERE uid > 0 AND status = 'enqueued';
-- Which failed, of all suppliers, the newest first?
CREATE INDEX material_requests_failed ON material_requests (uid) WHERE uid > 0 AND status = 'failed';
-- Which were selected, the latest first?
CREATE INDEX material_requests_orders ON material_requests (selected_at, uid) WHERE selected_at IS NOT NULL;
-- Which estimations of this shard are due, by supplier?
CREATE INDEX material_requests_due ON material_requests (shard, supplier_id, due_at) WHERE due_at IS NOT NULL;

-- The rounds of a request that are over; the current one is in the request's row.
CREATE TABLE material_rounds (
    uid                  bigint NOT NULL,
    number               bigint NOT NULL,              -- from 1
    request_id           bigint NOT NULL,
    created_at           bigint NOT NULL,
    supplier_id          text NOT NULL,
    status               text NOT NULL,                -- how it ended: estimated or failed
    failure              text NOT NULL,
    PRIMARY KEY (uid, number)
);

CREATE TABLE products (
    supplier_id          text NOT NULL,
    sku                  text NOT NULL,
    active               boolean NOT NULL,
    digest               bytea NOT NULL,               -- SHA-256 of the canonical product: equal means unchanged
    material_id          bigint NOT NULL,
    material             text NOT NULL,
    material_variant_id  bigint,
    material_variant     text,
    width                double precision,             -- centimetres; so are the next two
    height               double precision,
    depth                double precision,
    weight_kg            double precision,
    production_days      bigint,                       -- business days
    source_updated_at    bigint NOT NULL,              -- the supplier's updated_at, or when it arrived
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    PRIMARY KEY (supplier_id, sku)
);

-- The rate card: what each service of a carrier costs from a day on.
CREATE TABLE rate_services (
    name                 text NOT NULL,
    effective_from       text NOT NULL,                -- Sao Paulo day, YYYY-MM-DD
    carrier              text NOT NULL,
    base_cents           bigint NOT NULL,
    per_kg_cents         bigint NOT NULL,
    minimum_cents        bigint NOT NULL,
    cubage_kg_m3         double precision NOT NULL,    -- kilograms that a cubic metre is charged as
    max_side_cm          double precision NOT NULL,
    max_weight_kg        double precision NOT NULL,    -- of the chargeable weight
    transit_days         bigint NOT NULL,              -- business days
    PRIMARY KEY (name, effective_from)
);
INSERT INTO rate_services VALUES
    ('road',    '2000-01-01', 'Rodovia Cargas',  2500, 180,  3500, 300, 250,   500, 5),
    ('express', '2000-01-01', 'Expresso Aereo',  4000, 650,  6000, 167, 120,    30, 2),
    ('bulky',   '2000-01-01', 'Carga Especial',  15000, 95, 25000, 200, 1200, 10000, 9);

-- ---- Events, deliveries, attempts ----

-- No foreign keys: the rows of an event are written and deleted together, and checking each costs a sixth of the insert. An event
-- gives its deliveries by their primary key, as their ids follow from it: a second index on them costs as much again.
-- The three tables are partitioned by uid, and retention drops whole partitions. Deliveries and attempts have the webhook-id for
-- it, which begins with the uid's day (webhook_border).
CREATE TABLE webhook_events (
    uid                  bigint NOT NULL,
    round                bigint NOT NULL,
    nonce                bigint NOT NULL DEFAULT 0,    -- random; its webhook-ids follow from it, the uid and created_at
    created_at           bigint NOT NULL,
    supplier_id          text NOT NULL,                -- on a database that is spread, the rows of a supplier are together
    trace_id             text NOT NULL,
    trace_parent         text,                         -- as the request's
    body                 bytea NOT NULL,               -- what is signed and sent, the same on every attempt, as internal/pack stores it
    PRIMARY KEY (uid, round)
) PARTITION BY RANGE (uid);

-- Each row is written twice, the second time next to the first, which makes a second entry in the key's index: half-empty leaves
-- have room for it, full ones would be searched and split.
CREATE TABLE webhook_deliveries (
    uid                  bigint NOT NULL,
    round                bigint NOT NULL,
    request_id           bigint NOT NULL,
    attempts             bigint NOT NULL,              -- attempts begun, over all series
    series               bigint NOT NULL,              -- attempts begun since created or redelivered
    next_attempt_at      bigint NOT NULL,              -- while pending and not attempted: when it is due
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    worker               bigint,                       -- which worker attempts it right now; null: none
    -- The last attempt; it moves to webhook_attempts when the next one begins.
    last_started_at      bigint,                       -- null: none yet
    last_duration_us     bigint,                       -- microseconds; null: under way, or interrupted
    last_status          bigint,                       -- HTTP status; null: there was none
    resent_at            bigint,                       -- when it was last sent again after it was delivered; null: never
    id                   text COLLATE "C" NOT NULL,    -- the webhook-id; it follows from the event and the kind of destination
    supplier_id          text NOT NULL,
    destination          text NOT NULL,                -- 'own', or the supplier's id
    status               text NOT NULL,                -- pending, delivered, dead, failed
    last_error           text NOT NULL DEFAULT '',
    last_response        bytea,                        -- the answer's first 1 KiB
    last_url             text,                         -- where it went, without the values of a query; null: to the own endpoint, or not ended
    ended_because        text,                         -- why retention made it dead; null: it did not
    PRIMARY KEY (id) WITH (fillfactor = 45)
) PARTITION BY RANGE (id);
-- Which deliveries to this destination are due?
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (destination, next_attempt_at) WHERE status = 'pending' AND worker IS NULL;
-- Which deliveries does this worker attempt?
CREATE INDEX webhook_deliveries_attempted ON webhook_deliveries (worker) WHERE worker IS NOT NULL;
-- Which deliveries of this status wait, or were given up, newest first? Like the next index it has nothing that a worker attempts:
-- a delivery whose first attempt is begun with it enters both, if at all, when it has ended. uid > 0 keeps other queries off.
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (status, uid, round) WHERE status <> 'delivered' AND worker IS NULL AND uid > 0;
-- Which deliveries go to this supplier's receiver, by status, newest first? A list of all statuses is merged from these, and the
-- time is compared within the index.
CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (destination, status, uid, round, created_at) WHERE destination <> 'own' AND worker IS NULL;

-- Every attempt of a delivery but its last.
CREATE TABLE webhook_attempts (
    number               bigint NOT NULL,              -- over all series, from 1
    started_at           bigint NOT NULL,
    duration_us          bigint,                       -- microseconds; null: interrupted
    status               bigint,                       -- HTTP status; null: there was none
    delivery_id          text COLLATE "C" NOT NULL,
    supplier_id          text NOT NULL,                -- as the event's
    error                text NOT NULL DEFAULT '',
    response             bytea,                        -- the answer's first 1 KiB
    url                  text,                         -- as the delivery's last_url
    PRIMARY KEY (delivery_id, number)
) PARTITION BY RANGE (delivery_id);

-- The partitions of the three tables. The first uid of day n, counted from 1970, is n << 36: borders are known for all time, so
-- partitions are made ahead, and the sequence is moved to a border when its day comes. Where nothing moves it, uids go on in the
-- partition that they are in, which has room for 2^36 a day.
CREATE TABLE webhook_partitions (
    name                 text PRIMARY KEY,             -- suffix of the three tables: the day that it begins with; 0: the first
    first_uid            bigint NOT NULL,
    end_uid              bigint NOT NULL,              -- not of it
    opened_at            bigint,                       -- when uids began to be of it; null: made ahead
    closed_at            bigint,                       -- when they ceased to be
    kept                 text NOT NULL DEFAULT ''      -- why retention did not drop it although all of it is old
);

-- ---- Receivers, workers, shards ----

-- The state of each supplier's receiver, apart from its address. A supplier without a row has nothing waiting and a clean record.
CREATE TABLE webhook_receivers (
    supplier_id          text PRIMARY KEY,
    shard                bigint NOT NULL,              -- follows from supplier_id
    due_at               bigint,                       -- no later than its earliest waiting delivery is due; null: none waits
    catch_up_to          bigint,                       -- all that waits is due, up to this uid; null: it goes by its schedule
    catch_up_uid         bigint NOT NULL DEFAULT 0,    -- of that, what was claimed last
    catch_up_round       bigint NOT NULL DEFAULT 0,    -- that one's round
    address              bigint NOT NULL DEFAULT 0,    -- digest of its address since that changed the last time; 0: it never did
    consecutive_failures bigint NOT NULL DEFAULT 0,
    failing_since        bigint,                       -- null unless five calls in a row failed; later after a resume
    first_failure_at     bigint,                       -- of the failures in a row
    last_success_at      bigint,
    last_failure_at      bigint,
    last_error           text NOT NULL DEFAULT '',
    paused_by            text NOT NULL DEFAULT '',     -- supplier, operator or service; empty: it is not paused
    paused_at            bigint,
    recovering_until     bigint,                       -- so long no other recovery begins; a recovery moves it on; null: none is under way
    updated_at           bigint NOT NULL
) WITH (fillfactor = 70);
-- Which receivers of this shard have something due?
CREATE INDEX webhook_receivers_due ON webhook_receivers (shard, due_at) WHERE due_at IS NOT NULL AND paused_by = '';
-- Which receivers does an operator have to look at? Few rows, and no write to a healthy one changes it.
CREATE INDEX webhook_receivers_ill ON webhook_receivers (supplier_id) WHERE failing_since IS NOT NULL OR paused_by <> '';

-- When a supplier's latest test calls were made. The limit holds over all replicas.
CREATE TABLE webhook_tests (
    supplier_id          text PRIMARY KEY,
    recent               text NOT NULL                 -- their times, as JSON
);

-- Workers that send; one that has not reported for a while that it lives loses its attempts to the others.
CREATE TABLE workers (
    id                   bigint PRIMARY KEY,
    alive_until          bigint NOT NULL,
    leaving              bigint NOT NULL DEFAULT 0     -- 1: it stops, finishes what it began and takes no shards
);

-- Which worker estimates a supplier's requests and sends its deliveries: suppliers are in 32 shards, each owned by one living worker.
CREATE TABLE webhook_shards (
    shard                bigint PRIMARY KEY,
    worker               bigint NOT NULL               -- 0: none
);
INSERT INTO webhook_shards (shard, worker) SELECT n, 0 FROM generate_series(0, 31) AS n;

-- ---- The console's figures and the notices for the operator ----

-- The work of each process in steps of ten seconds, for the console: each adds its own row and deletes what is over an hour old.
CREATE TABLE figures (
    step                 bigint NOT NULL,              -- Unix seconds / 10
    process              bigint NOT NULL,              -- a number of its own for each start
    accepted             bigint NOT NULL,              -- requests, by this process in this step
    delivered            bigint NOT NULL,              -- deliveries, by this process in this step
    role                 text NOT NULL DEFAULT '',     -- api, worker, or both; empty: of no process
    version              text NOT NULL DEFAULT '',
    started_at           bigint NOT NULL DEFAULT 0,     -- the process
    PRIMARY KEY (step, process)
);

-- The shared state, as all processes show it: one of them counts it once a step, each figure up to 100,000.
CREATE TABLE gauges (
    step                 bigint PRIMARY KEY,           -- Unix seconds / 10; an hour is kept
    counted_at           bigint NOT NULL,
    enqueued             bigint NOT NULL,              -- requests
    failed_requests      bigint NOT NULL,
    oldest_us            bigint NOT NULL,              -- microseconds that the oldest enqueued request had waited; 0: none did
    pending              bigint NOT NULL,              -- deliveries
    pending_us           bigint NOT NULL,              -- microseconds that the oldest pending one had waited; 0: none did
    dead                 bigint NOT NULL,
    failed               bigint NOT NULL,
    active               bigint NOT NULL,              -- receivers
    failing              bigint NOT NULL,
    paused               bigint NOT NULL,
    backlog              bigint NOT NULL               -- estimations and deliveries that are due and can be done
);

-- The notices for the operator that are in no event yet. Rows are only added, so that no two transactions wait for each other.
CREATE TABLE operator_notices (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type                 text NOT NULL,
    supplier_id          text NOT NULL,
    subject              text NOT NULL,                -- the id of the delivery or request; empty: the receiver
    paused_by            text NOT NULL,                -- as the receiver's
    error                text NOT NULL,
    at                   bigint NOT NULL
);

-- Events that the operator's receiver has not taken yet. One that sums up takes more in until its first attempt.
CREATE TABLE operator_events (
    id                   text COLLATE "C" PRIMARY KEY, -- the webhook-id
    type                 text NOT NULL,
    supplier_id          text NOT NULL,
    supplier_name        text NOT NULL,
    paused_by            text NOT NULL,                -- as the receiver's
    count                bigint NOT NULL,              -- notices that it sums up
    ids                  text NOT NULL,                -- JSON array of strings, the first 20
    last_error           text NOT NULL,
    at                   bigint NOT NULL,              -- of the first
    due_at               bigint NOT NULL,              -- when it is attempted; during an attempt: when that counts as interrupted
    attempts             bigint NOT NULL               -- begun
);
-- Which events are due?
CREATE INDEX operator_events_due ON operator_events (due_at);

-- ---- Tracker ----

CREATE TABLE tracker_clients (
    number               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id                   text NOT NULL UNIQUE,
    name                 text NOT NULL,
    views                text NOT NULL DEFAULT '[]',   -- JSON array of the granted views, the first is read
    active               boolean NOT NULL DEFAULT true,
    created_at           bigint NOT NULL,
    updated_at           bigint NOT NULL,
    version              bigint NOT NULL DEFAULT 1     -- counts the changes
);

CREATE TABLE tracker_client_keys (
    hash                 bytea PRIMARY KEY,            -- SHA-256
    client_number        bigint NOT NULL REFERENCES tracker_clients (number),
    active_until         bigint,                       -- null: until it is rotated
    created_at           bigint NOT NULL
);
-- Which keys has this client?
CREATE INDEX tracker_client_keys_client ON tracker_client_keys (client_number);

-- The views that were made over tracker_records, with their text as the engine shows it: a view with another text was replaced
-- by its owner, and the counters below are not about it.
CREATE TABLE tracker_views (
    client_number        bigint PRIMARY KEY,
    name                 text NOT NULL UNIQUE,
    definition           text NOT NULL
);

-- The records of devices. client_number is tracker_clients.number, dt_carga the day of the load; the other columns, in Portuguese, are
-- members of the listings and mean what the interface says of them.
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
-- Which records has this client, the latest load day first? This listing and the next order by exactly these keys, NULLS LAST
-- included; one word less and every row is sorted.
CREATE INDEX tracker_records_list ON tracker_records (client_number, dt_carga DESC, id DESC);
-- Which record has each device that pinged on this day?
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

-- The version of a client's records, kept by the same triggers.
CREATE TABLE tracker_versions (
    client_number        bigint PRIMARY KEY,
    version              bigint NOT NULL,              -- changes with every change of the records
    -- Changes only when records of an older version may not be "those up to max_id" any longer: a deletion, an update, or an id
    -- that came late.
    generation           bigint NOT NULL,
    max_id               bigint NOT NULL               -- of the records
);

-- Which state of a view a client's crawl reads, noted with its first page: later pages, of any replica, read the same.
CREATE TABLE tracker_pins (
    client_number        bigint NOT NULL,
    listing              text NOT NULL,
    filter               text NOT NULL,
    page_size            bigint NOT NULL,              -- records
    view                 text NOT NULL,
    generation           bigint NOT NULL,              -- as in tracker_versions; so is the next
    max_id               bigint NOT NULL,
    day                  text NOT NULL,                -- the snapshot's date; empty: there is none
    pinned_at            bigint NOT NULL,
    PRIMARY KEY (client_number, listing, filter, page_size)
);
-- Those of a client that are over, which each note forgets.
CREATE INDEX tracker_pins_age ON tracker_pins (client_number, pinned_at);

-- ---- Scoreboard ----

CREATE TABLE scoreboard_usage (
    requester            text NOT NULL,
    day                  text NOT NULL,                -- civil day in São Paulo, YYYY-MM-DD
    used                 bigint NOT NULL,              -- of the daily quota
    granted              bigint NOT NULL,              -- by the last statement: how it reports it to its caller
    PRIMARY KEY (requester, day)
);

-- ---- Functions of the tracker: they keep tracker_versions and tracker_days ----

-- The version's row comes first and in the clients' order: it makes writers of one client wait for each other.
-- +goose StatementBegin
CREATE FUNCTION tracker_records_inserted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
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
CREATE FUNCTION tracker_records_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
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
CREATE FUNCTION tracker_records_updated() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
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
CREATE FUNCTION tracker_records_truncated() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
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

-- ---- Functions of the partitions ----

-- The lower border of the webhook-ids of a day's uids, as internal/round makes them: ten digits to base 62 of the day and 40 bits of time.
CREATE FUNCTION webhook_border(uid bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT SET search_path FROM CURRENT AS $$
    SELECT 'msg_' || string_agg(substr('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz',
        1 + ((uid >> 36 << 40) / (62::numeric ^ (9 - i))::bigint % 62)::int, 1), '' ORDER BY i)
    FROM generate_series(0, 9) AS i
$$;

-- The first partitions take all until tomorrow's border.
-- +goose StatementBegin
DO $$
DECLARE
    border bigint := (extract(epoch FROM clock_timestamp())::bigint / 86400 + 1) << 36;
BEGIN
    INSERT INTO webhook_partitions VALUES ('0', -9223372036854775808, border, 0);
    EXECUTE format('CREATE TABLE webhook_events_0 PARTITION OF webhook_events FOR VALUES FROM (MINVALUE) TO (%L)', border);
    EXECUTE format('CREATE TABLE webhook_deliveries_0 PARTITION OF webhook_deliveries FOR VALUES FROM (MINVALUE) TO (%L)',
        webhook_border(border));
    EXECUTE format('CREATE TABLE webhook_attempts_0 PARTITION OF webhook_attempts FOR VALUES FROM (MINVALUE) TO (%L)',
        webhook_border(border));
END $$;
-- +goose StatementEnd

-- The body of a round's event, for a statement that reads one request. As part of that statement the look-up would have every
-- partition prepared, also for a request that has no event; here it is that of the uid alone, when it is asked for.
-- +goose StatementBegin
CREATE FUNCTION webhook_event_body(of_uid bigint, of_round bigint) RETURNS bytea
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (SELECT body FROM webhook_events WHERE uid = of_uid AND round = of_round);
END $$;
-- +goose StatementEnd

-- Makes the next partition when there is none ahead, or moves the sequence into it when its day has come, never both: uids of it
-- are given out only after it was committed. It reports whether there was something to do. Attaching waits for no writer and makes
-- none wait. A partition that is closed is left to autovacuum, which comes from then on when a thousand rows were changed, however
-- many there are, and freezes them; a running vacuum of it gives way.
-- +goose StatementBegin
CREATE FUNCTION advance_webhook_partitions(now bigint, days bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    kinds CONSTANT text[] := ARRAY['webhook_events', 'webhook_deliveries', 'webhook_attempts'];
    today bigint := now / 86400000000;
    newest webhook_partitions;
    ahead webhook_partitions;
    parent text;
    part text;
    ends text[];
BEGIN
    SELECT * INTO newest FROM webhook_partitions ORDER BY first_uid DESC LIMIT 1;
    IF newest.opened_at IS NULL THEN
        IF newest.first_uid >> 36 > today THEN
            RETURN false;
        END IF;
        FOR part IN SELECT kind || '_' || name FROM webhook_partitions, unnest(kinds) AS kind
            WHERE closed_at IS NULL AND first_uid < newest.first_uid
        LOOP
            EXECUTE pg_catalog.format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
                autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000, autovacuum_freeze_min_age = 0,
                autovacuum_freeze_table_age = 0, vacuum_truncate = false)', part);
        END LOOP;
        PERFORM setval('request_numbers', newest.first_uid) FROM request_numbers WHERE last_value < newest.first_uid;
        UPDATE webhook_partitions SET closed_at = now WHERE closed_at IS NULL AND first_uid < newest.first_uid;
        UPDATE webhook_partitions SET opened_at = now WHERE first_uid = newest.first_uid;
        RETURN true;
    END IF;
    ahead.first_uid := greatest(newest.end_uid, (today + 1) << 36);
    ahead.end_uid := ahead.first_uid + (greatest(days, 1) << 36);
    ahead.name := to_char(to_timestamp((ahead.first_uid >> 36) * 86400) AT TIME ZONE 'UTC', 'YYYYMMDD');
    FOREACH parent IN ARRAY kinds LOOP
        ends := CASE parent WHEN 'webhook_events' THEN ARRAY[ahead.first_uid::text, ahead.end_uid::text]
            ELSE ARRAY[webhook_border(ahead.first_uid), webhook_border(ahead.end_uid)] END;
        part := parent || '_' || ahead.name;
        EXECUTE pg_catalog.format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING STORAGE)', part, parent);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, ends[1], ends[2]);
    END LOOP;
    INSERT INTO webhook_partitions VALUES (ahead.name, ahead.first_uid, ahead.end_uid);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Drops a partition of which nothing is pending, and returns why it did not; nothing: it is gone. The caller keeps redeliveries out,
-- so nothing becomes pending meanwhile. It waits for a vacuum of its tables, which gives way, before anything waits for it, and for
-- the statements that use the three tables some hundredths of a second: who comes meanwhile waits behind it. It only detaches:
-- deleting files makes every commit wait that is written meanwhile, a third of a second for a million requests.
-- +goose StatementBegin
CREATE FUNCTION drop_webhook_partition(uid bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    suffix text := (SELECT name FROM webhook_partitions WHERE first_uid = uid AND closed_at IS NOT NULL);
    events text := 'webhook_events_' || suffix;
    deliveries text := 'webhook_deliveries_' || suffix;
    attempts text := 'webhook_attempts_' || suffix;
    busy boolean;
BEGIN
    IF suffix IS NULL THEN
        RETURN '';
    END IF;
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I, %I IN SHARE UPDATE EXCLUSIVE MODE', events, deliveries, attempts);
    EXECUTE pg_catalog.format($q$SELECT EXISTS (SELECT FROM %1$I WHERE status = 'pending' AND worker IS NULL)
        OR EXISTS (SELECT FROM %1$I WHERE worker IS NOT NULL)$q$, deliveries) INTO busy;
    IF busy THEN
        RETURN 'deliveries are pending';
    END IF;
    PERFORM set_config('lock_timeout', '30ms', true);
    LOCK TABLE ONLY webhook_events, ONLY webhook_deliveries, ONLY webhook_attempts IN ACCESS EXCLUSIVE MODE;
    EXECUTE pg_catalog.format('ALTER TABLE webhook_events DETACH PARTITION %I', events);
    EXECUTE pg_catalog.format('ALTER TABLE webhook_deliveries DETACH PARTITION %I', deliveries);
    EXECUTE pg_catalog.format('ALTER TABLE webhook_attempts DETACH PARTITION %I', attempts);
    DELETE FROM webhook_partitions WHERE name = suffix;
    RETURN '';
EXCEPTION WHEN lock_not_available THEN
    RETURN 'its tables are in use';
END $$;
-- +goose StatementEnd

-- Deletes one table of a partition that was dropped, and reports whether there was one.
-- +goose StatementBegin
CREATE FUNCTION delete_webhook_table() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '2s' AS $$
DECLARE
    gone name := (SELECT relname FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND NOT relispartition
            AND relname ~ '^webhook_(events|deliveries|attempts)_[0-9]+$'
            AND split_part(relname, '_', 3) NOT IN (SELECT name FROM webhook_partitions)
        ORDER BY relname LIMIT 1);
BEGIN
    IF gone IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE pg_catalog.format('DROP TABLE %I', gone);
    RETURN true;
END $$;
-- +goose StatementEnd

-- They run as the schema's owner, for the roles that deployments/postgres-roles.sql lets.
REVOKE ALL ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint), delete_webhook_table()
    FROM PUBLIC;
