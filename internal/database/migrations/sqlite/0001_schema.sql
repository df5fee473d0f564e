-- +goose Up
-- The schema, written to be read: tables by noun, then triggers. Later migrations change it; `make schema` prints what results.
-- A time is in Unix microseconds, UTC, where nothing else is said: one meaning and one order on both engines. A supplier_id is
-- suppliers.id. The order of columns is PostgreSQL's.

-- ---- Installation ----

-- One row: a copy of the database, or its restore, is the same installation.
CREATE TABLE installation (
    id                   text PRIMARY KEY              -- random
);
INSERT INTO installation VALUES (lower(hex(randomblob(16))));

-- The settings that an operator changed by `api settings`.
CREATE TABLE settings (
    key                  text PRIMARY KEY,
    value                text NOT NULL,
    updated_at           integer NOT NULL
);

-- ---- Suppliers, their keys, sessions and portal ----

CREATE TABLE suppliers (
    id                   text PRIMARY KEY,
    name                 text NOT NULL,
    webhook_url          text NOT NULL DEFAULT '',     -- of the receiver; empty: there is none
    access_ttl           integer NOT NULL,             -- seconds that an access token is valid
    refresh_ttl          integer NOT NULL,             -- seconds that a refresh token is valid
    scopes               text NOT NULL,                -- separated by spaces
    active               boolean NOT NULL DEFAULT true,
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    receiver_concurrency integer                       -- calls at once to the receiver, of all workers; null: RECEIVER_CONCURRENCY
);
-- Which suppliers have a receiver?
CREATE INDEX suppliers_with_receiver ON suppliers (id) WHERE active AND webhook_url <> '';

CREATE TABLE supplier_api_keys (
    hash                 blob PRIMARY KEY,             -- SHA-256
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    last4                text NOT NULL,                -- the key's last four characters, to show
    active_until         integer,                      -- null: until it is rotated
    created_at           integer NOT NULL
);
-- Which keys has this supplier?
CREATE INDEX supplier_api_keys_supplier ON supplier_api_keys (supplier_id);

-- The secrets that sign a supplier's webhooks.
CREATE TABLE supplier_webhook_secrets (
    id                   text PRIMARY KEY,
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    sealed               blob NOT NULL,                -- AES-256-GCM, the id as associated data
    active_until         integer,                      -- null: until it is rotated
    created_at           integer NOT NULL
);
-- Which secrets sign for this supplier?
CREATE INDEX supplier_webhook_secrets_supplier ON supplier_webhook_secrets (supplier_id);

-- A session is a family of refresh tokens: the handle stays, the secret changes at each rotation.
CREATE TABLE sessions (
    id                   text PRIMARY KEY,
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    handle_hash          blob NOT NULL UNIQUE,         -- SHA-256
    current_hash         blob NOT NULL,                -- SHA-256 of the secret that is valid now
    generation           integer NOT NULL DEFAULT 1,   -- rotations, and one
    created_at           integer NOT NULL,
    last_used_at         integer NOT NULL,
    expires_at           integer NOT NULL,
    expiry_day           integer NOT NULL              -- the day of expires_at, since 1970: indexed, it costs a rotation nothing
);
-- Which sessions has this supplier? Of all: were it of live ones only, a plan made over the empty table might go through them.
CREATE INDEX sessions_supplier ON sessions (supplier_id, created_at);
-- Which sessions may be deleted?
CREATE INDEX sessions_expiry ON sessions (expiry_day);

-- Links into the portal. One is deleted when it is used, so it works once whatever replica it comes to.
CREATE TABLE portal_links (
    hash                 blob PRIMARY KEY,             -- SHA-256 of what the supplier has
    supplier_id          text NOT NULL REFERENCES suppliers (id),
    secure               boolean NOT NULL,             -- whether the session's cookie is for https alone
    expires_at           integer NOT NULL
);
-- Which links has this supplier?
CREATE INDEX portal_links_supplier ON portal_links (supplier_id);

-- Browser sessions of suppliers, and of operators in the console. One that ended is deleted.
CREATE TABLE portal_sessions (
    hash                 blob PRIMARY KEY,             -- SHA-256 of what the browser has
    supplier_id          text REFERENCES suppliers (id), -- null: of the console
    created_at           integer NOT NULL,
    expires_at           integer NOT NULL
);
-- Which sessions has this supplier?
CREATE INDEX portal_sessions_supplier ON portal_sessions (supplier_id);

-- ---- Requests, rounds, products, rate card ----

CREATE TABLE sequences (
    name                 text PRIMARY KEY,
    value                integer NOT NULL              -- the last one given out
);
INSERT INTO sequences VALUES ('request_numbers', 0); -- uids and workers: a number is given out once

-- All that becomes of a request is written by one UPDATE, its estimates next to it: each further row costs as much again.
CREATE TABLE material_requests (
    uid                  integer NOT NULL CHECK (uid > 0), -- of the accepted request, never used again; it keys all that travels
    id                   integer NOT NULL,             -- the supplier's own; it may be used again after retention
    round                integer NOT NULL DEFAULT 1,   -- which estimation this is; a redelivery keeps it
    received             integer NOT NULL DEFAULT 0,   -- the latest round whose own event was taken
    tries                integer NOT NULL DEFAULT 0,   -- estimations of this round that came to nothing
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    shard                integer NOT NULL,             -- follows from supplier_id: whose owner estimates it
    due_at               integer,                      -- when its estimation is due; null: none is wanted
    round_at             integer,                      -- when this round began; null: with the request
    posted_at            integer,                      -- timestamp of the latest event of this round that another service posted
    selected_at          integer,                      -- null: no estimate is selected
    supplier_id          text NOT NULL,
    status               text NOT NULL,                -- enqueued, estimated, selected, failed
    shop_code            text NOT NULL,
    digest               blob NOT NULL,                -- SHA-256 of the canonical request: equal means same request
    trace_id             text NOT NULL,                -- X-Request-Id of the call that made it
    trace_parent         text,                         -- that call's span (W3C Trace Context); null: it is not traced
    selected_estimate_id text,                         -- null: none is selected
    failure              text NOT NULL DEFAULT '',     -- why it is failed, in a sentence for the supplier
    webhook_ids          text NOT NULL DEFAULT '',     -- of the events that other services posted, each between line breaks
    body                 blob NOT NULL,                -- the canonical request, JSON, as internal/pack stores it
    estimates            text,                         -- JSON array; null: none received, or those of the event of round "received"
    unavailable          text,                         -- JSON array, as estimates
    PRIMARY KEY (supplier_id, id)
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
    uid                  integer NOT NULL,
    number               integer NOT NULL,             -- from 1
    request_id           integer NOT NULL,
    created_at           integer NOT NULL,
    supplier_id          text NOT NULL,
    status               text NOT NULL,                -- how it ended: estimated or failed
    failure              text NOT NULL,
    PRIMARY KEY (uid, number)
);

CREATE TABLE products (
    supplier_id          text NOT NULL,
    sku                  text NOT NULL,
    active               boolean NOT NULL,
    digest               blob NOT NULL,                -- SHA-256 of the canonical product: equal means unchanged
    material_id          integer NOT NULL,
    material             text NOT NULL,
    material_variant_id  integer,
    material_variant     text,
    width                real,                         -- centimetres; so are the next two
    height               real,
    depth                real,
    weight_kg            real,
    production_days      integer,                      -- business days
    source_updated_at    integer NOT NULL,             -- the supplier's updated_at, or when it arrived
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    PRIMARY KEY (supplier_id, sku)
);

-- The rate card: what each service of a carrier costs from a day on.
CREATE TABLE rate_services (
    name                 text NOT NULL,
    effective_from       text NOT NULL,                -- Sao Paulo day, YYYY-MM-DD
    carrier              text NOT NULL,
    base_cents           integer NOT NULL,
    per_kg_cents         integer NOT NULL,
    minimum_cents        integer NOT NULL,
    cubage_kg_m3         real NOT NULL,                -- kilograms that a cubic metre is charged as
    max_side_cm          real NOT NULL,
    max_weight_kg        real NOT NULL,                -- of the chargeable weight
    transit_days         integer NOT NULL,             -- business days
    PRIMARY KEY (name, effective_from)
);
INSERT INTO rate_services VALUES
    ('road',    '2000-01-01', 'Rodovia Cargas',  2500, 180,  3500, 300, 250,   500, 5),
    ('express', '2000-01-01', 'Expresso Aereo',  4000, 650,  6000, 167, 120,    30, 2),
    ('bulky',   '2000-01-01', 'Carga Especial',  15000, 95, 25000, 200, 1200, 10000, 9);

-- ---- Events, deliveries, attempts ----

-- No foreign keys: the rows of an event are written and deleted together, and checking each costs a sixth of the insert. An event
-- gives its deliveries by their primary key, as their ids follow from it: a second index on them costs as much again.
CREATE TABLE webhook_events (
    uid                  integer NOT NULL,
    round                integer NOT NULL,
    nonce                integer NOT NULL DEFAULT 0,   -- random; its webhook-ids follow from it, the uid and created_at
    created_at           integer NOT NULL,
    supplier_id          text NOT NULL,                -- on a database that is spread, the rows of a supplier are together
    trace_id             text NOT NULL,
    trace_parent         text,                         -- as the request's
    body                 blob NOT NULL,                -- what is signed and sent, the same on every attempt, as internal/pack stores it
    PRIMARY KEY (uid, round)
);

CREATE TABLE webhook_deliveries (
    uid                  integer NOT NULL,
    round                integer NOT NULL,
    request_id           integer NOT NULL,
    attempts             integer NOT NULL,             -- attempts begun, over all series
    series               integer NOT NULL,             -- attempts begun since created or redelivered
    next_attempt_at      integer NOT NULL,             -- while pending and not attempted: when it is due
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    worker               integer,                      -- which worker attempts it right now; null: none
    -- The last attempt; it moves to webhook_attempts when the next one begins.
    last_started_at      integer,                      -- null: none yet
    last_duration_us     integer,                      -- microseconds; null: under way, or interrupted
    last_status          integer,                      -- HTTP status; null: there was none
    resent_at            integer,                      -- when it was last sent again after it was delivered; null: never
    id                   text NOT NULL,                -- the webhook-id; it follows from the event and the kind of destination
    supplier_id          text NOT NULL,
    destination          text NOT NULL,                -- 'own', or the supplier's id
    status               text NOT NULL,                -- pending, delivered, dead, failed
    last_error           text NOT NULL DEFAULT '',
    last_response        blob,                         -- the answer's first 1 KiB
    last_url             text,                         -- where it went, without the values of a query; null: to the own endpoint, or not ended
    ended_because        text,                         -- why retention made it dead; null: it did not
    PRIMARY KEY (id)
);
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
    number               integer NOT NULL,             -- over all series, from 1
    started_at           integer NOT NULL,
    duration_us          integer,                      -- microseconds; null: interrupted
    status               integer,                      -- HTTP status; null: there was none
    delivery_id          text NOT NULL,
    supplier_id          text NOT NULL,                -- as the event's
    error                text NOT NULL DEFAULT '',
    response             blob,                         -- the answer's first 1 KiB
    url                  text,                         -- as the delivery's last_url
    PRIMARY KEY (delivery_id, number)
);

-- ---- Receivers, workers, shards ----

-- The state of each supplier's receiver, apart from its address. A supplier without a row has nothing waiting and a clean record.
CREATE TABLE webhook_receivers (
    supplier_id          text PRIMARY KEY,
    shard                integer NOT NULL,             -- follows from supplier_id
    due_at               integer,                      -- no later than its earliest waiting delivery is due; null: none waits
    catch_up_to          integer,                      -- all that waits is due, up to this uid; null: it goes by its schedule
    catch_up_uid         integer NOT NULL DEFAULT 0,   -- of that, what was claimed last
    catch_up_round       integer NOT NULL DEFAULT 0,   -- that one's round
    address              integer NOT NULL DEFAULT 0,   -- digest of its address since that changed the last time; 0: it never did
    consecutive_failures integer NOT NULL DEFAULT 0,
    failing_since        integer,                      -- null unless five calls in a row failed; later after a resume
    first_failure_at     integer,                      -- of the failures in a row
    last_success_at      integer,
    last_failure_at      integer,
    last_error           text NOT NULL DEFAULT '',
    paused_by            text NOT NULL DEFAULT '',     -- supplier, operator or service; empty: it is not paused
    paused_at            integer,
    recovering_until     integer,                      -- so long no other recovery begins; a recovery moves it on; null: none is under way
    updated_at           integer NOT NULL
);
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
    id                   integer PRIMARY KEY,
    alive_until          integer NOT NULL,
    leaving              integer NOT NULL DEFAULT 0    -- 1: it stops, finishes what it began and takes no shards
);

-- Which worker estimates a supplier's requests and sends its deliveries: suppliers are in 32 shards, each owned by one living worker.
CREATE TABLE webhook_shards (
    shard                integer PRIMARY KEY,
    worker               integer NOT NULL              -- 0: none
);
INSERT INTO webhook_shards (shard, worker) WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 31)
    SELECT n, 0 FROM n;

-- ---- The console's figures and the notices for the operator ----

-- The work of each process in steps of ten seconds, for the console: each adds its own row and deletes what is over an hour old.
CREATE TABLE figures (
    step                 integer NOT NULL,              -- Unix seconds / 10
    process              integer NOT NULL,              -- a number of its own for each start
    accepted             integer NOT NULL,              -- requests, by this process in this step
    delivered            integer NOT NULL,              -- deliveries, by this process in this step
    role                 text NOT NULL DEFAULT '',     -- api, worker, or both; empty: of no process
    version              text NOT NULL DEFAULT '',
    started_at           integer NOT NULL DEFAULT 0,    -- the process
    PRIMARY KEY (step, process)
) WITHOUT ROWID;

-- The shared state, as all processes show it: one of them counts it once a step, each figure up to 100,000.
CREATE TABLE gauges (
    step                 integer PRIMARY KEY,           -- Unix seconds / 10; an hour is kept
    counted_at           integer NOT NULL,
    enqueued             integer NOT NULL,              -- requests
    failed_requests      integer NOT NULL,
    oldest_us            integer NOT NULL,              -- microseconds that the oldest enqueued request had waited; 0: none did
    pending              integer NOT NULL,              -- deliveries
    pending_us           integer NOT NULL,              -- microseconds that the oldest pending one had waited; 0: none did
    dead                 integer NOT NULL,
    failed               integer NOT NULL,
    active               integer NOT NULL,              -- receivers
    failing              integer NOT NULL,
    paused               integer NOT NULL,
    backlog              integer NOT NULL               -- estimations and deliveries that are due and can be done
);

-- The notices for the operator that are in no event yet. Rows are only added, so that no two transactions wait for each other.
CREATE TABLE operator_notices (
    id                   integer PRIMARY KEY AUTOINCREMENT,
    type                 text NOT NULL,
    supplier_id          text NOT NULL,
    subject              text NOT NULL,                -- the id of the delivery or request; empty: the receiver
    paused_by            text NOT NULL,                -- as the receiver's
    error                text NOT NULL,
    at                   integer NOT NULL
);

-- Events that the operator's receiver has not taken yet. One that sums up takes more in until its first attempt.
CREATE TABLE operator_events (
    id                   text PRIMARY KEY,             -- the webhook-id
    type                 text NOT NULL,
    supplier_id          text NOT NULL,
    supplier_name        text NOT NULL,
    paused_by            text NOT NULL,                -- as the receiver's
    count                integer NOT NULL,             -- notices that it sums up
    ids                  text NOT NULL,                -- JSON array of strings, the first 20
    last_error           text NOT NULL,
    at                   integer NOT NULL,             -- of the first
    due_at               integer NOT NULL,             -- when it is attempted; during an attempt: when that counts as interrupted
    attempts             integer NOT NULL              -- begun
);
-- Which events are due?
CREATE INDEX operator_events_due ON operator_events (due_at);

-- ---- Tracker ----

CREATE TABLE tracker_clients (
    number               integer PRIMARY KEY AUTOINCREMENT,
    id                   text NOT NULL UNIQUE,
    name                 text NOT NULL,
    views                text NOT NULL DEFAULT '[]',   -- JSON array of the granted views, the first is read
    active               boolean NOT NULL DEFAULT true,
    created_at           integer NOT NULL,
    updated_at           integer NOT NULL,
    version              integer NOT NULL DEFAULT 1    -- counts the changes
);

CREATE TABLE tracker_client_keys (
    hash                 blob PRIMARY KEY,             -- SHA-256
    client_number        integer NOT NULL REFERENCES tracker_clients (number),
    active_until         integer,                      -- null: until it is rotated
    created_at           integer NOT NULL
);
-- Which keys has this client?
CREATE INDEX tracker_client_keys_client ON tracker_client_keys (client_number);

-- The views that were made over tracker_records, with their text as the engine shows it: a view with another text was replaced
-- by its owner, and the counters below are not about it.
CREATE TABLE tracker_views (
    client_number        integer PRIMARY KEY,
    name                 text NOT NULL UNIQUE,
    definition           text NOT NULL
);

-- The records of devices. client_number is tracker_clients.number, dt_carga the day of the load; the other columns, in Portuguese, are
-- members of the listings and mean what the interface says of them.
CREATE TABLE tracker_records (
    id                   integer PRIMARY KEY AUTOINCREMENT,
    client_number        integer NOT NULL,
    dt_carga             text NOT NULL,                -- dates are YYYY-MM-DD, times HH:mm:ss
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
-- Which records has this client, the latest load day first? This listing and the next order by exactly these keys.
-- A descending index has nulls last without saying so.
CREATE INDEX tracker_records_list ON tracker_records (client_number, dt_carga DESC, id DESC);
-- Which record has each device that pinged on this day?
CREATE INDEX tracker_records_snapshot ON tracker_records (client_number, data_de_ping DESC, imei,
    hora_de_ping DESC, dt_carga DESC, id DESC);

-- How many records each load day has, kept by triggers so that every loader keeps it.
CREATE TABLE tracker_days (
    client_number        integer NOT NULL,
    dt_carga             text NOT NULL,
    records              integer NOT NULL,
    PRIMARY KEY (client_number, dt_carga)
) WITHOUT ROWID;

-- The version of a client's records, kept by the same triggers.
CREATE TABLE tracker_versions (
    client_number        integer PRIMARY KEY,
    version              integer NOT NULL,             -- changes with every change of the records
    -- Changes only when records of an older version may not be "those up to max_id" any longer: a deletion, an update, or an id
    -- that came late.
    generation           integer NOT NULL,
    max_id               integer NOT NULL              -- of the records
);

-- Which state of a view a client's crawl reads, noted with its first page: later pages, of any replica, read the same.
CREATE TABLE tracker_pins (
    client_number        integer NOT NULL,
    listing              text NOT NULL,
    filter               text NOT NULL,
    page_size            integer NOT NULL,             -- records
    view                 text NOT NULL,
    generation           integer NOT NULL,             -- as in tracker_versions; so is the next
    max_id               integer NOT NULL,
    day                  text NOT NULL,                -- the snapshot's date; empty: there is none
    pinned_at            integer NOT NULL,
    PRIMARY KEY (client_number, listing, filter, page_size)
);
-- Those of a client that are over, which each note forgets.
CREATE INDEX tracker_pins_age ON tracker_pins (client_number, pinned_at);

-- ---- Scoreboard ----

CREATE TABLE scoreboard_usage (
    requester            text NOT NULL,
    day                  text NOT NULL,                -- civil day in São Paulo, YYYY-MM-DD
    used                 integer NOT NULL,             -- of the daily quota
    granted              integer NOT NULL,             -- by the last statement: how it reports it to its caller
    PRIMARY KEY (requester, day)
);

-- ---- Triggers of the tracker: they keep tracker_versions and tracker_days ----

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
